"""Types of the documents of ``matrix plan``. Within a version, keys may be added; none is removed or changes its meaning."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import NotRun, Outcome, Stage
from mlir_matrix.base.documents import document

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


#: UTC, as in RFC 3339.
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]


class ExpectedOutcome(TypedDict):
    """The outcome that the suite expects instead of a pass."""

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
    """The tested property, after the `~` of the id; absent for other tests."""


class Shard(TypedDict):
    """A part of the tests of a plan; `matrix merge` joins the results of all parts."""

    index: int
    """From 1."""
    count: int
    durations: Digest | None
    """The records by which the parts are balanced (`--durations`); null if they go by hash."""
    tests: Digest
    """SHA-256 of the sorted identifiers of the tests of all parts."""


class UsedHistory(TypedDict):
    """The records of tests that were used to select them."""

    digest: Digest
    taken: str
    """When it was exported; empty if it never was."""


class Change(TypedDict):
    """A change that can affect the selected tests."""

    tests: int
    """Number of tests before the selection."""
    since: NotRequired[str]
    """The commit (`--changed-since`)."""
    files: NotRequired[list[str]]
    """The changed files (`--changed`)."""


class Selection(TypedDict):
    """What selected the tests, in addition to suites and globs."""

    pins: dict[str, str]
    """Releases that the command line or the machine sets."""
    environments: NotRequired[dict[str, str]]
    """Environments used instead of others (`--environment`), by the names of these."""
    change: NotRequired[Change]
    machine: NotRequired[str]
    """The name of the machine (`--machine`)."""
    minutes: NotRequired[float]
    """Estimated minutes of the machine."""
    history: NotRequired[UsedHistory]
    """With a machine: what its order and its budget follow."""
    date: NotRequired[Time]
    """With a machine: the time that its order refers to."""
    over_budget: NotRequired[list[str]]
    """With a machine: the tests that would run if its budget were larger. They have no result."""
    shard: NotRequired[Shard]


class PlannedTest(NamedTest):
    """A test of the plan, or one that is left out, with the reason."""

    selected: bool
    """True for a test that runs: neither unsupported nor left out."""
    reason: str
    outcome: NotRequired[NotRun]
    """Absent for a test that runs."""
    expectation: NotRequired[ExpectedOutcome]
    """Absent if a pass is expected."""
    verdict: NotRequired[str]
    """The action that writes its verdict."""


class FromAction(TypedDict):
    """An input that another action writes."""

    action: str
    output: str
    path: str
    """The path below the folder of the action."""


class FromFile(TypedDict):
    """An input that is a file of a catalog."""

    catalog: int
    """0 is the repository, 1 the first `--catalog`, and so on."""
    file: str
    path: str
    """The path below the folder of the action."""
    optional: NotRequired[bool]
    """Present and true if the file may be absent; the action then runs without it."""


class HermeticCommand(TypedDict):
    """One hermetic command. It holds no absolute path."""

    id: str
    kind: str
    """The tool: a module of `mlir_matrix.actions.tools`."""
    stage: Stage
    environment: str
    params: dict[str, object]
    inputs: dict[str, FromAction | FromFile]
    outputs: dict[str, str]
    """Output names and their files."""
    native: bool
    """True if the output depends on the CPU of the machine."""
    building: bool
    """True if it builds a part of matrix: limits of tests do not apply, and its failure is an infrastructure error."""


class ActionWithTests(HermeticCommand):
    """An action, and the tests that need it."""

    tests: list[str]
    """The tests that need it."""


class Bytes(TypedDict):
    """Sizes of an environment, in bytes."""

    fetch: int
    """All artifacts; ``to_fetch``: those that are missing."""
    to_fetch: int
    disk: int
    """Installed packages; ``to_install``: those that are missing."""
    to_install: int
    exact: bool
    """False if a lock file lacks the size of a package, which then counts as 0."""


UnitPart = Literal["interpreter", "site", "prefix"]


class PlannedUnit(TypedDict):
    """A package of an environment."""

    label: str
    folder: str
    """The name of its folder in the folder of packages."""
    part: UnitPart
    """The interpreter, a package on its path, or a prefix with programs."""
    release: NotRequired[str]
    """The release of a prefix."""
    component: NotRequired[str]
    """Its component; absent for a dependency."""
    reads: NotRequired[dict[str, tuple[str, ...]]]
    """The files that actions read, by kind of action; absent if they read all."""


class PlannedEnvironment(TypedDict):
    """An environment of actions."""

    name: str
    pins: dict[str, str]
    """Releases of its components."""
    digest: NotRequired[Digest]
    interpreter: NotRequired[str]
    foreign: NotRequired[bool]
    """Whether another catalog than the first chose a package: workers then import none of them."""
    units: NotRequired[list[PlannedUnit]]
    packages: NotRequired[list[str]]
    missing: NotRequired[list[str]]
    """Packages that are not installed."""
    bytes: NotRequired[Bytes]
    unavailable: NotRequired[str]
    """Why it is unavailable on this machine."""


class PlannedTarget(TypedDict):
    """A target of tests."""

    name: str
    triple: str
    """Machine, system and C library, as in Zig and LLVM; of the machine itself where a target links no kernels."""


class PlanSummary(TypedDict):
    """Numbers of entries."""

    to_run: int
    """Tests that run."""
    unsupported: int
    left_out: int
    actions: int
    environments: int


@document
class Plan(TypedDict):
    """Tests, actions and environments (`matrix plan --format json`)."""

    schema: Literal["mlir-matrix/plan/v1"]
    summary: PlanSummary
    tests: list[PlannedTest]
    actions: list[ActionWithTests]
    """Each action after those whose outputs it reads."""
    environments: list[PlannedEnvironment]
    tools: dict[str, list[str]]
    """The modules of `mlir_matrix.actions` that each kind of action runs."""
    targets: list[PlannedTarget]
    machine: str
    """The architecture that the environments are for, as `uname -m` prints it."""
    variables: dict[str, str]
    """All environment variables that an action sees."""
    selection: NotRequired[Selection]
    """Present if a machine or a shard selects the tests."""
