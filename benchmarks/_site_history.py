"""A history for the benchmark of sites: the tests of `everything` in 365 runs of 12 machines, in a database in a file."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mlir_matrix.base.text import at, milliseconds
from mlir_matrix.history.checked import BAD, GOOD, UNKNOWN
from mlir_matrix.history.store import Store

#: 30 nights of all machines, and 5 of one.
MACHINES, RUNS = 12, 365
START = milliseconds("2026-01-02T02:00:00.000Z")
_DAY, _HALF_HOUR = 86_400_000, 1_800_000
#: A change of all catalogs by the day, after which everything is executed.
_EXECUTED = {0, 9, 15, 24}
#: In a cell: the first and last night, the machines, and the failure.
_FAILURES: Sequence[tuple[str, int, int, set[int], str, str, str]] = (
    ("linalg-vectorized/x86_64-v4", 12, 19, {0, 1, 2}, "mismatch", "judge", "NUMBER of NUMBER elements are wrong"),
    (
        "tosa-loops/riscv64",
        20,
        99,
        {3, 4, 5, 6},
        "lower-failed",
        "lower",
        "failed to legalize operation 'tosa.rescale'",
    ),
    ("native/x86_64", 30, 99, {7, 8}, "crashed", "run", "signal 11 in memref.copy"),
    ("linalg-openmp", 5, 99, set(range(12)), "lower-failed", "lower", "'omp.wsloop' op expected one region"),
    ("stablehlo-loops/aarch64", 27, 99, {9}, "timed-out", "run", "no end within NUMBER s"),
)


def key_of(run: int) -> int:
    """Return the key of a run: machines begin half an hour apart, each night."""
    return START + run // MACHINES * _DAY + run % MACHINES * _HALF_HOUR


def make(file: Path, names: Sequence[str], runs: int = RUNS) -> None:
    """Write the history of these tests."""
    store = Store(f"sqlite:///{file}")
    with store.writing():
        pass
    store.close()
    database = sqlite3.connect(file, isolation_level=None)
    for statement in ("PRAGMA synchronous = OFF", "PRAGMA journal_mode = MEMORY", "BEGIN"):
        database.execute(statement)
    _add_names(database, names)
    columns = "test, run, nr, behaviour, state, executed, ms, error_used, max_ulp, pins, inputs, cause, costs"
    insert = f"INSERT INTO results ({columns}) VALUES ({', '.join('?' * 13)})"
    for number, name in enumerate(names):
        database.executemany(insert, _rows(number, name, runs))
    totals = "SELECT run, COUNT(*), SUM(executed), SUM(state = 0) FROM results GROUP BY run ORDER BY run"
    for number, (key, *counts) in enumerate(database.execute(totals).fetchall()):
        _add_run(database, number, key, counts)
    database.execute("COMMIT")
    database.close()


def _add_names(database: sqlite3.Connection, names: Sequence[str]) -> None:
    """Add tests, behaviours, causes, sets of releases, and costs."""
    database.executemany("INSERT INTO tests VALUES (?, ?)", [(number + 1, name) for number, name in enumerate(names)])
    behaviours = [
        ("pass", "judge", ""),
        ("skipped", "", "no device"),
        ("mismatch", "judge", "NUMBER of NUMBER elements are wrong"),
    ]
    behaviours += [(outcome, stage, text) for *_, outcome, stage, text in _FAILURES[1:]]
    for number, behaviour in enumerate(behaviours):
        database.execute("INSERT INTO behaviours VALUES (?, ?, ?, ?, ?)", (number + 1, f"{number:064x}", *behaviour))
    for number, (where, *_, text) in enumerate(_FAILURES):
        example = next((name for name in names if where in name), "")
        cause = (
            number + 1,
            f"{number:064x}",
            f"cause-{number}",
            "step",
            where,
            "",
            text,
            example,
            f"tools/matrix explain {example}",
        )
        database.execute("INSERT INTO causes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", cause)
    for number in range(40):
        pins = {"llvm": str(20 + number // 10), "jax": f"0.{number % 10}"}
        row = (number + 1, f"{number:064x}", json.dumps(pins), json.dumps({"mlir": f"{number:064x}"}))
        database.execute("INSERT INTO sets VALUES (?, ?, ?, ?)", row)
    for number in range(4000):
        exact = json.dumps({"code_bytes": 1000 + number, "instructions": (1 + number) * 997})
        database.execute("INSERT INTO costs VALUES (?, ?, ?)", (number + 1, f"{number:064x}", exact))


def _add_run(database: sqlite3.Connection, number: int, key: int, counts: Sequence[int]) -> None:
    host = number % MACHINES
    command = "matrix run everything" + (" --pin llvm=22" if host >= MACHINES - 2 else "")
    catalogs = [{"folder": "/catalog", "commit": f"{key // _DAY:040x}", "branch": "main", "dirty": False}]
    row = (
        key, f"{number:032x}", None, f"build-{host}", "1.0", command, '["everything"]', json.dumps(catalogs),
        at(key * 10**6), at((key + _HALF_HOUR) * 10**6), at((key + _HALF_HOUR) * 10**6), 0, *counts,
    )  # fmt: skip
    texts = "id, same_as, host, version, command, arguments, catalogs, started, ended, stored"
    names = f"key, {texts}, interrupted, total, executed, unexpected"
    database.execute(f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * 15)})", row)


def _rows(number: int, name: str, runs: int) -> Iterator[tuple[Any, ...]]:
    """Yield the results of a test: mostly those of the run before, from the cache."""
    chance = random.Random(number)
    usual, cost = 50 + chance.paretovariate(1.2) * 100, number % 4000 + 1
    ms, error = [0] * MACHINES, round(chance.random(), 6)
    slower = number % 500 == 7
    flaky = number % 400 == 3
    absent = number % 50 == 11
    for run in range(runs):
        night, host = divmod(run, MACHINES)
        failure = next(
            (
                at
                for at, (where, first, last, hosts, *_) in enumerate(_FAILURES)
                if first <= night <= last and host in hosts and where in name
            ),
            None,
        )
        executed = night in _EXECUTED or chance.random() < 0.15
        behaviour, state = (1, GOOD) if failure is None else (failure + 3, BAD)
        if failure is None and flaky and chance.random() < 0.2:
            behaviour, state, executed = 3, BAD, True
        if absent and host % 4 == 1:
            behaviour, state, executed = 2, UNKNOWN, False
        if executed or not ms[host]:
            ms[host] = int(usual * chance.lognormvariate(0, 0.05) * (1.5 if slower and night >= 14 else 1))
        counted = number % 10 == 0 and state == GOOD
        cause = None if failure is None else failure + 1
        pins = number % 10 + 1
        if night >= 15:
            pins += 10
        if host >= MACHINES - 2:
            pins += 20
        later_cost = cost + (night >= 18)
        inputs = number * 7919 + night // 15 * 31 + host
        is_decided = state < UNKNOWN
        yield (
            number + 1,
            key_of(run),
            0,
            behaviour,
            state,
            int(executed),
            ms[host],
            error if is_decided else None,
            2.0 if is_decided else None,
            min(pins, 40),
            inputs,
            cause,
            later_cost if counted else None,
        )
