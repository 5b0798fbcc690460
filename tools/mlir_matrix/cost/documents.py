"""Types of the documents of ``matrix cost``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.documents import document
from mlir_matrix.compare.documents import Number
from mlir_matrix.results.documents import Costs


class WorkOfTest(TypedDict):
    """What a call has to do at least."""

    bytes: int
    """Of all inputs and outputs, each once."""
    flops: NotRequired[int]
    """Arithmetic operations; absent if they are not known."""
    absent: NotRequired[str]
    """Why they are not known."""


class PeakShare(TypedDict):
    """How much of what one core of the machine can do a call reaches (`matrix machine probe --peaks`)."""

    fraction: float
    """The least time that the machine needs, by that of the call."""
    bound: Literal["compute", "memory"]
    """What takes the least time."""
    level: str
    """The smallest level that holds all inputs and outputs: `L1`, … or `memory`."""


class TestCosts(TypedDict):
    """What a test costs."""

    id: str
    outcome: Outcome
    reason: str
    costs: NotRequired[Costs]
    """Absent if the test did not pass: a wrong program has no costs that matter."""
    work: NotRequired[WorkOfTest]
    """Absent without a time."""
    peak: NotRequired[PeakShare]
    """Absent without a time, if the work is not known, or if the peaks of the machine were not measured."""


class CostsSummary(TypedDict):
    """Totals."""

    total: int
    measured: int
    """Tests with costs."""


@document
class CostsDocument(TypedDict):
    """What tests cost (`matrix cost --format json`)."""

    schema: Literal["mlir-matrix/costs/v1"]
    tests: list[TestCosts]
    summary: CostsSummary


class ChangedCost(TypedDict):
    """An exact cost that differs between the sides."""

    before: Number
    """Of the other side."""
    now: Number
    """Of the test."""
    word: Literal["better", "worse", "equal", "differs"]
    """`equal`: the difference is within the bound of this cost. `differs`: the cost has no bound in golden/costs.yaml."""


class TimeComparison(TypedDict):
    """The times of a call, compared in pairs that were measured one right after the other."""

    word: Literal["faster", "slower", "same", "cannot tell"]
    """What the test is against the other side."""
    ratio: float
    """Its time by that of the other side."""
    low: float
    high: float
    """The interval of the ratio."""
    pairs: int


CostWord = Literal["equal", "better", "worse", "mixed", "same", "cannot tell", "not compared"]


class ComparedTest(TypedDict):
    """A test and its other side."""

    id: str
    other: str
    """The test of the other side."""
    word: CostWord
    """`equal`: both sides are the same program, so nothing was measured. `cannot tell`: exact costs are the same, and times do not
    decide."""
    reason: NotRequired[str]
    """Why it was not compared."""
    exact: NotRequired[dict[str, ChangedCost]]
    """Only those that differ."""
    time: NotRequired[TimeComparison]
    """Absent for equal programs, and if it was not measured."""
    untimed: NotRequired[str]
    """Why it was not timed."""


class ComparedSummary(TypedDict):
    """The number of tests by word."""

    total: int
    by_word: dict[str, int]


@document
class CostComparison(TypedDict):
    """The costs of tests against those of another side (`matrix cost --against`)."""

    schema: Literal["mlir-matrix/cost-comparison/v1"]
    against: str
    tests: list[ComparedTest]
    summary: ComparedSummary


class Contestant(TypedDict):
    """A test that passes, and its criteria: all are better the smaller they are."""

    test: str
    framework: str
    pipeline: str
    values: dict[str, float]
    """`time_ns` of a call, `instructions` of a call, `code_bytes`, `compile_s` of CPU time, and `error`: the largest one as a share
    of its bound. What is not known is absent."""


class BestTest(Contestant):
    """A test that no other one of the set beats."""

    first_in: list[str]
    """The criteria in which no other test of the set is certainly better."""


class BeatenTest(Contestant):
    """A test that another one beats: it is certainly better in some criteria, and certainly worse in none."""

    by: str
    """The test of the set that beats it in most criteria."""
    better_in: list[str]
    """The criteria in which that test is certainly better."""


class Contest(TypedDict):
    """The tests of a workload on a target."""

    workload: str
    target: str
    criteria: list[str]
    """Those that all passing tests have; they are compared in these."""
    noise: dict[str, float]
    """By criterion that is measured: the share below which a difference says nothing."""
    not_compared: dict[str, str]
    """Other criteria, each with a test that lacks it, and why."""
    best: list[BestTest]
    """The Pareto set, sorted by the first criterion: each has a reason to be chosen."""
    beaten: list[BeatenTest]
    failing: dict[str, str]
    """Tests that ran and do not pass, with outcome and reason."""


@document
class BestDocument(TypedDict):
    """Which pipelines are best for each workload on each target (`matrix report best --format json`)."""

    schema: Literal["mlir-matrix/best/v1"]
    summary: dict[str, int]
    contests: list[Contest]


class AuditedComparisons(TypedDict):
    """Comparisons under one load."""

    load: str
    """What else the machine did; `live`: now, with another process that computes."""
    ratio: float
    """The time of the second side by that of the first, as planted: 1 for equal programs."""
    comparisons: int
    pairs: float
    """The mean number of pairs, before any confirmation."""
    words: dict[str, int]
    false: int
    """Equal programs that are called slower or faster, or planted slowdowns that are called the opposite."""
    found: int
    """Planted slowdowns that are found, before confirmation."""
    confirmed: int
    """What fresh pairs confirm of both."""


class CostAuditSummary(TypedDict):
    """What must hold of recorded times. Bounds are those of Wilson's 95 % interval."""

    equal: int
    false: int
    false_at_most: float
    confirmed_false: int
    """False alarms that remain after confirmation."""
    planted_quiet: int
    found_quiet: int
    found_at_least: float
    planted_same: int
    """Planted slowdowns that are called the same."""
    holds: bool


@document
class CostAudit(TypedDict):
    """How often comparisons of times err (`matrix cost audit --format json`)."""

    schema: Literal["mlir-matrix/cost-audit/v1"]
    seed: int
    comparisons: list[AuditedComparisons]
    summary: CostAuditSummary
