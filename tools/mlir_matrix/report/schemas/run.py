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
    position: str
    """File, line and column of the rule."""
    link: NotRequired[str]


class NamedTest(TypedDict):
    """The name of a test, and its parts."""

    id: str
    """framework/pipeline/target/workload, ~property, @pins"""
    framework: str
    pipeline: str
    target: str
    workload: str
    property: NotRequired[str]
    """What stands after the `~` of the id where the test is of a property; absent where it is of none."""


class TestEntry(NamedTest):
    """The outcome of one test."""

    outcome: Outcome
    stage: Stage | Literal[""]
    """The stage that decided it; empty where nothing ran."""
    expected: bool
    """True where the outcome is the one that the suite expects."""
    reason: str
    duration_s: float
    """Seconds of its actions, those that other tests share and those from the cache too."""
    cached: bool
    """True where all of its actions came from the cache."""
    pins: dict[str, str]
    """Releases of the components that it met; of several in its environments all, with commas between them."""
    environments: dict[str, Digest]
    """Digests of the environments in which its actions ran."""
    metrics: dict[str, Number]
    expectation: NotRequired[ExpectedOutcome]
    """Absent where a pass is expected."""
    verdict: NotRequired[Verdict]
    """Absent for a pass, and where nothing was compared."""
    weak: NotRequired[dict[str, list[str]]]
    """By output of a pass: the trivial outputs that would also pass, unless the workload states a reason."""
    diagnostics: NotRequired[str]
    """The full text of what failed."""


class Summary(TypedDict):
    """Totals."""

    total: int
    as_expected: int
    by_outcome: dict[Outcome, int]
    cached: int
    outcomes: Digest
    """SHA-256 over identifiers and outcomes, as `toolchains/known-good.yaml` records it."""


class Results(TypedDict):
    """The results of a run (`matrix run --format json`)."""

    schema: Literal["mlir-matrix/results/v1"]
    tests: list[TestEntry]
    summary: Summary
    interrupted: bool
    """True where somebody ended the run; tests that it had not come to are then `skipped`."""
    executed: int
    """How many actions were executed rather than found in the cache."""
    executed_actions: list[str]
    """Their identifiers, as in the plan."""


class PlannedTest(NamedTest):
    """A test of the plan, or one that is left out, with the reason."""

    selected: bool
    """True for what runs: neither unsupported nor left out."""
    reason: str
    outcome: NotRequired[Literal["unsupported", "skipped"]]
    """Absent where running decides it."""
    expectation: NotRequired[ExpectedOutcome]
    """Absent where a pass is expected."""
    verdict: NotRequired[str]
    """The action that gives its verdict."""


class FromAction(TypedDict):
    """An input that another action makes."""

    action: str
    output: str
    path: str
    """Where the action finds it, from its folder."""


class FromFile(TypedDict):
    """An input that is a file of a catalog."""

    catalog: int
    """0 is the repository, 1 the first `--catalog`, and so on."""
    file: str
    path: str
    """Where the action finds it, from its folder."""
    optional: NotRequired[bool]
    """Present and true where the file may be absent; the action is then run without it."""


class HermeticCommand(TypedDict):
    """One hermetic command. It holds no absolute path."""

    id: str
    kind: str
    """The module of `mlir_matrix.actions` that does it."""
    stage: Stage
    environment: str
    params: dict[str, Any]
    inputs: dict[str, FromAction | FromFile]
    outputs: dict[str, str]
    """Output names and their files."""
    native: bool
    """True where the output depends on the CPU of the machine."""
    building: bool
    """True where it builds what is ours: no limit on tests applies to it, and no test is to blame where it fails."""


class PlannedAction(HermeticCommand):
    """An action, and who needs it."""

    tests: list[str]
    """The tests that need it."""


class Bytes(TypedDict):
    """What an environment costs, in bytes."""

    fetch: int
    """Of all its artifacts, and of those that are still to be fetched."""
    to_fetch: int
    disk: int
    """On disk, and what of that is not there yet."""
    to_install: int
    exact: bool
    """False where a lock does not say what a package takes, which then counts as nothing."""


class PlannedUnit(TypedDict):
    """Something that an environment is made of."""

    label: str
    folder: str
    """The name of its folder among the packages."""
    part: Literal["interpreter", "site", "prefix"]
    """The interpreter itself; what goes on its path; programs with all that they need."""
    release: NotRequired[str]
    """Of programs: their release."""
    component: NotRequired[str]
    """The component that it is a release of; absent for what is only needed by one."""
    reads: NotRequired[dict[str, tuple[str, ...]]]
    """By kind of action, the files of it that such actions read; absent where that is all."""


class PlannedEnvironment(TypedDict):
    """What actions run in."""

    name: str
    pins: dict[str, str]
    """Releases of its components."""
    digest: NotRequired[Digest]
    interpreter: NotRequired[str]
    units: NotRequired[list[PlannedUnit]]
    packages: NotRequired[list[str]]
    missing: NotRequired[list[str]]
    """Packages that are still to be fetched."""
    bytes: NotRequired[Bytes]
    unavailable: NotRequired[str]
    """Why this machine cannot have it."""


class PlannedTarget(TypedDict):
    """What tests run on."""

    name: str
    triple: str
    """As Zig and LLVM have it: machine, system, C library."""


class Plan(TypedDict):
    """Tests, actions and environments (`matrix plan --format json`)."""

    schema: Literal["mlir-matrix/plan/v1"]
    tests: list[PlannedTest]
    actions: list[PlannedAction]
    """In an order in which each comes after what it reads."""
    environments: list[PlannedEnvironment]
    tools: dict[str, list[str]]
    """The modules of `mlir_matrix.actions` that each kind of action runs."""
    targets: list[PlannedTarget]
    variables: dict[str, str]
    """All environment variables that an action sees."""
