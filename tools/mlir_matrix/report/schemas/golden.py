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
    by: str
    """Who states it, and where."""
    position: str
    counts: bool
    """False where a more specific word says otherwise."""


class ExplainedLayer(TypedDict):
    """A tolerance layer, and why it applies or does not."""

    layer: str
    """File, line and column."""
    applies: bool
    why: str


class ExplainedBound(TypedDict):
    """A bound as it is written, with numbers in it, and its value."""

    text: str
    substituted: str
    value: float


class ExplainedSize(TypedDict):
    """What the bounds come to for an expected value of some size."""

    at: Literal["zero", "median", "largest"]
    """Zero, or the golden's median or largest."""
    size: float
    bound: float
    """The largest absolute error that is right there."""
    ulp: float | None
    """That in units of the last place of such a value; null near zero, where these say nothing."""


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
    layers: list[ExplainedLayer]
    """From general to specific: the last that applies wins."""
    layer: str
    """The one that wins."""
    rationale: str
    bounds: dict[str, ExplainedBound]
    """By key of the layer: ``atol``, ``rtol``, ``max_ulp``."""
    meaning: list[ExplainedSize]
    last: ExplainedVerdict | None
    """Null where nothing is known of a run."""


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
    differ: int | None
    """How many elements differ."""
    abs: Number | None
    """Where they differ most: by how much, that relative to the old one, where, and the two."""
    rel: Number | None
    index: list[int] | None
    old: Number | bool | None
    new: Number | bool | None
    blocks: int | None
    """Of sketches, whose ``elements`` are those that are kept."""
    differing_blocks: int | None
    norm: Number | None
    """Euclidean norm of all differences, by the projections."""
    rounding: Number | None
    """The largest difference as a share of what rounding in double explains; null where no bound is known."""


class GoldenWeak(TypedDict):
    """Trivial outputs, which no program is needed for, that pass under some bounds."""

    passes: list[str]
    layer: str
    """File, line and column of the tolerance layer."""
    bounds: dict[str, str]
    """By key of the layer, as it is written: ``atol``, ``rtol``, ``max_ulp``; empty where all must be equal."""


class GoldenOutput(TypedDict):
    """One output of a workload."""

    workload: str
    output: str
    state: Literal["same", "rounding", "new", "different"]
    """``rounding``: it differs by no more than rounding in double explains."""
    file: str
    sketch: bool
    bytes: int
    written: bool
    difference: GoldenDifference | None
    """Null where the state is not ``different``."""
    weak: list[GoldenWeak]
    """An entry for each set of bounds, over all cells, that lets anything trivial pass."""
    weak_reason: str | None
    """Why that is right, as the workload states; null where it does not."""


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
    size: int
    """How many numbers it is fitted to."""
    gap: float
    """The largest distance of its distribution function from theirs, and what 99 of 100 samples that follow one stay below."""
    usual_gap: float


class CalibratedLayer(TypedDict):
    """What runs used of a layer's bounds; errors are shares of today's."""

    layer: str
    """File, line and column."""
    tests: int
    runs: int
    distinct_runs: int
    """Runs of which each gave another number."""
    largest: float
    p50: float
    p99: float
    worst_test: str
    fit: CalibratedFit | None
    """Null where there are too few numbers, or all are alike."""
    rate_now: float
    """False alarms per run of the worst test, with the bounds as they are."""
    rate_at_most: float
    """What the runs prove without any distribution."""
    bounds: dict[str, str]
    proposed: dict[str, str] | None
    """Null where nothing is proposed: see ``why_not``."""
    factor: float | None
    """So many times as wide the proposed bounds are."""
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
    false_alarm: float
    """False alarms per run that are asked for."""
    confidence: float
    """With which confidence, as a share of 1."""
    targets: list[str]
    pins: dict[str, str]
    """Releases asked for by component; empty: the known-good ones."""
    tests: int
    executed: int
    """Actions that were executed; the others were known."""
    layers: list[CalibratedLayer]
    failed: list[CalibratedFailure]
    exact: list[str]
    """Layers of which every bound is 0."""
    expected_to_fail: list[str]
    """Tests that are not run because the suite expects them to fail."""
    not_run: list[NotCalibrated]
    patch: str
    """The proposals, for ``git apply``; empty: there are none."""
