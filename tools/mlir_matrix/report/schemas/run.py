"""Types of the documents of ``matrix plan`` and ``matrix run``.

They are written by ``execute/plan_document.py`` and ``judge/results.py``. Within a version, keys may be added; none is removed or
changes its meaning.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from mlir_matrix.actions.runtime.outcomes import Outcome, Stage
from mlir_matrix.report.schemas.verdict import Number, Verdict

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


class InQuarantine(TypedDict):
    """The quarantine of a flaky test: its unexpected outcome does not fail the run."""

    owner: str
    """The person who finds the cause."""
    until: str
    """The last day, in UTC."""
    reason: str
    position: str
    """File, line and column of the entry."""
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


class DecidingStep(TypedDict):
    """The action that decided the outcome of a test: the first one that failed, else the one with the verdict."""

    name: str
    """The step, or the tool and the workload."""
    action: str
    """Its identifier, as in the plan."""


class TestEntry(NamedTest):
    """The outcome of one test."""

    outcome: Outcome
    stage: Stage | Literal[""]
    """The stage that decided it; empty if nothing ran."""
    expected: bool
    """True if the suite expects the outcome."""
    reason: str
    duration_s: float
    """Seconds of all its actions, including shared and cached ones."""
    cached: bool
    """True if all of its actions were cached."""
    pins: dict[str, str]
    """Releases of the components in its environments; several releases of one are separated by commas."""
    environments: dict[str, Digest]
    """Digests of the environments in which its actions ran."""
    metrics: dict[str, Number]
    expectation: NotRequired[ExpectedOutcome]
    """Absent if a pass is expected."""
    quarantine: NotRequired[InQuarantine]
    """Present if the outcome is unexpected, and the test in quarantine."""
    repeats: NotRequired[dict[Outcome, int]]
    """With `--repeat`: how often each outcome was seen; the entry is that of the first unexpected one."""
    unstable: NotRequired[list[str]]
    """With `--repeat`: steps that gave different bytes for equal inputs; absent if there is none."""
    verdict: NotRequired[Verdict]
    """Absent for a pass, and if nothing was compared."""
    weak: NotRequired[dict[str, list[str]]]
    """By output of a pass: the trivial outputs that would also pass, unless the workload states a reason."""
    compile_only: NotRequired[bool]
    """Present, and true, if the target runs nothing: a pass states that the artifact was compiled and checked."""
    diagnostics: NotRequired[str]
    """The full text of the error."""
    step: NotRequired[DecidingStep]
    """Absent for a pass, and if nothing ran."""
    scaled: NotRequired[str]
    """Of a program that was too large for a test: which of its numbers were made smaller, `seq_len from 4096 to 128`."""
    signal: NotRequired[str]
    """Of a crash: the name of the signal, such as `SIGSEGV`."""
    frame: NotRequired[str]
    """The innermost frame of a stack in the diagnostics, without signal handlers: `mlir::foo(int)`, or `f (x.py:3)` of Python."""
    kept: NotRequired[str]
    """The folder with the files of an unexpected outcome, complete when the run has ended."""
    repeat: NotRequired[str]
    """The command that runs the test again; absent if it is unsupported."""


class Summary(TypedDict):
    """Totals."""

    total: int
    as_expected: int
    in_quarantine: int
    """Unexpected outcomes that do not fail the run."""
    by_outcome: dict[Outcome, int]
    cached: int
    outcomes: Digest
    """SHA-256 over identifiers and outcomes, as `toolchains/known-good.yaml` records it."""


class UsedCatalog(TypedDict):
    """A catalog, and the commit of its Git repository."""

    folder: str
    commit: NotRequired[str]
    """Absent if it is not in a Git repository."""
    dirty: NotRequired[bool]
    """True if the folder has changes or new files that are not committed."""


class StartedRun(TypedDict):
    """What runs, where, and since when."""

    version: str
    """The version of mlir-matrix."""
    command: str
    """The command line, quoted for a shell."""
    host: str
    catalogs: list[UsedCatalog]
    """The repository, then each `--catalog`."""
    started: Time


class FinishedRun(StartedRun):
    """What ran, where, and when."""

    ended: Time


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
    """What was recorded of the tests when they were selected."""

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
    """What selected the tests, after suites and globs."""

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


class Results(TypedDict):
    """The results of a run (`matrix run --format json`)."""

    schema: Literal["mlir-matrix/results/v1"]
    run: FinishedRun
    tests: list[TestEntry]
    summary: Summary
    interrupted: bool
    """True if the run was interrupted; the remaining tests are then `skipped`."""
    executed: int
    """Number of executed actions; the others were cached."""
    executed_actions: list[str]
    """Their identifiers, as in the plan."""
    selection: NotRequired[Selection]
    """Present if a machine or a shard selected the tests."""


class PlannedTest(NamedTest):
    """A test of the plan, or one that is left out, with the reason."""

    selected: bool
    """True for a test that runs: neither unsupported nor left out."""
    reason: str
    outcome: NotRequired[Literal["unsupported", "skipped"]]
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
    params: dict[str, Any]
    inputs: dict[str, FromAction | FromFile]
    outputs: dict[str, str]
    """Output names and their files."""
    native: bool
    """True if the output depends on the CPU of the machine."""
    building: bool
    """True if it builds a part of matrix: limits of tests do not apply, and its failure is an infrastructure error."""


class PlannedAction(HermeticCommand):
    """An action, and who needs it."""

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


class PlannedUnit(TypedDict):
    """A package of an environment."""

    label: str
    folder: str
    """The name of its folder in the folder of packages."""
    part: Literal["interpreter", "site", "prefix"]
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


class Plan(TypedDict):
    """Tests, actions and environments (`matrix plan --format json`)."""

    schema: Literal["mlir-matrix/plan/v1"]
    summary: PlanSummary
    tests: list[PlannedTest]
    actions: list[PlannedAction]
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
