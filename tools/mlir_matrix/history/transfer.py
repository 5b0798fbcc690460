"""Move runs from the spool into the database of this machine and from there to a server, and remove old results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import unwritable
from mlir_matrix.history.checked import BAD, UNKNOWN, Checked, check
from mlir_matrix.history.spool import NewerRunError, Spool, SpoolError, read_recording
from mlir_matrix.history.store import Store, behaviours, causes, costs, ir, months, pushed, results, runs, sets, tests

Warn = Callable[[str], object]


def open_own(state: Path, stored: str, warn: Warn) -> Store:
    """Open the database of this machine's user, and add new runs to it. Raise UsageError, InfrastructureError."""
    folder, spool = state / "history", Spool(state)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(f"{folder} cannot be made", error) from None
    file = folder / "history.sqlite"
    made = Store(f"sqlite:///{file}")
    if not file.exists():
        spool.forget()
    ingest(spool, made, stored, warn)
    return made


def ingest(spool: Spool, store: Store, stored: str, warn: Warn) -> int:
    """Add the runs of a spool to a database; return how many were new. Raise InfrastructureError.

    Remove a file once the database has it. Set aside a file that contains no run.
    """
    added = 0
    try:
        for file in spool.files():
            # Another process may have removed the file after adding it.
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
    """Add the runs of a database to another one. Return how many were new, and how many it had. Raise InfrastructureError."""
    known = sa.select(pushed.c.run).where(pushed.c.target == server.name)
    with local.reading() as connection:
        waiting = connection.execute(
            sa.select(runs.c.key, runs.c.id).where(runs.c.id.not_in(known)).order_by(runs.c.key)
        ).all()
    counts = [0, 0]
    mark = local.insert(pushed).on_conflict_do_nothing()
    for key, name in waiting:
        run = _load(local, key)
        if run is not None:
            counts[0 if server.add(run, stored) else 1] += 1
        with local.writing() as connection:
            connection.execute(mark, {"target": server.name, "run": name})
    return counts[0], counts[1]


def _load(store: Store, key: int) -> Checked | None:
    """Read a run in the form in which it was added; None if some of its results were removed."""
    with store.reading() as connection:
        run = connection.execute(sa.select(runs).where(runs.c.key == key)).one()
        # All columns except the test, the run and the number of a result.
        rows = connection.execute(
            sa.select(tests.c.id, *list(results.c)[3:])
            .join_from(results, tests, tests.c.key == results.c.test)
            .where(results.c.run == key)
            .order_by(results.c.nr)
        ).all()
        if len(rows) < run.total:
            return None
        tables = []
        of_results = results.c
        used_columns = (
            (behaviours, of_results.behaviour),
            (sets, of_results.pins),
            (causes, of_results.cause),
            (costs, of_results.costs),
            (ir, of_results.ir),
        )
        for table, column in used_columns:
            used = sa.select(column).where(results.c.run == key)
            found = connection.execute(sa.select(table).where(table.c.key.in_(used)))
            tables.append({row.key: (number, tuple(row[1:])) for number, row in enumerate(found)})
    used_behaviours, used_sets, used_causes, used_costs, used_ir = tables
    columns: list[Sequence[object]] = list(zip(*rows, strict=True)) or [()] * 12
    columns[1] = [used_behaviours[each][0] for each in columns[1]]
    columns[7] = [used_sets[each][0] for each in columns[7]]
    for place, found_rows in ((9, used_causes), (10, used_costs), (11, used_ir)):
        # A server may have removed IR while it got a run that has it.
        columns[place] = [found_rows[each][0] if each in found_rows else None for each in columns[place]]
    return Checked(
        id=run.id, same_as=run.same_as, host=run.host, version=run.version, command=run.command, arguments=run.arguments,
        catalogs=run.catalogs, started=run.started, ended=run.ended, interrupted=run.interrupted, columns=columns,
        behaviours=[each for _, each in used_behaviours.values()], sets=[each for _, each in used_sets.values()],
        causes=[each for _, each in used_causes.values()], costs=[each for _, each in used_costs.values()],
        ir=[each for _, each in used_ir.values()],
    )  # fmt: skip


def _old(before: str, now: str) -> sa.ColumnElement[bool]:
    """Return the condition of results of runs that ended before a time, and that no later run repeats.

    Leave out results of tests that are still bad.
    """
    ended, later, decided = runs.alias("ended"), runs.alias("later"), results.alias("decided")
    repeated = sa.select(later.c.same_as).where(later.c.same_as.is_not(None), later.c.ended >= before)
    old = sa.select(ended.c.key).where(ended.c.ended < before, ended.c.stored < now, ended.c.id.not_in(repeated))
    last = (
        sa.select(decided.c.test, sa.func.max(decided.c.run)).where(decided.c.state < UNKNOWN).group_by(decided.c.test)
    )
    is_last = sa.tuple_(results.c.test, results.c.run).in_(last)
    return results.c.run.in_(old) & ((results.c.state != BAD) | ~is_last)


def _summarise(store: Store, old: sa.ColumnElement[bool]) -> sa.Executable:
    """Return the statement that adds results to the summaries of tests and months."""
    month = sa.func.substr(runs.c.ended, 1, 7)
    summary = (
        sa.select(
            results.c.test,
            month,
            sa.func.count(),
            sa.func.sum(results.c.executed),
            sa.func.sum(sa.case((results.c.state == BAD, 1), else_=0)),
            sa.func.sum(results.c.ms),
            sa.func.max(results.c.error_used),
        )
        .join_from(results, runs, runs.c.key == results.c.run)
        .where(old)
        .group_by(results.c.test, month)
    )
    statement = store.insert(months).from_select(months.c.keys(), summary)
    new = statement.excluded
    is_larger = new.error_used > sa.func.coalesce(months.c.error_used, -1)
    sums = {name: months.c[name] + new[name] for name in ("results", "executed", "unexpected", "ms")}
    largest = sa.case((is_larger, new.error_used), else_=months.c.error_used)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return] # INSERT of either database
        index_elements=["test", "month"], set_={**sums, "error_used": largest}
    )


def prune(store: Store, before: str, now: str) -> int:
    """Replace the results of old runs by monthly summaries. Return how many were removed. Raise InfrastructureError."""
    old = _old(before, now)
    with store.writing() as connection:
        connection.execute(_summarise(store, old))
        removed = connection.execute(sa.delete(results).where(old)).rowcount
        # Of all tables, this one has other rows after each change of a compiler.
        used = sa.select(results.c.ir).where(results.c.ir.is_not(None))
        connection.execute(sa.delete(ir).where(ir.c.key.not_in(used)))
    if removed and not store.is_server:
        with suppress(InfrastructureError):
            store.shrink()
    return removed
