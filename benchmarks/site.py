"""A site of 6,000,000 results: the tests of `everything` in 365 runs of 12 machines; built anew, with one more run, and opened.

benchmarks/run site
"""

from __future__ import annotations

import gc
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from _site_history import MACHINES, RUNS, key_of, make
from _timing import verdict

from mlir_matrix.base.text import at
from mlir_matrix.cli.main import COLLECTING
from mlir_matrix.environments.session import Session
from mlir_matrix.history.chosen_runs import ALL_RUNS
from mlir_matrix.history.store import Store
from mlir_matrix.history.today import Morning
from mlir_matrix.plan.session import open_session, select_tests
from mlir_matrix.site.site import publish_site
from support.browser import chromium

TESTS = 16_484
#: Types a filter; gives the milliseconds until the frame with what it selects.
_FILTER = """text => new Promise(resolve => {
    const field = document.getElementById("text"), begin = performance.now();
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begin)));
})"""


def publish(database: Path, out: Path, session: Session) -> float:
    """Publish the site of a database; return the seconds."""
    begin = time.perf_counter()
    now = at((key_of(RUNS) + 1) * 10**6)
    done = publish_site(
        out,
        Store(f"sqlite:///{database}"),
        at(key_of(RUNS - MACHINES) * 10**6),
        now,
        identity="benchmark",
        session=session,
    )
    print(f"     {done.tests:,} tests, {done.runs} runs, {done.added} of them new")
    return time.perf_counter() - begin


def today(database: Path) -> float:
    """Ask what is new; return the seconds."""
    store = Store(f"sqlite:///{database}")
    begin = time.perf_counter()
    with store.reading() as connection:
        times = at(key_of(RUNS - MACHINES) * 10**6), at((key_of(RUNS) + 1) * 10**6)
        Morning(store, connection, ALL_RUNS, *times).document(store.name)
    return time.perf_counter() - begin


def opened(out: Path, session: Session) -> tuple[float, float]:
    """Open pages in a browser; return the milliseconds to the first paint of Today, and of the slowest of ten filters."""
    filters = []
    with chromium(session) as browser:
        page = browser.new_page()
        page.goto((out / "index.html").as_uri())
        page.wait_for_timeout(1000)
        paint = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
        page.goto((out / "matrix.html").as_uri())
        page.wait_for_selector("table td")
        for text in ("a", "re", "soft", "mat", "x86", "", "tosa", "o", "conv", "jax"):
            filters.append(page.evaluate(_FILTER, text))
    return paint, max(filters)


def main() -> int:
    """Print what was measured; exit code 1 where it is not what it must be."""
    # As the program does.
    gc.set_threshold(*COLLECTING)
    session = open_session()
    names = [test.id for test in select_tests(session, ("everything",)) if test.selected][:TESTS]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        fewer, all_runs, out = (Path(folder) / name for name in ("fewer.sqlite", "all.sqlite", "site"))
        make(fewer, names, RUNS - 1)
        make(all_runs, names, RUNS)
        publish(fewer, out, session)
        added = publish(all_runs, out, session)
        shutil.rmtree(out)
        whole = publish(all_runs, out, session)
        paint, slowest = opened(out, session)
        size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
        holds = [
            verdict("what is new, seconds", today(all_runs), 2, at_most=True),
            verdict("a site, seconds", whole, 60, at_most=True),
            verdict("a site with another run, seconds", added, 5, at_most=True),
            verdict("kilobytes of the first page", (out / "index.html").stat().st_size / 1e3, 300, at_most=True),
            verdict("first paint, milliseconds", paint, 1000, at_most=True),
            verdict("a filter, milliseconds", slowest, 100, at_most=True),
            verdict("megabytes of disk", size / 1e6, 500, at_most=True),
            verdict(
                "megabytes of memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, 2000, at_most=True
            ),
        ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
