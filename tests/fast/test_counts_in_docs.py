"""The numbers of tests that README.md and docs/systems.md give are those of the catalog."""

from __future__ import annotations

import re

from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from support.workspace import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SYSTEMS = (REPOSITORY / "docs/systems.md").read_text(encoding="utf-8")


def to_run(session: Session, suite: str) -> int:
    """The number of tests that a suite runs: those that are unsupported do not count."""
    return sum(test.selected for test in choose(session.catalog, [suite]).tests())


def test_tests_of_suites(current: Session) -> None:
    rows = dict(re.findall(r"^\| `matrix run ([\w-]+)` \|.*\| ([\d,]+) \|$", SYSTEMS, re.MULTILINE))
    # The programs of some are in a checkout, which this test does not have.
    here = rows.keys() & current.catalog.suites.keys()
    assert {"smoke", "targets", "everything"} <= here
    counts = {name: f"{to_run(current, name):,}" for name in here}
    assert {name: rows[name] for name in here} == counts
    assert f"`everything` is {counts['everything']} tests in about" in SYSTEMS


def test_tests_of_smoke(current: Session) -> None:
    tests = list(choose(current.catalog, ["smoke"]).tests())
    runs = to_run(current, "smoke")
    assert re.search(rf"^{len(tests)} tests: .* {len(tests) - runs} unsupported$", README, re.MULTILINE)
    assert f"all as expected; {runs} of {runs} from the cache" in README
