"""The history of 100,000 tests: recording a run, adding it to databases, questions over 1,000,000 results, unchanged runs.

    benchmarks/run history

A run is added to SQLite and to PostgreSQL, in turns with its bare rows: one table of texts and numbers with the key (run, test)
and an index by test, filled by ``executemany``. An unchanged run of smoke is compared with one that records nothing.
``HISTORY_RUNS=100`` asks about 10,000,000 results.
"""

from __future__ import annotations

import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from _matrix import LAUNCHER, ROOT, matrix
from _timing import medians, verdict

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.paths import find_home
from mlir_matrix.history.first_bad import first_bad_by_cause
from mlir_matrix.history.questions import Questions, changed
from mlir_matrix.history.record import record
from mlir_matrix.history.spool import Spool
from mlir_matrix.history.store import Store
from mlir_matrix.history.transfer import ingest
from mlir_matrix.history.trends import Trends
from mlir_matrix.plan.session import open_session
from mlir_matrix.results.results import Run, TestResult
from support.postgres import postgres
from support.recordings import TIMES

TESTS, RUNS = 100_000, int(os.environ.get("HISTORY_RUNS", "10"))
ASKED, UNCHANGED = 3, 41
_COLUMNS = (
    "run text, test text, outcome text, stage text, reason text, expected int, cached int, seconds float, error_used float, "
    "max_ulp float, pins text, inputs text"
)


def results(day: int) -> list[TestResult]:
    """A nightly run: of a hundred tests, two fail or pass by chance, and five have errors that vary."""
    chance = random.Random(day)
    pins = [{"llvm": str(19 + number), "jax": "0.10.2", "numpy": "2.4.6"} for number in range(10)]
    environments = [{"mlir": f"{number:064x}", "jax": f"{number + 10:064x}"} for number in range(10)]
    made = []
    for number in range(TESTS):
        fails = number % 50 == 0 and chance.random() < 0.5
        made.append(
            TestResult(
                id=f"framework-{number % 5}/pipeline-{number % 20}/x86_64/workload-{number}", framework="", pipeline="", target="",
                workload="", outcome=Outcome("mismatch" if fails else "pass"), stage=Stage.JUDGE, expected=not fails,
                reason="5 of 44 elements are wrong" if fails else "", duration_s=(0.1 + number % 7) * chance.lognormvariate(0, 0.1),
                pins=pins[number % 10], environments=environments[number % 10],
                metrics={"error_used": chance.random() if number % 20 == 0 else 0.25, "max_ulp": 2.0},
            )
        )  # fmt: skip
    return made


def recorded(day: int, folder: Path, name: str) -> tuple[float, list[tuple[Any, ...]]]:
    """Record a run; return the CPU seconds it took, and its bare rows."""
    found = results(day)
    catalogs = [{"folder": "/catalog", "commit": f"{day:040x}", "dirty": False}]
    about: Any = {
        "version": "1",
        "command": "matrix run nightly",
        "host": "one",
        "started": TIMES[day],
        "ended": TIMES[day],
    }
    inputs = {each.id: f"{number * 7919:064x}" for number, each in enumerate(found)}
    begin = time.process_time()
    record(folder, Run(results=found), {**about, "catalogs": catalogs}, ["nightly"], inputs)
    seconds = time.process_time() - begin
    rows = [
        (
            f"{name}-{day}", each.id, str(each.outcome), each.stage, each.reason, int(each.expected), int(each.cached),
            each.duration_s, each.metrics["error_used"], each.metrics["max_ulp"], str(each.pins), inputs[each.id],
        )
        for each in found
    ]  # fmt: skip
    return seconds, rows


def fill(name: str, folder: Path, store: Store, bare: Callable[[Sequence[tuple[Any, ...]]], object]) -> list[bool]:
    """Add all runs to a database, and their bare rows to another table."""
    recording, ours, plain = [], [], []
    for day in range(RUNS):
        seconds, rows = recorded(day, folder, name)
        recording.append(seconds)
        begin = time.perf_counter()
        assert ingest(Spool(folder), store, TIMES[-1], print) == 1
        middle = time.perf_counter()
        bare(rows)
        ours.append(middle - begin)
        plain.append(time.perf_counter() - middle)
    # The first one has all names to add.
    took, theirs = statistics.median(ours[1:]), statistics.median(plain[1:])
    print(
        f"     {name}: a run of {TESTS:,} results is recorded in {statistics.median(recording):.2f} CPU s, added in {took:.2f} s"
    )
    print(f"     {name}: the first run is added in {ours[0]:.2f} s; bare rows take {theirs:.2f} s")
    return [
        verdict(f"{name}: {TESTS:,} results added / executemany of bare rows", took / theirs, 3, at_most=True),
        verdict(f"{name}: CPU seconds to record {TESTS:,} results", statistics.median(recording), 2, at_most=True),
    ]


def ask(name: str, store: Store, clock: Callable[[], float]) -> list[bool]:
    """Ask every question, each from a connection of its own."""
    test = "framework-0/pipeline-0/x86_64/workload-0"
    asked: dict[str, Callable[[Questions], object]] = {
        "runs": lambda q: q.runs(),
        "show TEST": lambda q: q.show([test]),
        "show '**'": lambda q: q.show(["**"]),
        "--first-bad": lambda q: first_bad_by_cause(q, []),
        "--flaky": lambda q: Trends(q).flaky([]),
        "--slower": lambda q: Trends(q).slower([]),
        "--error-growing": lambda q: Trends(q).growing([]),
        "diff": lambda q: changed(q.outcomes("latest~1")[1], q.outcomes("latest")[1]),
        "export": lambda q: Trends(q).snapshot(TIMES[0]),
    }

    def answer(question: Callable[[Questions], object]) -> None:
        with store.reading() as connection:
            question(Questions(store, connection))

    times = medians(
        {word: lambda question=question: answer(question) for word, question in asked.items()}, ASKED, clock
    )  # type: ignore[misc]
    return [
        verdict(f"{name}: {TESTS * RUNS:,} results, {word} / 1 s", seconds, 1, at_most=True)
        for word, seconds in times.items()
    ]


def sqlite(folder: Path) -> list[bool]:
    """Measure SQLite."""
    store = Store(f"sqlite:///{folder / 'history.sqlite'}")
    bare = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA cache_size = -65536",
        f"CREATE TABLE results ({_COLUMNS}, PRIMARY KEY (run, test))", "CREATE INDEX by_test ON results (test, run)",
    ):  # fmt: skip
        bare.execute(statement)

    def add(rows: Sequence[tuple[Any, ...]]) -> None:
        bare.execute("BEGIN")
        bare.executemany(f"INSERT INTO results VALUES ({', '.join('?' * 12)})", rows)
        bare.execute("COMMIT")

    holds = fill("SQLite", folder, store, add) + ask("SQLite", store, time.process_time)
    store.close()
    return holds


def postgresql(folder: Path) -> list[bool]:
    """Measure PostgreSQL."""
    with postgres(open_session(), folder / "postgres") as server:
        url = f"postgresql://{server.where}"
        store = Store(url)
        with psycopg.connect(url) as bare:
            bare.execute(f"CREATE TABLE bare ({_COLUMNS}, PRIMARY KEY (run, test))")
            bare.execute("CREATE INDEX bare_by_test ON bare (test, run)")
            bare.commit()

            def add(rows: Sequence[tuple[Any, ...]]) -> None:
                with bare.cursor() as cursor:
                    cursor.executemany(f"INSERT INTO bare VALUES ({', '.join(['%s'] * 12)})", rows)
                bare.commit()

            holds = fill("PostgreSQL", folder, store, add)
        holds += ask("PostgreSQL", store, time.perf_counter)
        store.close()
    return holds


def unchanged() -> list[bool]:
    """Compare unchanged runs that are recorded with those that are not, by the CPU time of the fastest."""
    spool = find_home().state / "history" / "spool"

    def run(history: str) -> tuple[float, int]:
        before, files = _of_children(), set(spool.iterdir())
        environment = {**os.environ, "MATRIX_HISTORY": history}
        subprocess.run([LAUNCHER, "run", "smoke"], env=environment, cwd=ROOT, capture_output=True, check=False)
        return _of_children() - before, sum(new.read_bytes().startswith(b"{") for new in set(spool.iterdir()) - files)

    matrix("run", "smoke", "--quiet")
    while not run("on")[1]:
        # Files that are new are not trusted.
        time.sleep(1)
    taken = [(run("on"), run("off")) for _ in range(UNCHANGED)]
    assert all(repeats == 1 for (_, repeats), _ in taken)
    on, off = (min(pair[which][0] for pair in taken) for which in (0, 1))
    print(f"     an unchanged run takes {on:.3f} CPU s, without history {off:.3f} CPU s")
    return [verdict("unchanged run, with history / without", on / off, 1.05, at_most=True)]


def _of_children() -> float:
    """Return the CPU seconds of programs that have ended, which others do not disturb."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Print what was measured; exit code 1 where it is not what it must be."""
    holds = unchanged()
    for measure in (sqlite, postgresql):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            holds += measure(Path(folder))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
