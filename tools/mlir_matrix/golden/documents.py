"""Types of the documents of ``matrix golden`` and ``matrix inputs``. Within a version, keys may be added."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, final

from typing_extensions import TypedDict

from mlir_matrix.base.documents import document
from mlir_matrix.compare.documents import Number


class ExplainedAttribute(TypedDict):
    """A numerics attribute of a test."""

    name: str
    value: str | bool
    by: str
    """The workload, target or pipeline that states it; ``position`` is the line."""
    position: str
    counts: bool
    """False if a more specific statement overrides it."""


class ExplainedLayer(TypedDict):
    """A tolerance layer, and why it applies or does not."""

    layer: str
    """File, line and column."""
    applies: bool
    why: str


class ExplainedBound(TypedDict):
    """A bound: its expression, the expression with numbers, and its value."""

    text: str
    substituted: str
    value: float


class ExplainedSize(TypedDict):
    """The bound of the error for an expected value of some size."""

    at: Literal["zero", "median", "largest"]
    """Zero, or the golden's median or largest."""
    size: float
    bound: float
    """The largest accepted absolute error."""
    ulp: float | None
    """The same in units of the last place of such a value; null near zero."""


class ExplainedVerdict(TypedDict):
    """The result of the output in the last run."""

    outcome: Literal["pass", "mismatch", "infra-error"]
    reason: str
    error_used: Number | None
    max_abs: Number | None


class ExplainedElements(TypedDict):
    """The bounds of the elements of an output."""

    rationale: str
    """Where they come from: ``derived …``, ``empirical: …`` or ``given by the test: …``."""
    median: float | None
    """Null if no bound is finite, or if they are not measured."""
    largest: float | None


class ExplainedOutput(TypedDict):
    """The origin of the bounds of one output."""

    name: str
    dtype: str
    shape: list[int]
    compare: Literal["numeric", "exact", "order-free"]
    layers: list[ExplainedLayer]
    """From general to specific: the last layer that applies wins."""
    layer: str
    """The layer that wins."""
    rationale: str
    bounds: dict[str, ExplainedBound]
    """By key of the layer: ``atol``, ``rtol``, ``max_ulp``."""
    meaning: list[ExplainedSize]
    last: ExplainedVerdict | None
    """Null without a cached verdict."""
    element_bounds: NotRequired[ExplainedElements]
    """If elements have their own bounds. Then ``meaning`` is empty, and ``bounds``, too, of a program in a foreign form."""
    oracle: NotRequired[str]
    """For such a program: its expected output, and who computed it."""


class ExplanationSummary(TypedDict):
    """Numbers of entries."""

    attributes: int
    outputs: int


@document
class GoldenExplanation(TypedDict):
    """The bounds of a test and their origin (`matrix golden explain --format json`)."""

    schema: Literal["mlir-matrix/golden-explanation/v1"]
    id: str
    summary: ExplanationSummary
    scaled: str
    """Of a program that was too large for a test: which of its numbers were made smaller; else empty."""
    attributes: list[ExplainedAttribute]
    outputs: list[ExplainedOutput]


class GoldenDifference(TypedDict, total=False):
    """The difference between a new golden and the one on disk. If they cannot be compared, it has only ``changed``."""

    changed: str | None
    elements: int | None
    differ: int | None
    """Number of elements that differ."""
    abs: Number | None
    """The largest difference: absolute, relative to the old element, the index, and both elements."""
    rel: Number | None
    index: list[int] | None
    old: Number | bool | None
    new: Number | bool | None
    blocks: int | None
    """Of sketches: number of blocks. Their ``elements`` are the sample elements."""
    differing_blocks: int | None
    norm: Number | None
    """Euclidean norm of all differences, estimated from the projections."""
    rounding: Number | None
    """The largest difference as a share of the rounding error of float64; null without a bound."""


class GoldenWeak(TypedDict):
    """Trivial outputs, which need no program, that pass under some bounds."""

    passes: list[str]
    layer: str
    """File, line and column of the tolerance layer."""
    bounds: dict[str, str]
    """By key of the layer, as in its file: ``atol``, ``rtol``, ``max_ulp``; empty if all elements must be equal."""


GoldenState: TypeAlias = Literal["same", "rounding", "new", "different", "both-forms"]


class GoldenOutput(TypedDict):
    """One output of a workload."""

    workload: str
    output: str
    state: GoldenState
    """``rounding``: the difference is at most the rounding error of float64. ``both-forms``: there is an array and a sketch."""
    file: str
    sketch: bool
    bytes: int
    written: bool
    recorded: bool
    """False if the record beside the golden stated another reference, other inputs or other outputs; ``--write`` corrects it."""
    difference: GoldenDifference | None
    """Null if the state is not ``different``."""
    weak: list[GoldenWeak]
    """An entry for each set of bounds, over all cells, under which a trivial output passes."""
    weak_reason: str | None
    """The reason that the workload states for weak goldens; null without a reason."""


class GoldenFailure(TypedDict):
    """A workload whose reference failed."""

    workload: str
    reason: str


class UpdateSummary(TypedDict):
    """Numbers of entries."""

    outputs: int
    stale: int
    """Outputs whose golden is to be written."""
    unrecorded: int
    """Workloads whose record is to be written."""
    failures: int


@document
class GoldenUpdate(TypedDict):
    """The difference between goldens and their references (`matrix golden update --format json`)."""

    schema: Literal["mlir-matrix/golden-update/v1"]
    summary: UpdateSummary
    outputs: list[GoldenOutput]
    failures: list[GoldenFailure]


class NewCost(TypedDict):
    """An exact cost without a golden, or one that differs from its golden by more than the bound."""

    cost: str
    golden: float | None
    value: float


class UpdatedCosts(TypedDict):
    """The costs of a test, compared with their goldens."""

    id: str
    state: Literal["same", "new", "different"]
    """`new`: no cost of it has a golden. `same`: all are within their bounds."""
    file: str
    written: bool
    costs: list[NewCost]


class CostFailure(TypedDict):
    """A test that gets no goldens of its costs."""

    id: str
    reason: str


class CostUpdateSummary(TypedDict):
    """Numbers of tests."""

    tests: int
    stale: int
    """Those with costs to be written."""
    failures: int


@document
class CostUpdate(TypedDict):
    """The difference between goldens of costs and the costs of a run (`matrix golden update --cost --format json`)."""

    schema: Literal["mlir-matrix/cost-update/v1"]
    summary: CostUpdateSummary
    tests: list[UpdatedCosts]
    failures: list[CostFailure]


class CalibratedFit(TypedDict):
    """The Gumbel distribution of the largest errors of the worst test, as shares of the bound."""

    location: float
    scale: float
    size: int
    """Size of the sample."""
    gap: float
    """The distance of the distribution from the sample (Kolmogorov-Smirnov); 99 of 100 Gumbel samples stay below ``usual_gap``."""
    usual_gap: float


class CalibratedLayer(TypedDict):
    """The errors of runs, as shares of a layer's bounds."""

    layer: str
    """File, line and column; with ``, derived`` or another kind if each element has its own bound."""
    tests: int
    runs: int
    distinct_runs: int
    """Runs with different errors."""
    largest: float
    p50: float
    p99: float
    worst_test: str
    fit: CalibratedFit | None
    """Null for a sample that is too small or constant."""
    rate_now: float
    """False alarms per run of the worst test, with today's bounds."""
    rate_at_most: float
    """An upper limit of the rate that assumes no distribution."""
    bounds: dict[str, str]
    proposed: dict[str, str] | None
    """Null without a proposal: see ``why_not``."""
    factor: float | None
    """The proposed bounds divided by today's."""
    rate_proposed: float | None
    why_not: str | None


class CalibratedFailure(TypedDict):
    """A test that failed in some draws."""

    test: str
    draws: list[int]
    outcome: str
    reason: str


class NotCalibrated(TypedDict):
    """A test that was not run, and why."""

    test: str
    reason: str


class CalibrationSummary(TypedDict):
    """Numbers of entries."""

    tests: int
    failed: int
    layers: int
    proposed: int
    """Layers with a proposal."""


@document
class Calibration(TypedDict):
    """Errors over many draws, and the bounds that follow (`matrix golden calibrate --format json`)."""

    schema: Literal["mlir-matrix/calibration/v1"]
    summary: CalibrationSummary
    draws: int
    false_alarm: float
    """The wanted rate of false alarms per run."""
    confidence: float
    """The confidence of that rate, as a share of 1."""
    targets: list[str]
    pins: dict[str, str]
    """The pins of the command line, by component."""
    tests: int
    executed: int
    """Number of executed actions; the others were cached."""
    layers: list[CalibratedLayer]
    failed: list[CalibratedFailure]
    exact: list[str]
    """Layers whose bounds are all 0."""
    expected_to_fail: list[str]
    """Tests that did not run because the suite expects them to fail."""
    not_run: list[NotCalibrated]
    patch: str
    """The proposals, for ``git apply``; empty without proposals."""


class WrittenInput(TypedDict):
    """An input of a workload."""

    name: str
    file: str
    shape: list[int]
    dtype: str
    stored: str
    """The dtype in the file, as NumPy writes it. bf16 is stored as its bits: `<u2`."""


class InputsSummary(TypedDict):
    """Numbers of files."""

    inputs: int
    bytes: int


@document
class Inputs(TypedDict):
    """The inputs of a workload (`matrix inputs`): the file `inputs.json` beside them."""

    schema: Literal["mlir-matrix/inputs/v1"]
    summary: InputsSummary
    workload: str
    draw: int
    """The number of the draw; 0 is the one that tests run with."""
    inputs: list[WrittenInput]
    program: NotRequired[str]
    """The file with the program, if it is in a foreign form."""


class AuditCounts(TypedDict):
    """Counts of mutants: ``planted`` = ``mattered`` + ``not_mattering``, ``mattered`` = ``caught`` + ``missed``."""

    planted: int
    """Mutants: mutations at each of their sites, in each draw."""
    mattered: int
    """Mutants whose error exceeds the forward error bound on some element."""
    not_mattering: int
    caught: int
    """Of the mutants that mattered."""
    missed: int
    by_runner: int
    """Of the caught mutants: those that failed to run."""


class AuditSummary(AuditCounts):
    """Totals."""

    rejected: int
    """Mutants, in each draw, that do not compile; ``planted`` does not count them."""
    allowed: int
    """Runs that must pass: the kernel unchanged, contracted, reassociated."""
    allowed_flagged: int
    """Of the allowed runs: those that did not pass."""
    weak: int
    """Trivial outputs that pass a test."""
    slack: int
    """Layers that are more than eight times as large as any observed error."""
    not_audited: int


class AuditLayer(TypedDict):
    """The mutants that a tolerance layer decides."""

    layer: str
    """File, line and column; ``the runner`` for mutants that failed to run."""
    mattered: int
    caught: int


class AuditMutation(AuditCounts):
    """One mutation in one test, over all sites and draws."""

    mutation: str
    sites: int
    layers: list[AuditLayer]


class AuditTest(AuditCounts):
    """An audited test."""

    test: str
    workload: str
    draws: int
    """Number of draws; 1 if the inputs are the same in each draw."""
    mutations: list[AuditMutation]


class AuditMiss(TypedDict):
    """A mutant that matters and passes, with its worst element."""

    test: str
    mutation: str
    site: int
    where: str
    draw: int
    output: str
    index: list[int]
    error: Number
    bound: Number
    """The forward error bound of the element."""
    atol: str
    rtol: str
    layer: str
    """File, line and column of the layer that lets it through."""


@final
class AuditRun(TypedDict):
    """A run of an allowed change."""

    test: str
    mutation: str
    draw: int


class AuditFlagged(TypedDict):
    """A run of an allowed change that did not pass."""

    test: str
    mutation: str
    draw: int
    layer: str
    reason: str


class AuditBeyond(TypedDict):
    """A run of an allowed change whose error exceeds the forward error bound: the bound or the program is wrong."""

    test: str
    mutation: str
    draw: int
    output: str
    index: list[int]


class AuditWeak(TypedDict):
    """A trivial output that passes a test."""

    test: str
    output: str
    draws: list[int]


class AuditUse(TypedDict):
    """The share of a layer that runs that must pass used."""

    layer: str
    used: float
    """The largest error as a share of its bound."""
    looser: float | None
    """How many times as large as the largest error the bound is; null without any error."""
    tests: list[str]


class AuditFailure(TypedDict):
    """A test that could not be audited."""

    test: str
    reason: str


@document
class Audit(TypedDict):
    """The results of an audit (`matrix golden audit --format json`)."""

    schema: Literal["mlir-matrix/audit/v1"]
    seeds: int
    summary: AuditSummary
    tests: list[AuditTest]
    misses: list[AuditMiss]
    flagged: list[AuditFlagged]
    beyond_bound: list[AuditBeyond]
    weak: list[AuditWeak]
    nothing_mattered: list[str]
    """Tests in which no mutant matters."""
    layers: list[AuditUse]
    """Layers whose bounds are not 0, the loosest first."""
    slack: list[AuditUse]
    """Layers that are too loose."""
    not_audited: list[AuditFailure]
