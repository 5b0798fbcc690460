"""Databases of runs: what is added is there once, older schemas are migrated, and what is wrong is said clearly."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.history import store as module
from mlir_matrix.history.checked import check
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.store import Store
from mlir_matrix.history.trends import Trends
from support.first_schema import make_old_database
from support.recordings import TIMES, first_bad, recording, result

LATER = """
import sqlalchemy as sa
from alembic import op
revision = "6"
down_revision = "5"
def upgrade():
    op.add_column("runs", sa.Column("label", sa.Text))
"""


def contents(file: Path) -> list[list[tuple[object, ...]]]:
    with closing(sqlite3.connect(file)) as database:
        tables = ("runs", "tests", "behaviours", "sets", "results")
        return [database.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]


def test_a_run_is_there_once(store: Store) -> None:
    run = check(recording([result("a"), result("b", "crashed"), result("a", "crashed")]))
    assert store.add(run, TIMES[0])
    before = contents(Path(store.name))
    assert not store.add(run, TIMES[1])
    assert contents(Path(store.name)) == before
    assert [len(rows) for rows in before] == [1, 2, 2, 1, 3]


def test_many_add_at_once(tmp_path: Path) -> None:
    """Each has a connection of its own, and there are two pushes of each run."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    runs = [check(recording([result(f"t{number % 7}"), result("b", "crashed", str(number))])) for number in range(20)]

    def add(number: int) -> int:
        store = Store(url)
        try:
            return sum(store.add(run, TIMES[0]) for run in runs[number % 2 :: 2])
        finally:
            store.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(add, range(4))) == 20
    assert [len(rows) for rows in contents(tmp_path / "history.sqlite")] == [20, 8, 2, 1, 40]


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Files of this process end at a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_run_that_does_not_fit_is_not_there(store: Store) -> None:
    store.add(check(recording([result("a")])), TIMES[0])
    large = check(recording([result(f"t{number}") for number in range(5000)]))
    with (
        small_files(200_000),
        pytest.raises(InfrastructureError, match=r"history\.sqlite: .*new runs stay on this machine"),
    ):
        store.add(large, TIMES[0])
    store.close()
    assert [len(rows) for rows in contents(Path(store.name))][:2] == [1, 1]
    assert store.add(large, TIMES[0])


def test_it_waits_for_another_process_that_makes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE other (key)")
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.2, other.rollback)
        end.start()
        store = Store(f"sqlite:///{path}")
        assert store.add(check(recording([result("a")])), TIMES[0])
        end.join()
    store.close()


def test_a_locked_database(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add(check(recording([result("a")])), TIMES[0])
    monkeypatch.setattr(module, "_PATIENCE", 0)
    other = Store(f"sqlite:///{store.name}")
    with store.writing(), pytest.raises(InfrastructureError, match="another process has locked it"):
        other.add(check(recording([result("a")])), TIMES[0])
    assert other.add(check(recording([result("a")])), TIMES[0])
    other.close()


@pytest.mark.parametrize("data", [b"no database" * 100, b"SQLite format 3\0" + b"\1" * 5000])
def test_a_damaged_database(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(data)
    with pytest.raises(InfrastructureError, match="move it away, and a new one is made"):
        Store(f"sqlite:///{file}").add(check(recording([result("a")])), TIMES[0])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o500)
    with pytest.raises(InfrastructureError, match="cannot be opened or made"):
        Store(f"sqlite:///{tmp_path / 'folder' / 'x.sqlite'}").add(check(recording([result("a")])), TIMES[0])


def test_a_missing_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(InfrastructureError, match="cannot be opened or made"),
        Store(f"sqlite:///{tmp_path}/a/b").reading(),
    ):
        pass


def test_an_older_schema_is_migrated(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of today is older than a program with one more migration."""
    store.add(check(recording([result("a")])), TIMES[0])
    before = contents(Path(store.name))
    shutil.copytree(module.MIGRATIONS, tmp_path / "migrations")
    (tmp_path / "migrations" / "versions" / "v6.py").write_text(LATER)
    monkeypatch.setattr(module, "MIGRATIONS", tmp_path / "migrations")
    monkeypatch.setattr(module, "REVISION", "6")
    newer = Store(f"sqlite:///{store.name}")
    with newer.reading() as connection:
        assert connection.exec_driver_sql("SELECT id, label FROM runs").one()[1] is None
    assert newer.add(check(recording([result("a")])), TIMES[0])
    newer.close()
    assert contents(Path(store.name))[0][0][:-1] == before[0][0]


def test_runs_of_the_first_schema_come_into_the_order_of_their_starts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    runs = [
        check(recording([result("a", outcome)], day)) for day, outcome in ((5, "pass"), (2, "crashed"), (2, "pass"))
    ]
    make_old_database(url, runs, tmp_path / "first")
    with closing(sqlite3.connect(tmp_path / "history.sqlite", isolation_level=None)) as database:
        # Its times were not checked.
        database.execute("UPDATE runs SET ended = '2026-02-30T00:00:00.000Z' WHERE id = ?", [runs[1].id])
        database.execute("UPDATE runs SET stored = started WHERE id = ?", [runs[1].id])
    store = Store(url)
    with store.reading() as connection:
        questions = Questions(store, connection)
        assert [run["id"] for run in questions.runs()[0]] == [runs[0].id, runs[2].id, runs[1].id]
        (shown,), _ = questions.show(["jax/**"])
    assert [each["run"] for each in shown["recent"]] == [runs[1].id, runs[2].id, runs[0].id]
    assert store.add(check(recording([result("a")], 1)), TIMES[300])
    assert not store.add(runs[0], TIMES[300])
    store.close()


def test_clocks_at_1970(tmp_path: Path) -> None:
    """Questions need keys above 0, and a new key may be another run's old one."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    first = recording([result("a", "crashed")])
    first["run"]["started"] = "1970-01-01T00:00:00.002Z"
    make_old_database(url, [check(first), check(recording([result("a")], 1))], tmp_path / "first")
    early = recording([result("b", "crashed")])
    early["run"]["started"] = "1960-01-01T00:00:00.000Z"
    store = Store(url)
    assert store.add(check(early), TIMES[300])
    with store.reading() as connection:
        (found,), _ = first_bad(Questions(store, connection), [])
    assert found["first_bad"]["id"] == early["id"]
    store.close()


def test_a_run_that_comes_late_is_not_the_latest(store: Store) -> None:
    runs = [
        check(recording([result("a", outcome)], day)) for day, outcome in ((5, "pass"), (2, "crashed"), (9, "pass"))
    ]
    for run in runs:
        # The last clock is fast: that run has not started when it arrives.
        store.add(run, TIMES[6])
    with store.reading() as connection:
        questions = Questions(store, connection)
        assert [run["started"] for run in questions.runs()[0]] == [TIMES[9], TIMES[5], TIMES[2]]
        assert first_bad(questions, []) == ([], 0)
    store.add(check(recording([result("a", "crashed")], 8)), TIMES[8])
    with store.reading() as connection:
        assert Questions(store, connection).runs()[0][0]["started"] == TIMES[8]


def test_a_migration_that_fails_changes_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add(check(recording([result("a")])), TIMES[0])
    before = contents(Path(store.name))
    shutil.copytree(module.MIGRATIONS, tmp_path / "migrations")
    (tmp_path / "migrations" / "versions" / "v6.py").write_text(LATER + '    op.execute("DELETE FROM absent")\n')
    monkeypatch.setattr(module, "MIGRATIONS", tmp_path / "migrations")
    monkeypatch.setattr(module, "REVISION", "6")
    newer = Store(f"sqlite:///{store.name}")
    with pytest.raises(InfrastructureError, match="its table absent is missing"), newer.reading():
        pass
    newer.close()
    assert contents(Path(store.name)) == before


def test_a_newer_schema_is_left_alone(store: Store) -> None:
    store.add(check(recording([result("a")])), TIMES[0])
    with closing(sqlite3.connect(store.name, isolation_level=None)) as database:
        database.execute("UPDATE alembic_version SET version_num = '9'")
    other = Store(f"sqlite:///{store.name}")
    with pytest.raises(InfrastructureError, match=r"its schema is 9, newer than 5, .*; upgrade mlir-matrix"):
        other.add(check(recording([result("a")])), TIMES[0])
    other.close()


def test_a_schema_that_no_release_has(store: Store) -> None:
    store.add(check(recording([result("a")])), TIMES[0])
    with closing(sqlite3.connect(store.name, isolation_level=None)) as database:
        database.execute("UPDATE alembic_version SET version_num = '0'")
    other = Store(f"sqlite:///{store.name}")
    with pytest.raises(InfrastructureError, match="its schema is 0, which no release of this program has; restore"):
        other.add(check(recording([result("a")])), TIMES[0])
    other.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [("nowhere", "is not the URL"), ("", "is not the URL"), ("mysql://a/b", "mysql: unsupported database")],
)
def test_what_is_no_database(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Store(url)


def test_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN", (0.0, 0.0))
    # The path of a socket has at most 107 bytes, which a folder of the test may exceed.
    store = Store("postgresql://user:secret@/x?host=/absent/folder")
    with pytest.raises(InfrastructureError) as caught:
        store.add(check(recording([result("a")])), TIMES[0])
    assert "No such file" in str(caught.value)
    assert "runs stay on this machine" in str(caught.value)
    assert "secret" not in str(caught.value)


QUESTIONS: dict[str, Callable[[Questions], object]] = {
    "runs": Questions.runs,
    "show": lambda questions: questions.show(["jax/**"]),
    "diff": lambda questions: questions.outcomes("latest"),
    "first-bad": lambda questions: first_bad(questions, []),
    "snapshot": lambda questions: Trends(questions).snapshot(""),
}


@pytest.mark.parametrize("table", ["alembic_version", "runs", "tests", "behaviours", "sets", "results", "months"])
def test_a_table_that_is_missing_is_named(store: Store, table: str) -> None:
    store.add(check(recording([result("a", "crashed")])), TIMES[0])
    store.close()
    with closing(sqlite3.connect(store.name, isolation_level=None)) as database:
        database.execute(f"DROP TABLE {table}")
    said = []
    for ask in QUESTIONS.values():
        other = Store(f"sqlite:///{store.name}")
        try:
            with other.reading() as connection:
                ask(Questions(other, connection))
        except InfrastructureError as error:
            said.append(str(error))
        other.close()
    assert said
    assert all(f"its table {table} is missing; restore a backup, or move the database away" in each for each in said)


@pytest.mark.parametrize("revision", ["0", "x", "\u00b2"])
def test_a_schema_that_no_version_has_is_not_called_newer(store: Store, revision: str) -> None:
    store.add(check(recording([result("a")])), TIMES[0])
    with closing(sqlite3.connect(store.name, isolation_level=None)) as database:
        database.execute("UPDATE alembic_version SET version_num = ?", [revision])
    with (
        pytest.raises(InfrastructureError, match=r"its schema is .*, which no release of this program has; restore"),
        Store(f"sqlite:///{store.name}").reading(),
    ):
        pass
