"""What the JSON documents of ``matrix plan`` and ``matrix run`` hold; their JSON Schemas are made from this.

The documents are written by ``plan/serialize.py`` and ``results.py`` without these models, which only describe them. Within a
version keys may join, and none leaves or changes its meaning.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mlir_matrix.catalog.models import Dtype, Outcome, Stage

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
#: A number, or what JSON has no number for.
Number = float | Literal["nan", "inf", "-inf"]


class Part(BaseModel):
    """Base of everything in a document."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class ExpectedOutcome(Part):
    """What the suite expects instead of a pass."""

    outcome: Outcome
    reason: str
    #: File, line and column of the rule.
    position: str
    link: str | None = None


class Element(Part):
    """One element of an output, compared."""

    index: list[int]
    expected: Number | bool
    actual: Number | bool
    #: Absolute error.
    abs: Number
    #: Relative error.
    rel: Number
    #: How many numbers of the dtype lie between the two, one of them included.
    ulp: Number
    #: The largest absolute error that is right.
    bound: Number
    #: The share of the bound that the error takes.
    used: Number
    wrong: bool


class Sketched(Part):
    """What an output was compared with that is kept as a sketch, and what that tells."""

    #: Of 4096 elements each, the last of what is left.
    blocks: int
    wrong_blocks: int
    #: Elements that are kept, and were compared one by one.
    samples: int
    #: One wrong element among right ones is seen in any block where it is off by more than this.
    seen_alone: Number
    #: The most likely that such a one is not.
    missed_alone: float
    #: The same for errors all over a block whose norm is 16 times that of their bounds.
    missed_twice_that: float
    #: The most likely that an output is refused that is right.
    false_alarm: float


class Census(Part):
    """One output, compared with its golden. What could not be compared has a reason and no numbers."""

    name: str
    dtype: Dtype | None = None
    shape: list[int] | None = None
    compare: Literal["numeric", "exact", "order-free"] | None = None
    outcome: Literal["pass", "mismatch"]
    reason: str
    atol: Number | None = None
    rtol: Number | None = None
    #: False where its golden or its bounds are wrong, so that nothing could be compared.
    measurable: bool | None = None
    #: The bounds as they are written in the layer.
    atol_text: str | None = None
    rtol_text: str | None = None
    #: How many numbers of the dtype may lie between instead, where that is a criterion.
    ulp_bound: Number | None = None
    ulp_bound_text: str | None = None
    #: File, line and column of the tolerance layer that gives the bounds.
    layer: str | None = None
    rationale: str | None = None
    elements: int | None = None
    wrong: int | None = None
    wrong_percent: float | None = None
    over_bound: int | None = None
    nan_mismatches: int | None = None
    inf_mismatches: int | None = None
    max_abs: Number | None = None
    max_rel: Number | None = None
    max_ulp: Number | None = None
    #: The largest share of its bound that an error takes.
    error_used: Number | None = None
    #: The least atol that would do, with the rtol as it is.
    atol_needed: Number | None = None
    #: The least rtol that would do, with the atol as it is.
    rtol_needed: Number | None = None
    #: The least number of last places that would do.
    ulp_needed: Number | None = None
    #: How many are over each bound alone; an element is wrong where it is over all that count.
    over_atol: int | None = None
    over_rtol: int | None = None
    over_ulp: int | None = None
    #: Elements where NaN is expected.
    nan_expected: int | None = None
    #: L1, L2 and largest of the error, absolute and by that of what is expected.
    norms: dict[str, dict[str, Number]] | None = None
    cosine: Number | None = None
    #: Elements by the decade of their absolute error.
    abs_decades: list[tuple[Number, int]] | None = None
    #: Elements over atol by the decade of their relative error, and those over rtol by that of their absolute error.
    rel_decades_over_atol: list[tuple[Number, int]] | None = None
    abs_decades_over_rtol: list[tuple[Number, int]] | None = None
    #: The worst elements, the worst of all first.
    worst: list[Element] | None = None
    #: Few wrong elements, or a drift of all, in words; what the output looks like, where it looks like something.
    character: str | None = None
    looks: str | None = None
    #: Where the wrong ones are, in words.
    where: str | None = None
    #: Where the golden is a sketch. ``wrong`` is then the number of blocks that are not like it.
    sketch: Sketched | None = None


class Verdict(Part):
    """What the judge found, output by output; of a property, what runs or IR gave against others."""

    outcome: Literal["pass", "mismatch"]
    reason: str
    outputs: list[Census]
    metrics: dict[str, Number]
    #: How IR differs that should be the same.
    diagnostics: str | None = None


class TestEntry(Part):
    """The outcome of one test."""

    #: framework/pipeline/target/workload, ~property, @pins
    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    #: What stands after the `~` of the id where the test is of a property; absent where it is of none.
    property: str | None = None
    outcome: Outcome
    #: The stage that decided it; empty where nothing ran.
    stage: Stage | Literal[""]
    #: True where the outcome is the one that the suite expects.
    expected: bool
    reason: str
    #: Seconds of its actions, those that other tests share and those from the cache too.
    duration_s: float
    #: True where all of its actions came from the cache.
    cached: bool
    #: Releases of the components that it met; of several in its environments all, with commas between them.
    pins: dict[str, str]
    #: Digests of the environments in which its actions ran.
    environments: dict[str, Digest]
    metrics: dict[str, Number]
    #: Absent where a pass is expected.
    expectation: ExpectedOutcome | None = None
    #: Absent for a pass, and where nothing was compared.
    verdict: Verdict | None = None
    #: The full text of what failed.
    diagnostics: str | None = None


class Summary(Part):
    """Totals."""

    total: int
    as_expected: int
    by_outcome: dict[Outcome, int]
    cached: int
    #: SHA-256 over identifiers and outcomes, as `toolchains/known-good.yaml` records it.
    outcomes: Digest


class Results(Part):
    """The results of a run (`matrix run --format json`)."""

    version: Annotated[Literal["mlir-matrix/results/v1"], Field(alias="schema")]
    tests: list[TestEntry]
    summary: Summary
    #: True where somebody ended the run; tests that it had not come to are then `skipped`.
    interrupted: bool
    #: How many actions were executed rather than found in the cache.
    executed: int
    #: Their identifiers, as in the plan.
    executed_actions: list[str]


class PlannedTest(Part):
    """A test of the plan, or one that is left out, with the reason."""

    #: framework/pipeline/target/workload, ~property, @pins
    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    #: What stands after the `~` of the id where the test is of a property; absent where it is of none.
    property: str | None = None
    #: True for what runs: neither unsupported nor left out.
    selected: bool
    reason: str
    #: Absent where running decides it.
    outcome: Literal["unsupported"] | None = None
    #: Absent where a pass is expected.
    expectation: ExpectedOutcome | None = None
    #: The action that gives its verdict.
    verdict: str | None = None


class FromAction(Part):
    """An input that another action makes."""

    action: str
    output: str
    #: Where the action finds it, from its folder.
    path: str


class FromFile(Part):
    """An input that is a file of a catalog."""

    #: 0 is the repository, 1 the first `--catalog`, and so on.
    catalog: int
    file: str
    #: Where the action finds it, from its folder.
    path: str
    #: Present and true where the file may be absent; the action is then run without it.
    optional: bool | None = None


class PlannedAction(Part):
    """One hermetic command. It holds no absolute path."""

    id: str
    #: The module of `mlir_matrix.actions` that does it.
    kind: str
    stage: Stage
    environment: str
    params: dict[str, Any]
    inputs: dict[str, FromAction | FromFile]
    #: Output names and their files.
    outputs: dict[str, str]
    #: True where the output depends on the CPU of the machine.
    native: bool
    #: True where it builds what is ours: no limit on tests applies to it, and no test is to blame where it fails.
    building: bool
    #: The tests that need it.
    tests: list[str]


class Bytes(Part):
    """What an environment costs, in bytes."""

    #: Of all its artifacts, and of those that are still to be fetched.
    fetch: int
    to_fetch: int
    #: On disk, and what of that is not there yet.
    disk: int
    to_install: int
    #: False where a lock does not say what a package takes, which then counts as nothing.
    exact: bool


class PlannedUnit(Part):
    """Something that an environment is made of."""

    label: str
    #: The name of its folder among the packages.
    folder: str
    #: The interpreter itself; what goes on its path; programs with all that they need.
    part: Literal["interpreter", "site", "prefix"]
    #: Of programs: their release.
    release: str | None = None
    #: The component that it is a release of; absent for what is only needed by one.
    component: str | None = None
    #: By kind of action, the files of it that such actions read; absent where that is all.
    reads: dict[str, tuple[str, ...]] | None = None


class PlannedEnvironment(Part):
    """What actions run in."""

    name: str
    #: Releases of its components.
    pins: dict[str, str]
    digest: Digest | None = None
    interpreter: str | None = None
    units: list[PlannedUnit] | None = None
    packages: list[str] | None = None
    #: Packages that are still to be fetched.
    missing: list[str] | None = None
    bytes: Bytes | None = None
    #: Why this machine cannot have it.
    unavailable: str | None = None


class PlannedTarget(Part):
    """What tests run on."""

    name: str
    #: As Zig and LLVM have it: machine, system, C library.
    triple: str


class Plan(Part):
    """Tests, actions and environments (`matrix plan --format json`)."""

    version: Annotated[Literal["mlir-matrix/plan/v1"], Field(alias="schema")]
    tests: list[PlannedTest]
    #: In an order in which each comes after what it reads.
    actions: list[PlannedAction]
    environments: list[PlannedEnvironment]
    #: The modules of `mlir_matrix.actions` that each kind of action runs.
    tools: dict[str, list[str]]
    targets: list[PlannedTarget]
    #: All environment variables that an action sees.
    variables: dict[str, str]
