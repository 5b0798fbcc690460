"""Runs move from the spool to a database, and from there to another one: all of them, once."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.history.checked import check
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.spool import Spool
from mlir_matrix.history.store import Store
from mlir_matrix.history.transfer import ingest, prune, push
from support.recordings import TIMES, recording, result

COSTS = {"exact": {"instructions": 5}, "absent": {}, "operations": {}, "compile": []}
IR = (("import", "a" * 64), ("bufferize", "b" * 64))
ALL = "SELECT r.id, t.id, nr, b.digest, state, results.executed, ms, error_used, max_ulp, s.digest, inputs FROM results"
JOINS = (
    "JOIN runs r ON r.key = run JOIN tests t ON t.key = test JOIN behaviours b ON b.key = behaviour "
    "JOIN sets s ON s.key = results.pins"
)


def rows(store: Store) -> list[tuple[object, ...]]:
    with store.reading() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(f"{ALL} {JOINS} ORDER BY 1, 2, 3")]


def test_the_spool_is_emptied(tmp_path: Path, store: Store) -> None:
    spool = Spool(tmp_path)
    for day in range(3):
        spool.add(recording([result("a")], day))
    warnings: list[str] = []
    assert ingest(spool, store, TIMES[3], warnings.append) == 3
    assert (spool.files(), warnings, len(rows(store))) == ([], [], 3)
    assert ingest(spool, store, TIMES[3], warnings.append) == 0


def test_what_is_no_run_is_set_aside_and_stops_no_other(tmp_path: Path, store: Store) -> None:
    spool = Spool(tmp_path)
    spool.add(recording([result("a")]))
    spool.add({**recording([result("a")]), "schema": "mlir-matrix/history-run/v9"})
    spool.add({**recording([result("a")]), "tests": [[0]]})
    spool.add(recording([result("a")]))
    whole = spool.files()[-1]
    (whole.parent / f"{whole.name}-cut").write_bytes(whole.read_bytes()[:-20])
    (whole.parent / f"{whole.name}-folder").mkdir()
    os.mkfifo(whole.parent / f"{whole.name}-pipe")
    (whole.parent / f"{whole.name}-zero").symlink_to("/dev/zero")
    warnings: list[str] = []
    assert ingest(spool, store, TIMES[3], warnings.append) == 2
    parts = (
        "upgrade mlir-matrix",
        "damaged",
        "-cut: set aside",
        *(f"-{kind}: set aside" for kind in ("folder", "pipe", "zero")),
    )
    assert [part for each in warnings for part in parts if part in each] == list(parts)
    assert len(list((tmp_path / "history" / "rejected").iterdir())) == 5
    # What a newer program wrote waits for one.
    assert len(spool.files()) == 1


def test_what_cannot_be_read_stays_and_stops_no_other(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root, no file of an ordinary disk refuses to be read."""
    spool = Spool(tmp_path)
    for _ in range(2):
        spool.add(recording([result("a")]))
    broken = spool.files()[0]
    real = os.open

    def opened(path: str | Path, *rest: int) -> int:
        if Path(path) == broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(path, *rest)

    monkeypatch.setattr(os, "open", opened)
    warnings: list[str] = []
    assert ingest(spool, store, TIMES[3], warnings.append) == 1
    assert (spool.files(), warnings) == (
        [broken],
        [f"{broken}: stays there: it cannot be read: Input/output error"],
    )


def test_nothing_is_lost_where_the_database_fails(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.add(recording([result("a")]))
    (tmp_path / "damaged").write_bytes(b"no database" * 100)
    with pytest.raises(InfrastructureError, match="new runs stay on this machine"):
        ingest(spool, Store(f"sqlite:///{tmp_path / 'damaged'}"), TIMES[3], print)
    assert len(spool.files()) == 1


def test_a_start_in_the_future_is_reported(tmp_path: Path, store: Store) -> None:
    spool = Spool(tmp_path)
    spool.add(recording([result("a")], 9))
    warnings: list[str] = []
    assert ingest(spool, store, TIMES[3], warnings.append) == 1
    assert "in the future: a clock of one or here is wrong" in warnings[0]


def test_a_push_copies_what_is_there(tmp_path: Path, store: Store) -> None:
    server = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    first = recording(
        [
            result("a", pins={"llvm": "22"}),
            result("b", "crashed", metrics={"error_used": 0.5}),
            result("a", costs=COSTS),
            result("c", ir=IR),
        ]
    )
    for each in (first, recording([result("a", cached=True)], 1, host="two"), recording([], 2, same_as=first["id"])):
        store.add(check(each), TIMES[3])
    server.add(check(first), TIMES[3])
    assert push(store, server, TIMES[4]) == (2, 1)
    assert rows(server) == rows(store)
    assert push(store, server, TIMES[4]) == (0, 0)
    for each in (server, store):
        with each.reading() as connection:
            (shown,), _ = Questions(each, connection).show(["jax/p/t/a"])
            levels = connection.exec_driver_sql("SELECT levels FROM results JOIN ir ON ir.key = results.ir").all()
        assert [ended.get("costs") for ended in shown["recent"]] == [None, COSTS["exact"], None]
        assert [json.loads(row.levels) for row in levels] == [[list(level) for level in IR]]
    with server.reading() as connection:
        query = "SELECT id, same_as, host, version, command, arguments, catalogs, started, ended, total FROM runs ORDER BY id"
        there = connection.exec_driver_sql(query).all()
    with store.reading() as connection:
        assert connection.exec_driver_sql(query).all() == there
    server.close()


def test_ir_is_removed_with_the_last_result_that_has_it(store: Store) -> None:
    store.add(check(recording([result("a", ir=IR), result("b", ir=(("import", "b" * 64),))])), TIMES[0])
    store.add(check(recording([result("a", ir=IR)], 2)), TIMES[2])
    prune(store, TIMES[1], TIMES[3])
    store.add(check(recording([result("c", ir=(("import", "c" * 64),)), result("a", ir=IR)], 4)), TIMES[4])
    with store.reading() as connection:
        rows = connection.exec_driver_sql(
            "SELECT levels FROM results JOIN ir ON ir.key = ir ORDER BY run, levels"
        ).all()
    first_digests = [json.loads(row.levels)[0][1][0] for row in rows]
    assert first_digests == ["a", "a", "c"]


def test_what_a_server_removed_is_not_pushed_again(tmp_path: Path, store: Store) -> None:
    server = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    store.add(check(recording([result("a")])), TIMES[3])
    assert push(store, server, TIMES[4]) == (1, 0)
    assert prune(server, TIMES[5], TIMES[6]) == 1
    assert push(store, server, TIMES[7]) == (0, 0)
    assert rows(server) == []
    server.close()
