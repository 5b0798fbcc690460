"""Results: one outcome per test, whether it is the expected one, and what a program or a person wants to know of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mlir_matrix.actions.runtime.outcomes import Outcome, Stage
from mlir_matrix.digest import digest_bytes
from mlir_matrix.events import Event
from mlir_matrix.names import OF

if TYPE_CHECKING:
    # Results are shown without all that makes them where nothing has changed.
    from mlir_matrix.execute.job import Done
    from mlir_matrix.report.schemas.run import ExpectedOutcome, NamedTest, Results, Summary, TestEntry
    from mlir_matrix.report.schemas.verdict import Verdict

SCHEMA = "mlir-matrix/results/v1"
#: What a run reports about tests that it did not have to run.
NOT_RUN = frozenset({Outcome.UNSUPPORTED, Outcome.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """The outcome of one test."""

    #: For pytest, which would take the name for one of its own.
    __test__: ClassVar[bool] = False

    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    outcome: Outcome
    #: The stage that decided it; empty where nothing ran.
    stage: Stage | Literal[""]
    #: True where the outcome is what the suite expects.
    expected: bool
    reason: str
    duration_s: float = 0.0
    cached: bool = False
    pins: Mapping[str, str] = field(default_factory=dict)
    environments: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    #: What the suite expected instead of a pass, why, and where it says so.
    expectation: ExpectedOutcome | None = None
    #: The judge's findings, output by output; diagnostics and log of a failure.
    verdict: Verdict | None = None
    diagnostics: str = ""
    log: str = ""
    #: The name of the property that the test is of; empty where it is of none.
    relation: str = ""
    #: Of a pass: by output, the trivial outputs that would pass, too, but for those of which the workload says why that is right.
    weak: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def cell(self) -> str:
        """The identifier of its cell, with the pins that the suite varies."""
        _, mark, pins = self.id.partition("@")
        return f"{self.framework}/{self.pipeline}/{self.target}{mark}{pins}"

    @property
    def called(self) -> str:
        """The workload, with the property where the test is of one: ``matmul~scaling``."""
        return f"{self.workload}{OF}{self.relation}" if self.relation else self.workload

    def to_json(self) -> TestEntry:
        """The entry of this test in the results document."""
        names: NamedTest = {
            "id": self.id,
            "framework": self.framework,
            "pipeline": self.pipeline,
            "target": self.target,
            "workload": self.workload,
        }
        if self.relation:
            names["property"] = self.relation
        entry: TestEntry = {
            **names,  # type: ignore[typeddict-item] # keys that may be absent follow
            "outcome": self.outcome,
            "stage": self.stage,
            "expected": self.expected,
            "reason": self.reason,
            "duration_s": round(self.duration_s, 4),
            "cached": self.cached,
            "pins": dict(self.pins),
            "environments": dict(self.environments),
            "metrics": dict(self.metrics),
        }
        if self.expectation is not None:
            entry["expectation"] = self.expectation
        if self.weak:
            entry["weak"] = {name: list(passes) for name, passes in self.weak.items()}
        if self.outcome != Outcome.PASS and self.verdict is not None:
            entry["verdict"] = self.verdict
        if self.diagnostics:
            entry["diagnostics"] = self.diagnostics
        return entry


@dataclass(frozen=True, slots=True)
class TestDone(Event):
    """A test has its result."""

    __test__: ClassVar[bool] = False

    result: TestResult


@dataclass(kw_only=True)
class Run:
    """What a run came to. ``interrupted`` where somebody ended it: what was not run until then is ``skipped``."""

    results: list[TestResult] = field(default_factory=list)
    done: dict[str, Done] = field(default_factory=dict)
    #: What ended the run before its time: Ctrl-C, or a signal that asks for the same.
    interruption: KeyboardInterrupt | None = None
    #: Identifiers of the actions that were executed, in the order in which they ended.
    executed_actions: list[str] = field(default_factory=list)
    #: Files that it found its results in; None where programs on PATH decide about results, too.
    relied: Sequence[str] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether somebody ended it."""
        return self.interruption is not None

    @property
    def executed(self) -> int:
        """How many actions were executed; the others were known."""
        return len(self.executed_actions)


def weak_words(weak: Mapping[str, Sequence[str]]) -> str:
    """Return them as words."""
    return "; ".join(f"{name}: {' and '.join(passes)}" for name, passes in weak.items())


def outcomes_digest(results: Iterable[TestResult]) -> str:
    """SHA-256 over the identifiers and outcomes of tests, in the order of the identifiers: what a set of pins came to."""
    lines = sorted(f"{result.id} {result.outcome}\n" for result in results)
    return digest_bytes("".join(lines).encode())


def summarise(results: Sequence[TestResult]) -> Summary:
    """Totals: how many, how many as expected, how many of each outcome, how many from the cache; their digest."""
    counts = Counter(result.outcome for result in results)
    return {
        "total": len(results),
        "as_expected": sum(result.expected for result in results),
        "by_outcome": dict(sorted(counts.items())),
        "cached": sum(result.cached for result in results),
        "outcomes": outcomes_digest(results),
    }


def to_document(
    results: Sequence[TestResult], *, interrupted: bool = False, executed_actions: Sequence[str] = ()
) -> Results:
    """The results document; ``executed_actions`` are those that the cache did not have."""
    return {
        "schema": "mlir-matrix/results/v1",
        "tests": [result.to_json() for result in results],
        "summary": summarise(results),
        "interrupted": interrupted,
        "executed": len(executed_actions),
        "executed_actions": sorted(executed_actions),
    }


def exit_code(results: Iterable[TestResult]) -> int:
    """0: all as expected; 1: something under test is not; 3: nothing under test failed, but the infrastructure did."""
    wrong = [result for result in results if not result.expected]
    if any(result.outcome != Outcome.INFRA_ERROR for result in wrong):
        return 1
    return 3 if wrong else 0
