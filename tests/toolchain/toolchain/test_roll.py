"""Trying newer releases: what is affected, what comes of it, and the patch of the known-good file."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.models.toolchains import Passed
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.fetch import apt
from mlir_matrix.environments.lockfiles.debian import DebianPackage
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.results import TestResult
from mlir_matrix.schema.export import adapter
from mlir_matrix.toolchain.find import find_release
from mlir_matrix.toolchain.report import roll_document, roll_lines
from mlir_matrix.toolchain.roll import (
    BrokenTest,
    Roll,
    Trial,
    TrialFindings,
    causes,
    edited,
    expectations_patches,
    newer,
    patches,
    roll,
    with_pins,
)
from support import debs, rolling
from support.rolling import TESTS

TODAY = "2026-11-22"
ONE, TWO, KEPT = TESTS
PASSED = Passed(suite="smoke", as_expected=2, total=3, outcomes="2" * 64, date=TODAY)
#: Given the releases under which a test runs and its identifier: its outcome.
Decide = Callable[[dict[str, str], str], str]


def opened(tmp_path: Path, *releases: str, more: Sequence[Path] = ()) -> Session:
    root = tmp_path / "catalog"
    rolling.write(root, rolling.files(*releases), debs.Mirror(tmp_path / "www"))
    return again(root, tmp_path, *more)


def again(root: Path, home: Path, *more: Path) -> Session:
    catalog = validate(load([root, *more]))
    folders = Home(cache=home, state=home, actions=home / "actions")
    return Session(catalog=catalog, home=folders, pins=Pins(catalog))


class Runs:
    """Runs nothing, and remembers what of."""

    def __init__(self, decide: Decide = lambda _pins, _test: "pass", drop: str = "") -> None:
        self._decide = decide
        self._drop = drop
        #: The identifiers of each run, and the releases of the environment that rolls.
        self.tests: list[list[str]] = []
        self.pins: list[dict[str, str]] = []

    def __call__(self, session: Session, plan: PlannedTests) -> Sequence[TestResult]:
        pins = session.pins_of("tool")
        assert session.pins.overrides == {}, "an environment's own pins would not count"
        self.tests.append([test.id for test in plan.tests])
        self.pins.append(pins)
        return [self._result(test, pins) for test in plan.tests if test.id != self._drop]

    def _result(self, test: Test, pins: dict[str, str]) -> TestResult:
        outcome = test.outcome or self._decide(pins, test.id)
        return TestResult(
            id=test.id, framework=test.framework, pipeline=test.pipeline, target=test.target, workload=test.workload,
            outcome=outcome, stage="", expected=outcome in ("pass", "skipped", "unsupported"), reason=f"it is {outcome}",
        )  # fmt: skip


def rolled(session: Session, run: Runs, *components: str) -> Roll:
    return roll(session, components or ("tool",), "smoke", run, today=TODAY)


def test_newer(tmp_path: Path) -> None:
    entry = opened(tmp_path, "1.0", "3.0", "2.0").catalog.components["tool"]
    assert [release.release for release in newer(entry, "1.0")] == ["3.0", "2.0"], "the order of the file"
    assert newer(entry, "2.0") == []


def test_a_green_release(tmp_path: Path) -> None:
    """What it touches is run, then all: an environment that keeps to its own release is not touched."""
    run = Runs()
    session = opened(tmp_path, "1.0", "2.0")
    found = rolled(session, run)
    (trial,) = found.trials
    assert (trial.pinned, trial.release, trial.affected, trial.green) == ("1.0", "2.0", (ONE, TWO), True)
    assert run.tests == [[ONE, TWO], [ONE, TWO, KEPT]]
    assert run.pins == [{"tool": "2.0", "more": "1.0"}] * 2
    assert (found.pins, found.exit_code) == ({"tool": "2.0"}, 0)
    assert found.passed == replace_passed(found, as_expected=3)
    assert session.pins_of("tool")["tool"] == "1.0", "the session is as it was"


def replace_passed(found: Roll, **changes: Any) -> Passed:
    assert found.passed is not None
    return PASSED.model_copy(update={"outcomes": found.passed.outcomes, **changes})


def test_the_newest_that_is_green(tmp_path: Path) -> None:
    """Which tests a newer one breaks is known all the same."""
    run = Runs(lambda pins, test: "lower-failed" if (pins["tool"], test) == ("3.0", TWO) else "pass")
    found = rolled(opened(tmp_path, "1.0", "2.0", "3.0"), run)
    assert [(trial.release, trial.green) for trial in found.trials] == [("3.0", False), ("2.0", True)]
    assert found.trials[0].findings.broken == (BrokenTest(id=TWO, outcome="lower-failed", reason="it is lower-failed"),)
    assert (found.pins, found.exit_code) == ({"tool": "2.0"}, 0)


@pytest.mark.parametrize(("outcome", "taken"), [("lower-failed", "3.0"), ("timed-out", None)])
def test_what_a_release_breaks_can_be_expected(tmp_path: Path, outcome: str, taken: str | None) -> None:
    """A time-out cannot, because it depends on the machine."""
    run = Runs(lambda pins, test: outcome if (pins["tool"], test) == ("3.0", TWO) else "pass")
    session = opened(tmp_path, "1.0", "3.0")
    found = roll(session, ["tool"], "smoke", run, today=TODAY, accept=True)
    assert found.pins.get("tool") == taken
    changes = list(expectations_patches(session, found, "smoke"))
    assert len(changes) == (taken is not None)
    for root, text in changes:
        assert root == tmp_path / "catalog"
        assert "+++ b/matrix/expectations/smoke.yaml" in text
        assert "+  - outcome: lower-failed" in text


@pytest.mark.parametrize("named", [("tool",), ("more",), ("more", "tool")])
def test_components_that_go_together(tmp_path: Path, named: tuple[str, ...]) -> None:
    """The release of the same number moves, too, whichever is named; neither is tried again alone."""
    session = opened(tmp_path, "1.0", "2.0")
    file = tmp_path / "catalog/toolchains/components/tool.yaml"
    file.write_text(file.read_text().replace("releases:", "goes-with: [more]\nreleases:"))
    run = Runs()
    found = rolled(again(tmp_path / "catalog", tmp_path), run, *named)
    (trial,) = found.trials
    assert (trial.component, trial.release, trial.moved) == ("tool", "2.0", {"more": "2.0"})
    assert run.pins == [{"tool": "2.0", "more": "2.0"}] * 2
    assert found.pins == {"more": "2.0", "tool": "2.0"}
    assert next(iter(roll_lines(found, "smoke"))) == (
        "tool: 1.0 -> 2.0, together with more 2.0: green, 2 tests of suite smoke affected"
    )
    document = roll_document(found, "smoke", patches(session, found.pins, PASSED))
    adapter("roll").validate_python(document)
    assert '+  more: "2.0"' in document["patches"][0]["patch"]


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        # Debian's newest, the one that is listed, a candidate, an older one.
        (["2.5-1"], "2.5"), (["2.0-7+b1"], None), (["3.0~rc1-1"], None), (["0.9-1"], None),
    ],
)  # fmt: skip
def test_a_release_that_no_file_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: list[str], found: str | None
) -> None:
    def solve(asked: apt.Asked, **_: object) -> list[DebianPackage]:
        assert (asked.packages, asked.suites) == (("tool",), ("sid",))
        more = {"size": 1, "installed": 1, "sha256": "0" * 64, "suite": "sid", "path": "pool/x"}
        return [DebianPackage(name="tool", version=version, **more) for version in versions]  # type: ignore[arg-type]

    monkeypatch.setattr(apt, "solve", solve)
    # The file of this catalog does not list what another one adds.
    other = tmp_path / "other/toolchains/components/tool.yaml"
    other.parent.mkdir(parents=True)
    other.write_text('releases: [{release: "2.2", suites: [sid]}]\n')
    session = opened(tmp_path, "1.0", "2.0", "3.0", more=[tmp_path / "other"])
    release = find_release(session, session.catalog.components["tool"], "1.0")
    assert (release.release if release else None) == found
    if release:
        root, text = release.patch()
        assert root == tmp_path / "catalog"
        # In the order of the releases.
        assert '2.0", suites: [sid]}\n+  - {release: "2.5", suites: [sid]}\n   - {release: "3.0"' in text


def test_broken_tests_are_grouped_by_cause() -> None:
    """One action, or one step in one way; a comparison has no action, and its reason has numbers of its own."""
    crash = {"outcome": "crashed", "reason": "r"}
    broken = [
        BrokenTest(id="a", **crash, action="lower-1", behaviour="crashed at lower"),
        BrokenTest(id="b", outcome="mismatch", reason="y: 3 wrong", behaviour="mismatch, y"),
        BrokenTest(id="c", **crash, action="lower-2", behaviour="crashed at lower"),
        BrokenTest(id="d", **crash, action="lower-2", behaviour="crashed at lower, otherwise"),
        BrokenTest(id="e", outcome="unsupported", reason="no variant"),
    ]
    assert [[each.id for each in group] for group in causes(broken)] == [["a", "c", "d"], ["b"], ["e"]]
    trial = Trial(
        component="t",
        pinned="1",
        release="2",
        moved={},
        kept={},
        affected=tuple("abcde"),
        findings=TrialFindings(broken=tuple(broken)),
    )
    lines = list(roll_lines(Roll(trials=[trial]), "smoke"))
    assert lines[1:4] == ["  crashed a: r", "    likewise c, d", "  mismatch b: y: 3 wrong"]


@pytest.mark.parametrize(
    ("outcomes", "broken", "reason", "code"),
    [
        ({TWO: "mismatch"}, [TWO], "", 1),
        ({TWO: "timed-out"}, [TWO], "", 1),
        ({TWO: "infra-error"}, [], "1 of its tests: infra-error: it is infra-error", 3),
        ({ONE: "skipped", TWO: "skipped"}, [], "2 of its tests: skipped: it is skipped", 3),
        # What is broken is broken, whatever else went wrong.
        ({ONE: "infra-error", TWO: "crashed"}, [TWO], "", 1),
    ],
)
def test_a_release_that_is_not_green(
    tmp_path: Path, outcomes: dict[str, str], broken: list[str], reason: str, code: int
) -> None:
    run = Runs(lambda _pins, test: outcomes.get(test, "pass"))
    found = rolled(opened(tmp_path, "1.0", "2.0"), run)
    (trial,) = found.trials
    assert [each.id for each in trial.findings.broken] == broken
    assert trial.findings.reason == reason
    assert (found.pins, found.passed, found.exit_code, len(run.tests)) == ({}, None, code, 1)


def test_a_run_that_did_not_come_to_its_end(tmp_path: Path) -> None:
    found = rolled(opened(tmp_path, "1.0", "2.0"), Runs(drop=TWO))
    assert found.trials[0].findings.reason == "the run did not finish"
    assert found.exit_code == 3


@pytest.mark.parametrize(
    ("component", "release", "broken", "reason", "code"),
    [
        ("tool", "5.0", [ONE, TWO], "", 1),
        ("tool", rolling.UNLOCKED, [], "tool@4.0 has no lock file; make one with: matrix toolchain lock tool@4.0", 3),
        ("idle", "2.0", [], "", 0),
    ],
)
def test_nothing_is_run_where_that_is_known_before(
    tmp_path: Path, component: str, release: str, broken: list[str], reason: str, code: int
) -> None:
    """No variant of a step, no lock, no test that uses it."""
    run = Runs()
    found = rolled(opened(tmp_path, "1.0", "4.0" if reason else "5.0"), run, component)
    (trial,) = found.trials
    assert (trial.component, trial.release, trial.green) == (component, release, False)
    assert [(each.id, each.outcome) for each in trial.findings.broken] == [(test, "unsupported") for test in broken]
    assert all("step count has no variant for tool 5.0" in each.reason for each in trial.findings.broken)
    assert (trial.findings.reason, found.exit_code, found.pins, run.tests) == (reason, code, {}, [])


def test_components_are_tried_with_what_is_green_before(tmp_path: Path) -> None:
    """Two that are green alone and break a test together: the second one breaks it, beside the first."""
    run = Runs(lambda pins, test: "mismatch" if [*pins.values()] == ["2.0", "2.0"] and test == ONE else "pass")
    session = opened(tmp_path, "1.0", "2.0")
    found = rolled(session, run, "more", "tool")
    assert [(trial.component, dict(trial.kept), trial.green) for trial in found.trials] == [
        ("more", {}, True), ("tool", {"more": "2.0"}, False),
    ]  # fmt: skip
    assert [each.id for each in found.trials[1].findings.broken] == [ONE]
    assert (found.pins, found.exit_code) == ({"more": "2.0"}, 1)
    assert found.passed is not None
    assert run.pins[-1] == {"tool": "1.0", "more": "2.0"}, "the suite is run under what is proposed"


@pytest.mark.parametrize(("outcome", "code"), [("mismatch", 1), ("infra-error", 3), ("skipped", 3)])
def test_nothing_is_proposed_unless_the_whole_suite_is_as_expected(tmp_path: Path, outcome: str, code: int) -> None:
    """A test that no release touches, and one that both touch."""
    run = Runs(lambda _pins, _test: outcome if len(run.tests) == 3 else "pass")
    found = rolled(opened(tmp_path, "1.0", "2.0"), run, "tool", "more")
    assert all(trial.green for trial in found.trials)
    assert (found.passed, found.exit_code) == (None, code)
    assert (found.touching(ONE), found.touching(KEPT)) == (["tool", "more"], [])


def test_pins_of_several_catalogs(tmp_path: Path) -> None:
    """Each component's release goes where its pin is, else where the component is, be there a file yet or not."""
    other = tmp_path / "other"
    (other / "toolchains" / "components").mkdir(parents=True)
    (other / "toolchains" / "components" / "theirs.yaml").write_text(rolling.component("theirs", "1.0", "2.0"))
    session = opened(tmp_path, "1.0", "2.0", more=[other])
    pins = {"tool": "2.0", "theirs": "1.0", "idle": "1.0"}
    under = with_pins(session, pins).catalog
    assert {name: under.default_pins("")[name] for name in pins} == pins
    assert under.default_pins("own")["tool"] == "1.0"
    assert [(known.root, known.document.pins.get("theirs")) for known in under.known_good] == [
        (session.catalog.roots[0], None), (other, "1.0"),
    ]  # fmt: skip
    changes = dict(patches(session, pins, PASSED))
    assert list(changes) == [session.catalog.roots[0], other]
    assert changes[other].startswith("--- /dev/null\n+++ b/toolchains/known-good.yaml\n")
    if shutil.which("git"):
        for root, text in changes.items():
            subprocess.run(["git", "apply"], input=f"# in {root}\n{text}".encode(), cwd=root, check=True)
        found = again(session.catalog.roots[0], tmp_path, other).catalog
        assert found.default_pins("") == under.default_pins("")
        assert [known.document.passed[-1] for known in found.known_good] == [PASSED, PASSED]


def test_a_catalog_is_not_told_of_suites_of_those_that_join_it(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "matrix" / "suites").mkdir(parents=True)
    (other / "matrix" / "suites" / "theirs.yaml").write_text("description: theirs\nsteps: [count]\n")
    session = opened(tmp_path, "1.0", "2.0", more=[other])
    ((root, text),) = patches(session, {"tool": "2.0"}, PASSED.model_copy(update={"suite": "theirs"}))
    assert root == session.catalog.roots[0]
    assert [line for line in text.splitlines() if line[0] == "+"][1:] == ['+  tool: "2.0"  # for a while']


def test_the_patch_changes_what_it_must(tmp_path: Path) -> None:
    session = opened(tmp_path, "1.0", "2.0")
    ((_, text),) = patches(session, {"tool": "2.0"}, PASSED)
    assert [line for line in text.splitlines() if line[0] in "+-"][2:] == [
        '-  tool: "1.0"  # for a while',
        '+  tool: "2.0"  # for a while',
        '-  - {suite: smoke, as_expected: 3, total: 3, date: "2026-01-02",  # long ago',
        f"-     outcomes: {'b' * 64}}}",
        f'+  - {{suite: smoke, as_expected: 2, total: 3, date: "{TODAY}",  # long ago',
        # Digits alone would be a number.
        f'+     outcomes: "{"2" * 64}"}}',
    ]


ENTRY = f'{{suite: old, as_expected: 1, total: 1, date: "2026-01-02", outcomes: {"a" * 64}}}'
OLD = {"suite": "old", "as_expected": 1, "total": 1, "date": "2026-01-02", "outcomes": "a" * 64}
BLOCK = "".join(f"    {key}: {value!r}\n" for key, value in {**OLD, "suite": "smoke"}.items()).replace(
    "    ", "  - ", 1
)


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("pins: {}\n", []),
        ("pins: {b: '1'}", []),
        ("pins:\n  b: '1'", []),
        ("pins:\n  c: 1.0.0\n\n# the end\n", []),
        ("pins:\n    a: 1.2.3  # a\n    b: 'x'  # b\n    # all\nenvironments: {e: {b: '7'}}\n", []),
        ("pins: {a: 1.2.3, b: 1.2.4,}\npassed: []\n", []),
        ("passed: []\nenvironments:\n  e:\n    b: '7'\npins:\n  d: 1.0.0\n", []),
        (f"pins: {{b: 1.2.4}}\npassed: [{ENTRY}]\nenvironments: {{}}\n", [OLD]),
        (f"pins:\n  b: 1.2.4\npassed:\n- {ENTRY}  # see there\n# more\nenvironments:\n  e: {{b: '7'}}\n", [OLD]),
        (f"passed:\n{BLOCK}  - {ENTRY}\n# and\npins: {{b: 1.2.4}}\n", [OLD]),
        (f"passed:\n  - {ENTRY}\n{BLOCK}# and\npins: {{b: 1.2.4}}\n", [OLD]),
        (f"passed:\n{BLOCK.replace('smoke', 'other')}\n# and\npins:\n  b: 1.2.4", [{**OLD, "suite": "other"}]),
    ],
)  # fmt: skip
def test_known_good_files_of_all_shapes(text: str, others: list[dict[str, Any]]) -> None:
    """Only the pins and this suite's entry differ afterwards, and nothing that people wrote is lost."""
    pins = {"b": "20261001", "bb": "1e5", "z": "24.0.0+a.1"}
    before, found = yaml.safe_load(text), edited(text, pins, PASSED)
    after = yaml.safe_load(found)
    new = PASSED.model_dump()
    assert sorted(after.pop("passed"), key=str) == sorted([*others, new], key=str)
    before.pop("passed", None)
    assert after == {**before, "pins": before["pins"] | pins}
    assert [line.partition("#")[2] for line in text.splitlines() if "#" in line] == [
        line.partition("#")[2] for line in found.splitlines() if "#" in line
    ]
    assert edited(found, pins, PASSED) == found
