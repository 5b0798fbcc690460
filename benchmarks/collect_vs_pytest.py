"""Expanding tests, against ``pytest --collect-only -q`` on equal parametrised tests: time per test.

    python benchmarks/_start.py benchmarks/collect_vs_pytest.py [--runs N]

Both list 10,000 identifiers. From pytest's process the time of collecting a single test is taken off, and ours is from
the loaded catalog to the list, so that the ratio is about tests and not about start-up; that of whole processes is
printed too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from _synthetic import catalog
from _timing import medians, verdict

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.expand.suite import expand

_HERE = Path(__file__).resolve().parent
LISTER = (str(_HERE / "_start.py"), str(_HERE / "_list_tests.py"))
SIZES = (10, 10, 10, 10)
TESTS = 10_000
PARAMETRISED = """
import pytest

@pytest.mark.parametrize("workload", [f"workload-{number:03}" for number in range(10)])
@pytest.mark.parametrize("target", [f"target-{number:03}" for number in range(10)])
@pytest.mark.parametrize("pipeline", [f"pipeline-{number:03}" for number in range(10)])
@pytest.mark.parametrize("framework", [f"framework-{number:03}" for number in range(10)])
def test(framework, pipeline, target, workload):
    pass
"""
EMPTY = "def test():\n    pass\n"


def command(*arguments: str, folder: Path, lines: int) -> Callable[[], None]:
    """A contender that runs a Python command and checks that it lists at least so many lines."""

    def run() -> None:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=300
        )
        if done.stdout.count("\n") < lines:
            raise SystemExit(f"only {done.stdout.count(chr(10))} lines instead of {lines}:\n{done.stdout[:400]}")

    return run


def listing(found: Catalog) -> int:
    """Expand the loaded suite and list its identifiers, as the process does."""
    return len("\n".join(expand(found, found.suites["all"]).ids()))


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each contender")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = catalog(folder / "catalog", *SIZES)
        for suite, text in (("many", PARAMETRISED), ("one", EMPTY)):
            (folder / suite).mkdir()
            (folder / suite / f"test_{suite}.py").write_text(text, encoding="utf-8")
            (folder / suite / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        root = str(folder / "catalog")
        pytest = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
        times = medians(
            {
                "ours": command(*LISTER, root, "--list", folder=folder, lines=TESTS),
                "ours, load only": command(*LISTER, root, folder=folder, lines=0),
                "pytest": command(*pytest, folder=folder / "many", lines=TESTS),
                "pytest, one test": command(*pytest, folder=folder / "one", lines=1),
                "ours, in process": lambda: listing(found),
            },
            arguments.runs,
        )
    for contender, seconds in times.items():
        print(f"     {contender}: {seconds * 1000:.1f} ms")
    theirs = times["pytest"] - times["pytest, one test"]
    print(f"     per test: pytest {theirs / TESTS * 1e6:.1f} us, ours {times['ours, in process'] / TESTS * 1e6:.3f} us")
    print(f"     whole processes, start-up and files read: {times['pytest'] / times['ours']:.1f}")
    ratio = theirs / times["ours, in process"]
    return 0 if verdict("pytest / ours, time per test", ratio, 100, at_most=False) else 1


if __name__ == "__main__":
    sys.exit(main())
