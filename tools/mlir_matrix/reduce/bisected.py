"""Read from the log of a bisection which test it was about, and its last good and first bad release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.log import LAST, Past, read_log


@dataclass(frozen=True)
class Bisected:
    """A test with the pins of a release at which it fails, and of one at which it passes."""

    test: str
    bad: str
    good: str


def bisected(path: Path) -> Bisected:
    """Read the log in the folder of a bisection, or in that of a file. Raise UsageError."""
    # The report of a test is in a folder for each part of its identifier.
    folders = [path, *path.absolute().parents][:8]
    log = next((folder / LAST for folder in folders if (folder / LAST).is_file()), None)
    if log is None:
        raise UsageError(f"{path}: neither a test nor in the folder of a bisection, which has {LAST}")
    past = read_log(log)
    tests = [test for test in past.tests if path.is_dir() or test in path.absolute().as_posix()] or past.tests
    for test in tests:
        if found := _ends(past, test):
            return found
    raise UsageError(f"{log}: no test of it passes at one release and fails at another")


def _ends(past: Past, test: str) -> Bisected | None:
    """Return the failing release of a test that is nearest to a passing one."""
    outcomes: dict[str, str] = {
        each["release"]: each["result"]["outcome"] for each in past.observed if each["test"] == test
    }
    order = [name for name in past.releases if name in outcomes]
    passing = [place for place, name in enumerate(order) if outcomes[name] == Outcome.PASS]
    known_failing = [
        place for place, name in enumerate(order) if outcomes[name] not in (Outcome.PASS, Outcome.UNSUPPORTED)
    ]
    pairs = [(abs(bad - good), -bad, good) for bad in known_failing for good in passing]
    if not pairs:
        return None
    _, bad, good = min(pairs)
    return Bisected(test, f"{past.component}={order[-bad]}", f"{past.component}={order[good]}")
