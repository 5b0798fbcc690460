"""Types of the documents of ``matrix run``, the lines of ``--events``, and ``matrix cache gc``."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.documents import document
from mlir_matrix.compare.documents import Number, Verdict
from mlir_matrix.plan.documents import Digest, ExpectedOutcome, NamedTest, Selection, Time


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


class JudgedCost(TypedDict):
    """An exact cost of a test, and the golden that it is compared with."""

    cost: str
    value: float
    golden: float
    bound: float | str
    """How much it may be worse: a number, `1 %` of the golden, or the sum of both, `5 % + 100`."""
    position: str
    """File, line and column of the golden."""
    verdict: Literal["worse", "better", "equal"]
    """`equal`: within the bound."""


class DecidingStep(TypedDict):
    """The action that decided the outcome of a test: the first one that failed, else the one with the verdict."""

    name: str
    """The step, or the tool and the workload."""
    action: str
    """Its identifier, as in the plan."""


class StepCost(TypedDict):
    """What an action took that compiles a test's program."""

    action: str
    """The step, or the tool and the workload."""
    cpu_s: Annotated[float, Field(ge=0, le=1 << 62)]
    """Seconds of CPU time, of the program and the system."""
    peak_bytes: int
    """The most memory of its process, which other actions may have used before."""


#: Of costs and times in files that others wrote: neither NaN nor infinite.
_Amount = Annotated[float, Field(strict=True, ge=0, le=1 << 62)]
_Positive = Annotated[float, Field(strict=True, gt=0, le=1 << 62)]


class KernelTime(TypedDict):
    """How long a call of a test's kernel takes, warm, in one thread."""

    ns: _Positive
    """The median, in nanoseconds."""
    low: _Positive
    high: _Positive
    """Its 99 % interval."""
    samples: int


class Costs(TypedDict):
    """What a test costs (`--cost`, `matrix cost`)."""

    exact: dict[str, _Amount]
    """Counts that repeat to the unit: `instructions`, `code_bytes`, `operations_linalg` …"""
    absent: dict[str, str]
    """Why a cost is not known, by its name."""
    operations: dict[str, dict[str, int]]
    """The number of each operation in the IR of a kind, before the last step that takes it."""
    compile: list[StepCost]
    """What compiles the program, in order; of cached actions, what they took when they ran."""
    native: NotRequired[bool]
    """Present, and true, if the code depends on the CPU of the machine that compiled it: other machines count other numbers."""
    time: NotRequired[KernelTime]
    """Absent if it was not measured."""
    judged: NotRequired[list[JudgedCost]]
    """Exact costs that have goldens; absent if none has."""


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
    costs: NotRequired[Costs]
    """Present where they were asked for, and the test ran."""
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
    position: NotRequired[str]
    """File, line and column, if they are known: a file of a catalog, or one in `kept`."""
    step: NotRequired[DecidingStep]
    """Absent for a pass, and if nothing ran."""
    steps: NotRequired[list[str]]
    """The steps of its route that it reached, in order; absent if it reached none."""
    wrong_output: NotRequired[Digest]
    """Of wrong outputs of a program: their digest. Equal digests are equal bits."""
    device: NotRequired[str]
    """The GPU that ran it, and the release of its driver: `NVIDIA H100 80GB HBM3, driver 550.54.15`."""
    scaled: NotRequired[str]
    """Of a program that was too large for a test: which of its numbers were made smaller, `seq_len from 4096 to 128`."""
    signal: NotRequired[str]
    """Of a crash: the name of the signal, such as `SIGSEGV`, or of the sanitizer that ended it, such as `AddressSanitizer`."""
    frame: NotRequired[str]
    """The innermost frame of a stack in the diagnostics, without signal handlers: `mlir::foo(int)`, or `f (x.py:3)` of Python."""
    kept: NotRequired[str]
    """The folder with the files of an unexpected outcome, complete when the run has ended."""
    repeat: NotRequired[str]
    """The command that runs the test again; absent if it is unsupported."""
    next: NotRequired[str]
    """The command that helps most to find the cause of an unexpected outcome; absent if none helps."""


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


class Cause(TypedDict):
    """What a group of unexpected outcomes has in common. Tests in quarantine have no cause."""

    key: str
    """What identifies the cause; equal in another run in which tests fail in the same way."""
    kind: Literal["step", "pipeline", "several", "importer", "target", "workload", "expectation", "infrastructure"]
    """What is suspected. `several`: steps, or a framework and steps, that nothing tells apart. `pipeline`: the same,
    and all their tests are of this pipeline. `expectation`: tests pass that a rule expects to fail."""
    name: str
    """The step, pipeline, framework, target or workload, or several joined by ` or `, or the position of the rule;
    empty for `infrastructure`."""
    file: NotRequired[str]
    """The file that defines it, in which tests fail, or that alone changed; relative to its catalog, absent if unknown."""
    title: str
    """One sentence, which begins with the name."""
    tests: list[str]
    """Identifiers, that of `example` first."""
    globs: list[str]
    """Patterns that match these tests, and no other test that passed or failed unexpectedly."""
    example: str
    """The test to look at first: an IR test, else one with the fewest steps."""
    changed: NotRequired[ChangedSince]
    """Absent if the history has no run in which one of the tests was as expected."""
    next: NotRequired[str]
    """The command that helps most to find the cause."""


class ChangedSince(TypedDict):
    """What changed since the last run in which tests of a cause were as expected, as far as all of the tests use it."""

    run: str
    """The identifier of that run."""
    ended: Time
    outcome: NotRequired[str]
    """How a test of the cause ended in it, as expected; absent in results of older programs."""
    dirty: bool
    """True if files of that run had changes that were not committed; they are in no list."""
    files: list[str]
    """Files of catalogs that the tests share, relative to their catalog; committed or not."""
    other_files: int
    """Number of further files of the catalogs that changed."""
    unknown: NotRequired[list[str]]
    """Folders of catalogs whose changed files are not known, because Git cannot tell; absent if there are none."""
    pins: dict[str, list[str]]
    """Components whose releases differ: before, now."""
    environments: list[str]
    """Environments whose packages differ."""
    version: NotRequired[list[str]]
    """The versions of the program, if they differ: before, now."""


class UsedCatalog(TypedDict):
    """A catalog, and the commit of its Git repository."""

    folder: str
    commit: NotRequired[str]
    """Absent if it is not in a Git repository."""
    branch: NotRequired[str]
    """Absent if Git has none, and no CI service names it."""
    dirty: NotRequired[bool]
    """True if the folder has changes or new files that are not committed."""


class StartedRun(TypedDict):
    """What runs, where, and since when."""

    version: str
    """The version of mlir-matrix."""
    command: str
    """The command line, quoted for a shell."""
    selecting: NotRequired[list[str]]
    """What selects the tests on the command line: suites, globs, identifiers. Empty: the default suite, or the machine's."""
    host: str
    catalogs: list[UsedCatalog]
    """The repository, then each `--catalog`."""
    started: Time


class FinishedRun(StartedRun):
    """What ran, where, and when."""

    ended: Time


@document
class Results(TypedDict):
    """The results of a run (`matrix run --format json`)."""

    schema: Literal["mlir-matrix/results/v1"]
    run: FinishedRun
    tests: list[TestEntry]
    summary: Summary
    causes: NotRequired[list[Cause]]
    """What the unexpected outcomes have in common; that of most tests comes first. Absent in documents of older programs."""
    interrupted: bool
    """True if the run was interrupted; the remaining tests are then `skipped`."""
    executed: int
    """Number of executed actions; the others were cached."""
    executed_actions: list[str]
    """Their identifiers, as in the plan."""
    selection: NotRequired[Selection]
    """Present if a machine or a shard selected the tests."""


_LINE = "A line of `matrix run --events`. Ignore a last line without a line feed: it is incomplete."


class Line(TypedDict):
    """A line, of at most 4,000 bytes."""

    time: Time
    file: NotRequired[str]
    """Present if the line is cut: the file has the event in full. Long texts are cut, other long values are empty or absent."""


@document
class Planned(Line):
    """The tests are chosen. It is the first event."""

    event: Literal["planned"]
    schema: Literal["mlir-matrix/events/v1"]
    run: StartedRun
    tests: int
    """All of them will be `finished`; `unsupported` of them do not run."""
    unsupported: int


@document
class Started(Line):
    """An action is being executed. Bazel does not report this."""

    event: Literal["started"]
    action: str
    """Its identifier, as in the plan."""
    kind: str
    """The tool: a module of `mlir_matrix.actions.tools`."""
    environment: str


@document
class Finished(Line):
    """A test has its outcome: one event per test. Tests that do not run come last."""

    event: Literal["finished"]
    cell: str
    """The row of the table that the test is in."""
    test: TestEntry


@document
class CellState(Line):
    """A row of the table: a cell, or the IR tests of all steps. Its first action starts, or all its tests have outcomes.

    A row in which no test runs has no such event, and neither have bisections.
    """

    event: Literal["cell"]
    cell: str
    state: Literal["started", "finished"]
    tests: int
    """Its tests that run."""


@document
class PackageState(Line):
    """A package is being installed: at most one event a second, and one at the end."""

    event: Literal["package"]
    package: str
    state: Literal["fetching", "installing", "building", "installed", "error"]
    received: int
    """Bytes downloaded or, while `installing`, unpacked so far; of a build: steps."""
    total: int
    """Bytes or steps in all; 0 if unknown."""
    error: NotRequired[str]


@document
class Ended(Line):
    """The run has ended. Without this event it was killed, or the infrastructure failed."""

    event: Literal["ended"]
    summary: Summary
    interrupted: bool
    executed: int
    """Number of executed actions; the others were cached."""


Event = Annotated[
    Planned | Started | CellState | Finished | PackageState | Ended, Field(discriminator="event", description=_LINE)
]


class RemovedFiles(TypedDict):
    """What was removed, or would be."""

    results: int
    files: int
    """Outputs of actions that no remaining result needs, and incomplete files."""
    scratch_folders: int
    """Folders of runs that were killed."""
    bytes: int


class KeptFiles(TypedDict):
    """What is left."""

    results: int
    files: int
    bytes: int
    in_use: int
    """Number of results that running commands may use. They are kept whatever their size and age."""


class EvictionSummary(TypedDict):
    """Numbers of files, and their bytes."""

    removed: RemovedFiles
    kept: KeptFiles


@document
class CacheGc(TypedDict):
    """Results removed from the action cache (`matrix cache gc --format json`)."""

    schema: Literal["mlir-matrix/cache-gc/v1"]
    cache: str
    """Folder of the action cache."""
    max_bytes: int
    max_age_days: int | None
    dry_run: bool
    """True if nothing was removed."""
    summary: EvictionSummary
