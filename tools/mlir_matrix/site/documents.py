"""Types of the data that the pages of a site fetch. Each file below ``data`` is a call of ``matrix.put`` with one of them."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.history.documents import RecordedCatalog
from mlir_matrix.plan.documents import Time
from mlir_matrix.results.documents import TestEntry

SCHEMA = "mlir-matrix/site/v1"


class SiteSeries(TypedDict):
    """A machine, and the pins of its command lines."""

    host: str
    pins: str
    """For example `llvm=22`; empty for the default releases."""


class SiteRun(TypedDict):
    """A run. Other documents name it by its index in the list of runs, the oldest first."""

    id: str
    series: int
    started: Time
    last_seen: Time
    """The end of the run, or of the last run in which nothing had changed."""
    version: str
    command: str
    catalogs: list[RecordedCatalog]
    interrupted: bool
    tests: int
    unexpected: int
    repeats: int
    """Number of later runs in which nothing had changed."""


class SiteManifest(TypedDict):
    """What a site has (`data/manifest-DIGEST.js`). Each page names its manifest."""

    schema: Literal["mlir-matrix/site/v1"]
    version: str
    """The version of mlir-matrix."""
    built: Time
    series: list[SiteSeries]
    runs: list[SiteRun]
    files: dict[str, str]
    """Paths below the site, by the name of the document: `tests`, `latest/outcome`, `cell/FRAMEWORK/PIPELINE/TARGET` …"""


class SiteTests(TypedDict):
    """All tests as columns (`tests`): the values of each axis, and for each test the index of its value."""

    frameworks: list[str]
    pipelines: list[str]
    targets: list[str]
    workloads: list[str]
    """Workloads with the tested property: `matmul~scaling`."""
    releases: list[str]
    """Pins that suites vary: `llvm=22`; the empty text for none."""
    framework: list[int]
    pipeline: list[int]
    target: list[int]
    workload: list[int]
    release: list[int]


class SiteColumn(TypedDict):
    """A value of each test on each machine (`latest/outcome`, `latest/error`, `latest/seconds`, `latest/age`, `latest/since`).

    One character a test, in the order of `tests`. Of `latest/outcome`: as in `history show`, with a space for no result.
    Of the others: a space, or the code c of 0 to 93 as `chr(33 + c)`:

    - error: c / 60 of the bound, at most 93 / 60;
    - seconds: 2 ** (c / 4 - 10) seconds;
    - age: days since the last run that decided it;
    - since: days since it first ended as it does now.
    """

    series: list[str]
    """A text for each machine."""


class SiteSegment(TypedDict):
    """Runs of a machine in a row with equal results of a test."""

    behaviour: int
    """Index in the behaviours of the cell."""
    state: Literal[0, 1, 2]
    """0 unexpected, 1 expected, 2 not decided."""
    first: int
    """Index of the first run."""
    last: int
    runs: int
    pins: int
    """Index in the pins of the cell, of the last run."""


class SiteChange(TypedDict):
    """A change of a measured value that the statistics of `history show --slower` are sure of."""

    metric: Literal["seconds", "instructions", "code_bytes", "compile_s", "error"]
    run: int
    """The first run with the later values."""
    before: float
    after: float


class SiteLine(TypedDict):
    """The results of a test on a machine, the oldest first."""

    series: int
    segments: list[SiteSegment]
    runs: list[int]
    """Runs in which it was executed; at most 60, the last ones."""
    ms: list[int]
    """Milliseconds of its actions in each of them."""
    error: list[float | None]
    """Share of the bound that its error takes, in each of them."""
    costs: list[tuple[int, dict[str, float]]]
    """Runs from which on its exact costs were these."""
    changes: list[SiteChange]


class SiteCell(TypedDict):
    """The results of the tests of a cell over time (`cell/FRAMEWORK/PIPELINE/TARGET`)."""

    behaviours: list[tuple[Outcome, Stage | Literal[""], str]]
    pins: list[dict[str, str]]
    """Releases of components."""
    tests: dict[str, list[SiteLine]]
    """By test."""


class SiteTrend(TypedDict):
    """A changed series of a test, of the page of trends."""

    test: str
    series: int
    change: SiteChange
    factor: float
    """After by before."""
    runs: list[int]
    values: list[float]
    """The whole series."""


class SiteStage(TypedDict):
    """The IR after a step."""

    step: str
    digest: str
    """Equal digests are equal bytes."""
    bytes: int
    document: NotRequired[str]
    """The name of the document with its text, `ir/DIGEST`; absent if this machine does not have it, or it is no text."""


class SiteSide(TypedDict):
    """What is kept of one result of a test."""

    role: Literal["bad", "good"]
    series: int
    run: str
    """The identifier of the run."""
    started: Time
    stages: list[SiteStage]
    entry: NotRequired[TestEntry]
    """With the census; present if the files of the failure are kept on this machine."""
    diagnostics: NotRequired[str]
    log: NotRequired[str]
    commands: NotRequired[str]
    """The compilers' command lines."""
    pictures: NotRequired[list[tuple[str, str]]]
    """Names of outputs, and paths of error maps below the site."""


class SiteEvidence(TypedDict):
    """What is kept of a test that fails, and of its last good run (`evidence/TEST`)."""

    test: str
    sides: list[SiteSide]
    reports: list[tuple[str, str]]
    """Reports of bisections and reductions of this test: title, text."""


class SiteBound(TypedDict):
    """The bound of an output, and the files that state it."""

    output: str
    dtype: str
    bound: str
    layers: list[tuple[str, str]]
    """File, line and column of each layer, and its rationale."""


class SiteRoute(TypedDict):
    """The route of a test through the catalog as it is now."""

    steps: list[tuple[str, str]]
    """Each step, and the kind that it gives; the first is the importer."""
    unsupported: NotRequired[str]
    """Why there is no route."""
    missing: NotRequired[str]
    """The contract that no step meets: a kind, or a property of it."""
    environments: dict[str, dict[str, str]]
    """Releases of components by environment."""
    bounds: list[SiteBound]
    position: str
    """File, line and column of the workload."""
    expectation: NotRequired[tuple[str, str, str]]
    """Outcome, reason, position."""
    quarantine: NotRequired[tuple[str, str, str]]
    """Owner, reason, position."""


class SiteRoutes(TypedDict):
    """The routes of the tests of a cell (`routes/FRAMEWORK/PIPELINE/TARGET`)."""

    tests: dict[str, SiteRoute]


class SitePart(TypedDict):
    """A part of the catalog: a framework, kind, step, pipeline, target or workload."""

    description: str
    position: str
    """File, line and column."""
    url: str
    """Where a browser shows it: its file on a code host; empty if unknown."""
    takes: list[str]
    """Kinds; of a kind the frameworks and steps that give it."""
    gives: list[str]
    """Kinds; of a kind the steps and targets that take it; of a workload the frameworks that have it."""


class SiteCatalog(TypedDict):
    """The catalog (`catalog`)."""

    parts: dict[str, dict[str, SitePart]]
    """By kind of part (`framework`, `kind`, `step`, `pipeline`, `target`, `workload`), by name."""


class SiteHole(TypedDict):
    """A workload or an operator that does not get through."""

    answer: str
    """As in `matrix report support`."""
    reason: str
    test: str
    stage: NotRequired[str]
    position: NotRequired[str]
    missing: NotRequired[str]
    """Of `cannot`: the contract that no step meets."""


class SiteSupport(TypedDict):
    """What gets through (`support/workload`, `support/operator`): rows are names, columns are routes to targets."""

    rows: list[str]
    columns: list[tuple[str, str, str]]
    """Framework, pipeline, target with pins."""
    answers: list[str]
    """A text for each row, a character for each column: `y` yes, `c` compiles, `w` weak, `x` wrong, `f` fails, `u` unknown, `n` not
    run, `-` cannot, a space where there is no test."""
    holes: dict[str, SiteHole]
    """By `ROW COLUMN`, the indices."""
    unconnected: list[tuple[str, str, str, str]]
    """Framework, pipeline and target through which nothing gets, and the reason of most tests. They are no columns."""
