"""What the JSON documents of ``matrix golden explain``, ``update`` and ``calibrate`` hold; their JSON Schemas are made from this.

The documents are written by ``tolerance_text.py``, ``calibration_text.py`` and the verbs, which return these types. Within a
version keys may join, and none leaves or changes its meaning.
"""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from mlir_matrix.report.schemas.verdict import Number


class ExplainedFact(TypedDict):
    """A fact about the numerics of a test, as somebody states it."""

    name: str
    value: str | bool
    #: Who states it, and where.
    by: str
    position: str
    #: False where a more specific word says otherwise.
    counts: bool


class ExplainedLayer(TypedDict):
    """A tolerance layer, and why it applies or does not."""

    #: File, line and column.
    layer: str
    applies: bool
    why: str


class ExplainedBound(TypedDict):
    """A bound as it is written, with numbers in it, and its value."""

    text: str
    substituted: str
    value: float


class ExplainedSize(TypedDict):
    """What the bounds come to for an expected value of some size."""

    #: Zero, or the golden's median or largest.
    at: Literal["zero", "median", "largest"]
    size: float
    #: The largest absolute error that is right there.
    bound: float
    #: That in units of the last place of such a value; null near zero, where these say nothing.
    ulp: float | None


class ExplainedVerdict(TypedDict):
    """What became of the output in the last run."""

    outcome: Literal["pass", "mismatch"]
    reason: str
    error_used: Number | None
    max_abs: Number | None


class ExplainedOutput(TypedDict):
    """Where the bounds of one output come from."""

    name: str
    dtype: str
    shape: list[int]
    compare: Literal["numeric", "exact", "order-free"]
    #: From general to specific: the last that applies wins.
    layers: list[ExplainedLayer]
    #: The one that wins.
    layer: str
    rationale: str
    #: By key of the layer: ``atol``, ``rtol``, ``max_ulp``.
    bounds: dict[str, ExplainedBound]
    meaning: list[ExplainedSize]
    #: Null where nothing is known of a run.
    last: ExplainedVerdict | None


class GoldenExplanation(TypedDict):
    """Why the bounds of a test are what they are (`matrix golden explain --format json`)."""

    schema: Literal["mlir-matrix/golden-explanation/v1"]
    id: str
    facts: list[ExplainedFact]
    outputs: list[ExplainedOutput]


class GoldenDifference(TypedDict, total=False):
    """How a golden stands to the one that is there, in numbers. What cannot be compared has ``changed`` alone, a sentence."""

    changed: str | None
    elements: int | None
    #: How many elements differ.
    differ: int | None
    #: Where they differ most: by how much, that relative to the old one, where, and the two.
    abs: Number | None
    rel: Number | None
    index: list[int] | None
    old: Number | bool | None
    new: Number | bool | None
    #: Of sketches, whose ``elements`` are those that are kept.
    blocks: int | None
    differing_blocks: int | None
    #: Euclidean norm of all differences, by the projections.
    norm: Number | None
    #: The largest difference as a share of what rounding in double explains; null where no bound is known.
    rounding: Number | None


class GoldenWeak(TypedDict):
    """Trivial outputs, which no program is needed for, that pass under some bounds."""

    passes: list[str]
    #: File, line and column of the tolerance layer.
    layer: str
    #: By key of the layer, as it is written: ``atol``, ``rtol``, ``max_ulp``; empty where all must be equal.
    bounds: dict[str, str]


class GoldenOutput(TypedDict):
    """One output of a workload."""

    workload: str
    output: str
    #: ``rounding``: it differs by no more than rounding in double explains.
    state: Literal["same", "rounding", "new", "different"]
    file: str
    sketch: bool
    bytes: int
    written: bool
    #: Null where the state is not ``different``.
    difference: GoldenDifference | None
    #: An entry for each set of bounds, over all cells, that lets anything trivial pass.
    weak: list[GoldenWeak]
    #: Why that is right, as the workload states; null where it does not.
    weak_reason: str | None


class GoldenFailure(TypedDict):
    """A workload whose reference gives nothing."""

    workload: str
    reason: str


class GoldenUpdate(TypedDict):
    """How goldens stand to what references give now (`matrix golden update --format json`)."""

    schema: Literal["mlir-matrix/golden-update/v1"]
    outputs: list[GoldenOutput]
    failures: list[GoldenFailure]


class CalibratedFit(TypedDict):
    """The Gumbel distribution of the largest errors of the worst test, as shares of the bound."""

    location: float
    scale: float
    #: How many numbers it is fitted to.
    size: int
    #: The largest distance of its distribution function from theirs, and what 99 of 100 samples that follow one stay below.
    gap: float
    usual_gap: float


class CalibratedLayer(TypedDict):
    """What runs used of a layer's bounds; errors are shares of today's."""

    #: File, line and column.
    layer: str
    tests: int
    runs: int
    #: Runs of which each gave another number.
    distinct_runs: int
    largest: float
    p50: float
    p99: float
    worst_test: str
    #: Null where there are too few numbers, or all are alike.
    fit: CalibratedFit | None
    #: False alarms per run of the worst test, with the bounds as they are.
    rate_now: float
    #: What the runs prove without any distribution.
    rate_at_most: float
    bounds: dict[str, str]
    #: Null where nothing is proposed: see ``why_not``.
    proposed: dict[str, str] | None
    #: So many times as wide the proposed bounds are.
    factor: float | None
    rate_proposed: float | None
    why_not: str | None


class CalibratedFailure(TypedDict):
    """A test that gave no usable number in some draws."""

    test: str
    draws: list[int]
    outcome: str
    reason: str


class NotCalibrated(TypedDict):
    """A test that was not run, and why."""

    test: str
    reason: str


class Calibration(TypedDict):
    """Errors over many draws, and the bounds that follow (`matrix golden calibrate --format json`)."""

    schema: Literal["mlir-matrix/calibration/v1"]
    draws: int
    #: False alarms per run that are asked for.
    false_alarm: float
    #: With which confidence, as a share of 1.
    confidence: float
    targets: list[str]
    #: Releases asked for by component; empty: the known-good ones.
    pins: dict[str, str]
    tests: int
    #: Actions that were executed; the others were known.
    executed: int
    layers: list[CalibratedLayer]
    failed: list[CalibratedFailure]
    #: Layers of which every bound is 0.
    exact: list[str]
    #: Tests that are not run because the suite expects them to fail.
    expected_to_fail: list[str]
    not_run: list[NotCalibrated]
    #: The proposals, for ``git apply``; empty: there are none.
    patch: str
