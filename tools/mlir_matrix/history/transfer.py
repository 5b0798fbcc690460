"""Move runs: from the spool into the database of this machine, from there to a server, and out when they are old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import unwritable
from mlir_matrix.history.checked import Checked, check
from mlir_matrix.history.spool import NewerRunError, Spool, SpoolError, read_recording
from mlir_matrix.history.store import Store

Warn = Callable[[str], object]


def ingest(spool: Spool, store: Store, stored: str, warn: Warn) -> int:
    """Add the runs of a spool to a database; return how many were new. Raise InfrastructureError.

    A file is removed once the database has it. One that holds no run is set aside.
    """
    added = 0
    try:
        for file in spool.files():
            # Another process may ingest, too.
            with suppress(FileNotFoundError):
                try:
                    run = check(read_recording(file))
                except NewerRunError as error:
                    warn(f"{file}: stays there: {error}; upgrade mlir-matrix")
                    continue
                except SpoolError as error:
                    warn(f"{spool.reject(file)}: set aside, because it holds no run: {error}")
                    continue
                except FileNotFoundError:
                    continue
                except OSError as error:
                    warn(f"{file}: stays there: it cannot be read: {error.strerror}")
                    continue
                if run.started > stored:
                    warn(
                        f"run {run.id[:12]} starts at {run.started}, in the future: a clock of {run.host} or here is wrong"
                    )
                added += store.add(run, stored)
                file.unlink()
    except OSError as error:
        raise unwritable(f"{spool.folder} cannot be used", error) from None
    return added


def push(local: Store, server: Store, stored: str) -> tuple[int, int]:
    """Add the runs of a database to another one; return how many were new there, and how many it had. Raise InfrastructureError."""
    target = {"target": server.name}
    with local.reading() as connection:
        waiting = connection.execute(
            sa.text(
                "SELECT key FROM runs WHERE id NOT IN (SELECT run FROM pushed WHERE target = :target) ORDER BY key"
            ), target,
        ).scalars().all()  # fmt: skip
    counts = [0, 0]
    for key in waiting:
        run = _load(local, key)
        if run is not None:
            counts[0 if server.add(run, stored) else 1] += 1
        with local.writing() as connection:
            mark = (
                "INSERT INTO pushed (target, run) SELECT :target, id FROM runs WHERE key = :key ON CONFLICT DO NOTHING"
            )
            connection.execute(sa.text(mark), {**target, "key": key})
    return counts[0], counts[1]


def _load(store: Store, key: int) -> Checked | None:
    """Read a run as it was added; None if results of it were removed."""
    with store.reading() as connection:
        run = connection.execute(sa.text("SELECT * FROM runs WHERE key = :key"), {"key": key}).one()
        rows = connection.execute(
            sa.text(
                "SELECT t.id, behaviour, state, executed, ms, error_used, max_ulp, pins, inputs FROM results "
                "JOIN tests t ON t.key = test WHERE run = :key ORDER BY nr"
            ), {"key": key},
        ).all()  # fmt: skip
        if len(rows) < run.total:
            return None
        tables = []
        for place, names in ((1, "behaviours"), (7, "sets")):
            wanted = "digest, outcome, stage, text" if place == 1 else "digest, pins, environments"
            used = sorted({row[place] for row in rows})
            found = store.rows(connection, f"SELECT key, {wanted} FROM {names} WHERE key IN :used", used=used)
            tables.append({row[0]: (number, tuple(row[1:])) for number, row in enumerate(found)})
    behaviours, sets = tables
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * 9
    columns[1] = [behaviours[each][0] for each in columns[1]]
    columns[7] = [sets[each][0] for each in columns[7]]
    return Checked(
        id=run.id, same_as=run.same_as, host=run.host, version=run.version, command=run.command, arguments=run.arguments,
        catalogs=run.catalogs, started=run.started, ended=run.ended, interrupted=run.interrupted, columns=columns,
        behaviours=[each for _, each in behaviours.values()], sets=[each for _, each in sets.values()],
    )  # fmt: skip


_SUMMARISE = """
    INSERT INTO months (test, month, results, executed, unexpected, ms, error_used)
    SELECT test, substr(ended, 1, 7), count(*), sum(results.executed), sum(CASE WHEN state = 0 THEN 1 ELSE 0 END),
        sum(ms), max(error_used)
    FROM results JOIN runs ON runs.key = run WHERE {old}
    GROUP BY test, substr(ended, 1, 7)
    ON CONFLICT (test, month) DO UPDATE SET results = months.results + excluded.results,
        executed = months.executed + excluded.executed, unexpected = months.unexpected + excluded.unexpected,
        ms = months.ms + excluded.ms,
        error_used = CASE WHEN excluded.error_used > coalesce(months.error_used, -1) THEN excluded.error_used
            ELSE months.error_used END
"""
#: Results of runs that ended before a time, and that no later run repeats; but not how a test ended that is still bad.
_OLD = """
    run IN (SELECT key FROM runs WHERE ended < :before AND stored < :now AND id NOT IN (
        SELECT same_as FROM runs AS later WHERE same_as IS NOT NULL AND later.ended >= :before))
    AND (state <> 0 OR (test, run) NOT IN (SELECT test, max(run) FROM results WHERE state < 2 GROUP BY test))
"""


def prune(store: Store, before: str, now: str) -> int:
    """Replace the results of old runs by monthly summaries; return how many results are gone. Raise InfrastructureError."""
    times = {"before": before, "now": now}
    with store.writing() as connection:
        connection.execute(sa.text(_SUMMARISE.format(old=_OLD)), times)
        removed = connection.execute(sa.text(f"DELETE FROM results WHERE {_OLD}"), times).rowcount
    if removed and not store.is_server:
        with suppress(InfrastructureError):
            store.shrink()
    return removed
