"""From failures to findings: alike ones are one, which is reduced, confirmed, and run with other releases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.files import write_text
from mlir_matrix.catalog.pins import read_pins
from mlir_matrix.environments.session import Session
from mlir_matrix.fuzz.documents import FuzzFinding
from mlir_matrix.fuzz.session import Failure, Fuzzer
from mlir_matrix.fuzz.values import Program
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.reduce.reduced import Reduced
from mlir_matrix.reduce.report import write_report
from mlir_matrix.reduce.run import reduce_test
from mlir_matrix.reduce.subject import failing_test, find_subject
from mlir_matrix.reduce.tester import Progress
from mlir_matrix.results.results import NOT_RUN, TestResult
from mlir_matrix.results.run_plan import run_plan
from mlir_matrix.results.signature import behaviour

#: The component whose releases are tried.
COMPONENT = "llvm"
#: Other inputs with which a failure must show.
DRAWS = 3
ENTRY = "finding.json"
_REDUCED = "reduced"


@dataclass
class Finding:
    """A failure that is unlike all others of its session."""

    key: str
    failure: Failure
    folder: Path
    #: How many programs failed in this way, and with how many of other inputs the first one does.
    count: int = 1
    draws: int = 0
    #: None where it could not be reduced, for ``trouble``.
    reduced: Reduced | None = None
    trouble: str = ""
    #: How the program ends by release.
    releases: Mapping[str, Outcome] = field(default_factory=dict)
    #: The link of a known one.
    known: str = ""

    @property
    def confirmed(self) -> bool:
        """Whether it fails in new processes, and with all inputs."""
        return self.reduced is not None and self.reduced.verified and self.draws == DRAWS

    def entry(self) -> FuzzFinding:
        """Return it for a document."""
        result, reduced = self.failure.result, self.reduced
        step = reduced.subject.guilty if reduced else str(result.step["name"]) if result.step else ""
        return {
            "key": self.key,
            "known": self.known,
            "id": result.id,
            "outcome": result.outcome,
            "reason": result.reason,
            "step": step,
            "passes": list(reduced.passes) if reduced else [],
            "count": self.count,
            "operations": reduced.after.operations if reduced else None,
            "draws": self.draws,
            "releases": dict(self.releases),
            "confirmed": self.confirmed,
            "trouble": self.trouble,
            "folder": str(self.folder),
        }


@dataclass
class Findings:
    """The findings of a session by their keys. ``known``: keys of known ones with their links."""

    fuzzer: Fuzzer
    folder: Path
    limits: Limits
    budget_s: float
    listener: Listener
    known: Mapping[str, str] = field(default_factory=dict)
    found: dict[str, Finding] = field(default_factory=dict)

    def add(self, failure: Failure) -> Finding | None:
        """Take a failure; return it as a finding if it is unlike those before it. Reduce and write what is not known."""
        key = key_of(failure.result)
        if key in self.found:
            self.found[key].count += 1
            return None
        finding = self.found[key] = Finding(key, failure, self.folder / key, known=self.known.get(key, ""))
        if key not in self.known:
            self._reduce(finding)
            write_text(finding.folder / ENTRY, json.dumps(finding.entry(), indent=1) + "\n")
        return finding

    def _reduce(self, finding: Finding) -> None:
        failure = finding.failure
        root = finding.folder / "catalog"
        name = failure.result.workload.rpartition(":")[2]
        others = {f"{name}d{draw}": failure.program.with_inputs(draw) for draw in range(1, DRAWS + 1)}
        session = self._written(root, failure, {name: failure.program, **others})
        try:
            test, result = failing_test(session, failure.result.id, self.limits, self.listener)
            drawn = [failure.result.id.replace(name, other) for other in others]
            finding.draws = sum(key_of(each) == finding.key for each in self._run(session, drawn))
            subject = find_subject(
                session, test, result, self.limits, good=None, by="behaviour", listener=self.listener
            )
            finding.reduced = reduce_test(
                subject,
                self.limits,
                self.budget_s,
                finding.folder / _REDUCED,
                progress=Progress(),
                listener=self.listener,
            )
            write_report(finding.reduced, ["--catalog", str(root)])
            finding.releases = self._by_release(session, failure.result.id)
        except (UsageError, InfrastructureError) as error:
            finding.trouble = str(error)

    def _written(self, root: Path, failure: Failure, programs: Mapping[str, Program]) -> Session:
        self.fuzzer.write(root, programs, [failure.source], failure.round)
        return self.fuzzer.session_with(root)

    def _run(self, session: Session, tests: list[str]) -> list[TestResult]:
        """Run tests. Raise the interruption, if any."""
        plan = plan_tests(session, select_tests(session, tests))
        run = run_plan(session, plan, limits=self.limits, fail_fast=False, listener=self.listener)
        if run.interruption is not None:
            raise run.interruption
        return run.results

    def _by_release(self, session: Session, test: str) -> dict[str, Outcome]:
        """Return how a test ends with each release that is installed here and that its route supports."""
        found: dict[str, Outcome] = {}
        entry = session.catalog.components[COMPONENT]
        for release in entry.document.releases:
            pins = read_pins(session.catalog, [f"{COMPONENT}={release.release}"])
            # As a glob, a test that does not support the release is no error.
            for result in self._run(session.with_pins(pins), [f"{{{test.replace('/', '}/{')}}}"]):
                if result.outcome not in NOT_RUN | {Outcome.INFRA_ERROR}:
                    found[release.release] = result.outcome
        return found


def key_of(result: TestResult) -> str:
    """Return what identifies a failure: how it ends and where, without what depends on the program."""
    found = behaviour(result)
    if found.outcome == Outcome.MISMATCH:
        # Which elements are wrong depends on the program; the route does not.
        found = replace(found, details=(result.identity.cell,))
    return digest_value([found.outcome, found.stage, found.step, found.signal, found.frame, *found.details])[:12]


def read_known(file: Path) -> dict[str, str]:
    """Return the keys of known findings with their links. Raise UsageError."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return {str(each["key"]): str(each["link"]) for each in found}
    except OSError as error:
        raise UsageError(f"--known {file}: cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError):
        raise UsageError(
            f'--known {file}: expected a list as JSON: [{{"key": "9ee45ecca50a", "link": "https://…"}}]'
        ) from None
