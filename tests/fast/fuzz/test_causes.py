"""The passes that a wrong result of a composed route needs: on real routes, with verdicts that depend on what a route has."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.paths import find_home
from mlir_matrix.catalog.models.suites import KnownFinding
from mlir_matrix.execute.progress import shown
from mlir_matrix.fuzz.compose import Composer, Coverage
from mlir_matrix.fuzz.findings import Finding, Findings
from mlir_matrix.fuzz.known import Known
from mlir_matrix.fuzz.profiles import PROFILES
from mlir_matrix.fuzz.session import ROUTES, VARIANTS, Failure, Fuzzer, WantedRoutes
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import session_of
from support.recordings import result

ROOT = Path(__file__).parents[3]
ROUTE = "composed1"
LINK = "https://example.com/1"


class Recorded(Findings):
    """Findings whose runs are wrong where a route has all passes and steps of one of some sets, and that reduce nothing."""

    wrong: Sequence[set[str]] = ()
    how: Outcome = Outcome.MISMATCH

    def _run(self, session: Any, tests: list[str], *, if_installed: bool = False) -> list[Any]:
        return [self.ended(test.split("/")[1]) for test in tests]

    def _reduce(self, finding: Finding) -> None:
        finding.trouble = "recorded"

    def ended(self, route: str) -> Any:
        root = self.folder / VARIANTS / "recipes"
        parts: set[str] = set()
        for use in json.loads((root / f"pipelines/{route}.yaml").read_text())["steps"]:
            name = use if isinstance(use, str) else use["step"]
            own = root / f"steps/{name}/step.yaml"
            parts |= {*json.loads(own.read_text())["passes"].split(",")} if own.exists() else {name}
        return failed(route, self.how if any(each <= parts for each in self.wrong) else Outcome.PASS)


def failed(route: str, outcome: Outcome) -> Any:
    name = f"mlir/{route}/x86_64/composed-r0b0p0"
    return replace(result("composed-r0b0p0", outcome), id=name, framework="mlir", pipeline=route, target="x86_64")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The passes and steps of the route."""
    found = made(tmp_path_factory.mktemp("parts")).fuzzer.write_variants(tmp_path_factory.mktemp("root"), ROUTE, 0)
    return sorted({variant.part for variant in found.values()} - {""})


def made(folder: Path, known: str = "") -> Recorded:
    """Return findings. ``known``: the key of a known one."""
    session = session_of([ROOT], find_home())
    with shown(quiet=True) as listener:
        fuzzer = Fuzzer(session, WantedRoutes(["*/*/*"]), folder, 5, Limits(jobs=1), listener)
        findings = [KnownFinding(key=known, link=LINK, reason="It is wrong.")] if known else []
        return Recorded(fuzzer, folder, Limits(jobs=1), 1.0, listener, Known(findings, session.catalog, session.pins))


def look(findings: Recorded, *wrong: set[str]) -> Finding:
    """Add a failure of the route, where these are wrong."""
    findings.wrong = wrong
    program = next(Composer("1", PROFILES[0], Coverage()).programs((1, 3)))
    finding = findings.add(Failure(program, failed(ROUTE, findings.how), PROFILES[0], 0))
    assert finding is not None
    return finding


def test_what_is_wrong_alone_is_the_cause(tmp_path: Path, parts: list[str]) -> None:
    findings = made(tmp_path)
    finding = look(findings, {parts[2]})
    assert finding.needed == (parts[2],)
    # In later rounds, no route has it.
    assert findings.fuzzer.write_variants(tmp_path / "later", ROUTE, 1)
    later = (tmp_path / "later").rglob("*.yaml")
    assert not any(f'"{parts[2]}"' in path.read_text() for path in later)


def test_a_crash_of_the_program_has_the_cause_of_wrong_numbers(tmp_path: Path, parts: list[str]) -> None:
    wrong = look(made(tmp_path / "wrong"), {parts[2]})
    findings = made(tmp_path / "crash")
    findings.how = Outcome.CRASHED
    assert look(findings, {parts[2]}).key == wrong.key


@pytest.mark.parametrize(
    ("said", "pattern"),
    [
        ("'{}' does not refer to a registered pass or pass pipeline", r"^(?!linalg)[a-z-]+$"),
        ("no such option {}", r"[a-z-]+(?=\}\)$)"),
    ],
)
def test_what_the_release_lacks_is_no_finding(tmp_path: Path, said: str, pattern: str) -> None:
    """A pass, and an option of a pass."""
    findings = made(tmp_path)
    names = [f"composed{number}" for number in range(ROUTES)]
    written = [findings.fuzzer.write_variants(tmp_path / "0" / name, name, 0).values() for name in names]
    parts = {variant.part for variants in written for variant in variants}
    lacking = next(found[0] for part in sorted(parts) if (found := re.search(pattern, part)))
    refused = replace(failed(ROUTE, Outcome.LOWER_FAILED), reason=f"error: {said.format(lacking)}")
    program = next(Composer("1", PROFILES[0], Coverage()).programs((1, 3)))
    assert findings.add(Failure(program, refused, PROFILES[0], 0)) is None
    assert not findings.found
    for name in names:
        findings.fuzzer.write_variants(tmp_path / "1" / name, name, 1)
    for round, has_it in ((0, True), (1, False)):
        texts = [path.read_text() for path in (tmp_path / f"{round}").rglob("step.yaml")]
        assert any(lacking in text for text in texts) == has_it


def test_two_that_are_wrong_alone_are_known_by_either(tmp_path: Path, parts: list[str]) -> None:
    first = look(made(tmp_path / "first"), {parts[1]})
    findings = made(tmp_path / "both", known=first.key)
    finding = look(findings, {parts[0]}, {parts[1]})
    assert (finding.known, finding.needed, finding.trouble) == (LINK, (parts[1],), "")
    assert Path(finding.entry()["folder"], "finding.json").is_file()
    # The other one is found in a later round, in which no route has the known one.
    for round in range(1, 9):
        findings.fuzzer.write_variants(tmp_path / "later", ROUTE, round)
        later = " ".join(path.read_text() for path in (tmp_path / "later").rglob("*.yaml"))
        assert parts[1] not in later
        if parts[0] in later:
            break
    else:
        pytest.fail(f"no route has {parts[0]}")


def test_what_is_wrong_only_together(tmp_path: Path, parts: list[str]) -> None:
    """It is known if one of the parts is known to be wrong, and a finding of its own otherwise."""
    alone = look(made(tmp_path / "alone"), {parts[0]})
    findings = made(tmp_path / "known", known=alone.key)
    together = look(findings, {parts[0], parts[3]})
    assert (together.needed, together.known) == ((parts[0],), LINK)
    findings = made(tmp_path / "unknown", known=alone.key)
    together = look(findings, {parts[1], parts[3]})
    assert (together.needed, together.known) == ((parts[1], parts[3]), "")


@pytest.mark.parametrize("wrong", [[set()], []], ids=["all", "none"])
def test_no_part_is_blamed_without_evidence(tmp_path: Path, wrong: list[set[str]]) -> None:
    """Where a route without parts is wrong, too, and where the failure does not show again."""
    assert look(made(tmp_path), *wrong).needed == ()
