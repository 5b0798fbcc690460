"""What the JSON documents of ``matrix plan`` and ``matrix run`` hold; their JSON Schemas are made from this.

The documents are written by ``execute/plan_document.py`` and ``judge/results.py``, which return these types. Within a
version keys may join, and none leaves or changes its meaning.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from mlir_matrix.actions.runtime.outcomes import Outcome, Stage
from mlir_matrix.report.schemas.verdict import Number, Verdict

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ExpectedOutcome(TypedDict):
    """What the suite expects instead of a pass."""

    outcome: Outcome
    reason: str
    #: File, line and column of the rule.
    position: str
    link: NotRequired[str]


class NamedTest(TypedDict):
    """The name of a test, and its parts."""

    #: framework/pipeline/target/workload, ~property, @pins
    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    #: What stands after the `~` of the id where the test is of a property; absent where it is of none.
    property: NotRequired[str]


class TestEntry(NamedTest):
    """The outcome of one test."""

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
    expectation: NotRequired[ExpectedOutcome]
    #: Absent for a pass, and where nothing was compared.
    verdict: NotRequired[Verdict]
    #: Of a pass: by output, the trivial outputs that would pass, too, but for those of which the workload says why that is right.
    weak: NotRequired[dict[str, list[str]]]
    #: The full text of what failed.
    diagnostics: NotRequired[str]


class Summary(TypedDict):
    """Totals."""

    total: int
    as_expected: int
    by_outcome: dict[Outcome, int]
    cached: int
    #: SHA-256 over identifiers and outcomes, as `toolchains/known-good.yaml` records it.
    outcomes: Digest


class Results(TypedDict):
    """The results of a run (`matrix run --format json`)."""

    schema: Literal["mlir-matrix/results/v1"]
    tests: list[TestEntry]
    summary: Summary
    #: True where somebody ended the run; tests that it had not come to are then `skipped`.
    interrupted: bool
    #: How many actions were executed rather than found in the cache.
    executed: int
    #: Their identifiers, as in the plan.
    executed_actions: list[str]


class PlannedTest(NamedTest):
    """A test of the plan, or one that is left out, with the reason."""

    #: True for what runs: neither unsupported nor left out.
    selected: bool
    reason: str
    #: Absent where running decides it.
    outcome: NotRequired[Literal["unsupported", "skipped"]]
    #: Absent where a pass is expected.
    expectation: NotRequired[ExpectedOutcome]
    #: The action that gives its verdict.
    verdict: NotRequired[str]


class FromAction(TypedDict):
    """An input that another action makes."""

    action: str
    output: str
    #: Where the action finds it, from its folder.
    path: str


class FromFile(TypedDict):
    """An input that is a file of a catalog."""

    #: 0 is the repository, 1 the first `--catalog`, and so on.
    catalog: int
    file: str
    #: Where the action finds it, from its folder.
    path: str
    #: Present and true where the file may be absent; the action is then run without it.
    optional: NotRequired[bool]


class HermeticCommand(TypedDict):
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


class PlannedAction(HermeticCommand):
    """An action, and who needs it."""

    #: The tests that need it.
    tests: list[str]


class Bytes(TypedDict):
    """What an environment costs, in bytes."""

    #: Of all its artifacts, and of those that are still to be fetched.
    fetch: int
    to_fetch: int
    #: On disk, and what of that is not there yet.
    disk: int
    to_install: int
    #: False where a lock does not say what a package takes, which then counts as nothing.
    exact: bool


class PlannedUnit(TypedDict):
    """Something that an environment is made of."""

    label: str
    #: The name of its folder among the packages.
    folder: str
    #: The interpreter itself; what goes on its path; programs with all that they need.
    part: Literal["interpreter", "site", "prefix"]
    #: Of programs: their release.
    release: NotRequired[str]
    #: The component that it is a release of; absent for what is only needed by one.
    component: NotRequired[str]
    #: By kind of action, the files of it that such actions read; absent where that is all.
    reads: NotRequired[dict[str, tuple[str, ...]]]


class PlannedEnvironment(TypedDict):
    """What actions run in."""

    name: str
    #: Releases of its components.
    pins: dict[str, str]
    digest: NotRequired[Digest]
    interpreter: NotRequired[str]
    units: NotRequired[list[PlannedUnit]]
    packages: NotRequired[list[str]]
    #: Packages that are still to be fetched.
    missing: NotRequired[list[str]]
    bytes: NotRequired[Bytes]
    #: Why this machine cannot have it.
    unavailable: NotRequired[str]


class PlannedTarget(TypedDict):
    """What tests run on."""

    name: str
    #: As Zig and LLVM have it: machine, system, C library.
    triple: str


class Plan(TypedDict):
    """Tests, actions and environments (`matrix plan --format json`)."""

    schema: Literal["mlir-matrix/plan/v1"]
    tests: list[PlannedTest]
    #: In an order in which each comes after what it reads.
    actions: list[PlannedAction]
    environments: list[PlannedEnvironment]
    #: The modules of `mlir_matrix.actions` that each kind of action runs.
    tools: dict[str, list[str]]
    targets: list[PlannedTarget]
    #: All environment variables that an action sees.
    variables: dict[str, str]
