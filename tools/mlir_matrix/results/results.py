"""Define the results of tests: one outcome per test, whether it is expected, and details."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import DiskFullError, InfrastructureError
from mlir_matrix.base.events import Event
from mlir_matrix.base.names import OF, TestId, split_pins

if TYPE_CHECKING:
    # Imported only for types, so that an unchanged run does not wait for them.
    from mlir_matrix.compare.documents import Verdict
    from mlir_matrix.execute.job import Done
    from mlir_matrix.plan.documents import ExpectedOutcome, NamedTest, Selection
    from mlir_matrix.results.documents import (
        Cause,
        Costs,
        DecidingStep,
        FinishedRun,
        InQuarantine,
        Results,
        Summary,
        TestEntry,
    )

SCHEMA = "mlir-matrix/results/v1"
#: Outcomes of tests that did not run.
NOT_RUN = frozenset({Outcome.UNSUPPORTED, Outcome.SKIPPED})
#: Keys of an entry that are absent if they are empty.
_OPTIONAL = (
    *("expectation", "quarantine", "position", "step", "steps", "wrong_output", "scaled", "device", "signal", "frame"),
    *("diagnostics", "kept", "repeat", "next", "costs"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """The outcome of one test."""

    #: Tells pytest that this is not a test class.
    __test__: ClassVar[bool] = False

    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    outcome: Outcome
    #: The stage that decided it; empty if nothing ran.
    stage: Stage | Literal[""]
    #: True if the outcome is what the suite expects.
    expected: bool
    reason: str
    duration_s: float = 0.0
    cached: bool = False
    pins: Mapping[str, str] = field(default_factory=dict)
    environments: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    #: What it costs, if that was asked for.
    costs: Costs | None = None
    #: The outcome that the suite expects instead of a pass, with reason and position.
    expectation: ExpectedOutcome | None = None
    #: The census of each output; diagnostics and log of a failure.
    verdict: Verdict | None = None
    diagnostics: str = ""
    log: str = ""
    #: The name of the tested property; empty for other tests.
    tested_property: str = ""
    #: By output of a pass: the trivial outputs that would also pass, unless the workload states a reason.
    weak: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Where a failure is, if it has a place: a line of a file of a catalog or of the folder ``kept``.
    position: str = ""
    #: The action that decided an outcome other than a pass.
    step: DecidingStep | None = None
    #: The steps of its route that it reached, in order.
    steps: Sequence[str] = field(default_factory=list)
    #: Name and digest of the IR after its importer and each of these steps, for the history only.
    ir: tuple[tuple[str, str], ...] = ()
    #: For wrong outputs of a program: the digest of all of them.
    wrong_output: str = ""
    #: For a program that was too large for a test: which of its numbers were reduced.
    scaled: str = ""
    #: The GPU that ran it, and the release of its driver.
    device: str = ""
    #: For a crash: the name of the signal.
    signal: str = ""
    #: The innermost frame of a stack in the diagnostics.
    frame: str = ""
    #: For an unexpected outcome that does not fail the run: who searches for the cause, and until when.
    quarantine: InQuarantine | None = None
    #: True if the target runs nothing. Then a pass means that the artifact was compiled and checked.
    compile_only: bool = False
    #: For a test that ran several times in one run: the number of times of each outcome.
    repeats: Mapping[Outcome, int] = field(default_factory=dict)
    #: For such a test: steps that gave different bytes for equal inputs.
    unstable: Sequence[str] = field(default_factory=list)
    #: The command that runs the test again; the folder of its files, complete when the run has ended.
    repeat: str = ""
    kept: str = ""
    #: The command that helps most to find the cause.
    next: str = ""

    @property
    def fails(self) -> bool:
        """Return True if the outcome fails a run."""
        return not self.expected and self.quarantine is None

    @property
    def identity(self) -> TestId:
        """Return the identifier by its parts."""
        _, pins = split_pins(self.id)
        return TestId(self.framework, self.pipeline, self.target, self.called, pins)

    @property
    def called(self) -> str:
        """Return the workload, with the tested property: ``matmul~scaling``."""
        return f"{self.workload}{OF}{self.tested_property}" if self.tested_property else self.workload

    def to_fields(self) -> dict[str, Any]:
        """Return the fields from which ``TestResult(**fields)`` makes this result again, without IR and the verdict of a pass."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "ir"}
        # A passing verdict is large, and no report shows it.
        return values | {"verdict": None} if self.outcome == Outcome.PASS else values

    def to_json(self) -> TestEntry:
        names: NamedTest = {
            "id": self.id,
            "framework": self.framework,
            "pipeline": self.pipeline,
            "target": self.target,
            "workload": self.workload,
        }
        if self.tested_property:
            names["property"] = self.tested_property
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
        if self.repeats:
            entry["repeats"] = dict(self.repeats)
        if self.unstable:
            entry["unstable"] = list(self.unstable)
        if self.weak:
            entry["weak"] = {name: list(passes) for name, passes in self.weak.items()}
        if self.outcome != Outcome.PASS and self.verdict is not None:
            entry["verdict"] = self.verdict
        if self.compile_only:
            entry["compile_only"] = True
        more = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name)}
        return entry | more  # type: ignore[return-value] # a TypedDict takes no dict


@dataclass(frozen=True, slots=True)
class TestDone(Event):
    """A test has its result."""

    __test__: ClassVar[bool] = False

    result: TestResult


@dataclass(kw_only=True)
class Run:
    """The results of a run. If it was interrupted, the remaining tests are ``skipped``."""

    results: list[TestResult] = field(default_factory=list)
    done: dict[str, Done] = field(default_factory=dict)
    #: The exception of Ctrl-C, SIGTERM or SIGHUP, or of a full disk.
    interruption: KeyboardInterrupt | DiskFullError | None = None
    #: What groups of unexpected outcomes have in common, the largest group first; known when the run has ended.
    causes: Sequence[Cause] = ()
    #: The executed actions, in the order in which they ended.
    executed_actions: list[str] = field(default_factory=list)
    #: The files of the cached results; None if results also depend on programs on PATH.
    relied: Sequence[str] | None = None

    @property
    def interrupted(self) -> bool:
        return self.interruption is not None

    @property
    def executed(self) -> int:
        return len(self.executed_actions)

    def raise_interruption(self) -> None:
        """Raise what interrupted the run, if anything did."""
        if self.interruption is not None:
            raise self.interruption


def raise_infrastructure_error(results: Iterable[TestResult]) -> None:
    """Raise InfrastructureError if the machine has kept a test from its verdict."""
    for result in results:
        if result.outcome == Outcome.INFRA_ERROR:
            raise InfrastructureError(f"{result.id}: {result.reason}")


def weak_words(weak: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{name}: {' and '.join(passes)}" for name, passes in weak.items())


def is_refused(result: TestResult) -> bool:
    """Return whether the outputs of a test are right, and its suite refuses them because they are weak."""
    outputs = result.verdict["outputs"] if result.verdict else ()
    return any(each["outcome"] == "mismatch" and "weak" in each for each in outputs)


def outcomes_digest(results: Iterable[TestResult]) -> str:
    """Return the SHA-256 of the sorted identifiers and outcomes of tests."""
    lines = sorted(f"{result.id} {result.outcome}\n" for result in results)
    return digest_bytes("".join(lines).encode())


def summarise(results: Sequence[TestResult]) -> Summary:
    counts = Counter(result.outcome for result in results)
    return {
        "total": len(results),
        "as_expected": sum(result.expected for result in results),
        "in_quarantine": sum(result.quarantine is not None for result in results),
        "by_outcome": dict(sorted(counts.items())),
        "cached": sum(result.cached for result in results),
        "outcomes": outcomes_digest(results),
    }


def to_document(run: Run, about: FinishedRun, selection: Selection | None = None) -> Results:
    """Return the results document; ``about``: the program, catalogs, host and times of the run."""
    document: Results = {
        "schema": "mlir-matrix/results/v1",
        "run": about,
        "tests": [result.to_json() for result in run.results],
        "summary": summarise(run.results),
        "causes": list(run.causes),
        "interrupted": run.interrupted,
        "executed": run.executed,
        "executed_actions": sorted(run.executed_actions),
    }
    if selection is not None:
        document["selection"] = selection
    return document


def exit_code(results: Iterable[TestResult]) -> int:
    """Return 0 if all outcomes are as expected or in quarantine, else 1.

    2 if a golden is unusable and nothing under test failed, 3 if only the infrastructure failed.
    """
    wrong = [result for result in results if result.fails]
    if any(result.outcome != Outcome.INFRA_ERROR for result in wrong):
        return 1
    return (2 if any(result.verdict for result in wrong) else 3) if wrong else 0
