"""From failures to findings: alike ones are one, each is confirmed, reduced, and written with the text of an issue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.files import write_text
from mlir_matrix.fuzz.session import Failure, Fuzzer
from mlir_matrix.plan.request import Limits
from mlir_matrix.reduce.reduced import Reduced
from mlir_matrix.reduce.report import write_report
from mlir_matrix.reduce.run import reduce_test
from mlir_matrix.reduce.subject import failing_test, find_subject
from mlir_matrix.reduce.tester import Progress
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import behaviour

ENTRY = "finding.json"


@dataclass
class Finding:
    """A failure that is unlike all before it."""

    key: str
    failure: Failure
    folder: Path
    #: Programs that fail alike, this one included.
    count: int = 1
    #: None where it could not be reduced, for ``trouble``.
    reduced: Reduced | None = None
    trouble: str = ""

    @property
    def step(self) -> str:
        """The step that is wrong, if that is known."""
        if self.reduced:
            return self.reduced.subject.guilty
        step = self.failure.result.step
        return str(step["name"]) if step else ""


@dataclass
class Findings:
    """The findings of a session, by what identifies them. ``known``: keys to their links."""

    fuzzer: Fuzzer
    folder: Path
    limits: Limits
    budget_s: float
    listener: Listener
    known: Mapping[str, str] = field(default_factory=dict)
    found: dict[str, Finding] = field(default_factory=dict)
    #: How often a known one was met.
    met: dict[str, int] = field(default_factory=dict)

    def add(self, failure: Failure) -> Finding | None:
        """Take a failure; return a new finding, reduced and written, or None for one that is known."""
        key = key_of(failure.result)
        if key in self.known:
            self.met[key] = self.met.get(key, 0) + 1
            return None
        if key in self.found:
            self.found[key].count += 1
            return None
        finding = Finding(key, failure, self.folder / key)
        self.found[key] = finding
        self._reduce(finding)
        return finding

    def _reduce(self, finding: Finding) -> None:
        failure = finding.failure
        root = finding.folder / "catalog"
        self.fuzzer.write(root, {failure.name: failure.program}, [failure.source], failure.round)
        session = self.fuzzer.session_with(root)
        try:
            test, result = failing_test(session, failure.result.id, self.limits, self.listener)
            subject = find_subject(session, test, result, self.limits, good=None, by="behaviour", listener=self.listener)
            finding.reduced = reduce_test(
                subject, self.limits, self.budget_s, finding.folder / "reduced", progress=Progress(), listener=self.listener
            )
            write_report(finding.reduced, ["--catalog", str(root)])
        except (UsageError, InfrastructureError) as error:
            finding.trouble = str(error)
        write_text(finding.folder / ENTRY, json.dumps(entry_of(finding), indent=1) + "\n")


def key_of(result: TestResult) -> str:
    """Return what identifies a failure: how it ends and where, without what depends on the program."""
    found = behaviour(result)
    details: Sequence[str] = found.details
    if found.outcome == Outcome.MISMATCH:
        # Which elements are wrong depends on the program; the route does not.
        details = [result.identity.cell]
    return digest_value([found.outcome, found.stage, found.step, found.signal, found.frame, *details])[:12]


def entry_of(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON."""
    result, reduced = finding.failure.result, finding.reduced
    return {
        "key": finding.key,
        "test": result.id,
        "outcome": result.outcome,
        "reason": result.reason,
        "step": finding.step,
        "passes": list(reduced.passes) if reduced else [],
        "operations": finding.failure.program.operations,
        "reduced": reduced.text if reduced else "",
        "verified": bool(reduced and reduced.verified),
        "trouble": finding.trouble,
        "pins": dict(result.pins),
    }


def read_known(file: Path) -> dict[str, str]:
    """Return the keys of known findings with their links. Raise UsageError."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--known {file}: cannot be read: {error}") from None
    return {str(each["key"]): str(each.get("link", "")) for each in found}


