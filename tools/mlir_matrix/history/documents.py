"""Types of the documents of ``matrix history``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.documents import document
from mlir_matrix.plan.documents import Time


class RecordedCatalog(TypedDict):
    """A catalog of a recorded run."""

    folder: str
    commit: str
    """Empty if it was not in a Git repository."""
    branch: NotRequired[str]
    """Empty if unknown; absent in runs of older programs."""
    dirty: bool
    """True if files had changes that were not committed."""


class RecordedRun(TypedDict):
    """A recorded run."""

    id: str
    host: str
    version: str
    command: str
    catalogs: list[RecordedCatalog]
    started: Time
    """By the clock of the host."""
    ended: Time
    seconds: float
    """From start to end."""
    stored: Time
    """When the database got it."""
    interrupted: bool
    tests: int
    executed: int
    unexpected: int
    repeats: int
    """Number of later runs in which nothing had changed, so that they have the same results."""
    last_seen: Time
    """The end of the last of them."""


class RunsSummary(TypedDict):
    """Totals."""

    matched: int
    """Number of runs that the options choose; the newest 20, or those of `--limit`, are shown."""
    runs: int


@document
class Runs(TypedDict):
    """The last runs (`matrix history show`)."""

    schema: Literal["mlir-matrix/history-runs/v1"]
    database: str
    summary: RunsSummary
    runs: list[RecordedRun]
    """The newest first."""


class RecentOutcome(TypedDict):
    """How a test ended in a run."""

    run: str
    started: Time
    """When the run started."""
    host: str
    catalogs: list[RecordedCatalog]
    outcome: Outcome
    unexpected: bool
    executed: bool
    """False if all of its actions were cached."""
    seconds: float
    """Seconds of its actions; of cached ones, those of their execution."""
    costs: NotRequired[dict[str, float]]
    """Its exact costs; absent where they were not counted."""


class MonthOfTest(TypedDict):
    """The summary of removed results."""

    month: str
    """For example `2026-01`."""
    results: int
    executed: int
    unexpected: int
    seconds: float
    """The mean."""
    error_used: float | None
    """The largest share of the bound that an error used."""


class ShownTest(TypedDict):
    """The last outcomes of a test."""

    id: str
    recent: list[RecentOutcome]
    """The oldest first."""
    behaviour: str
    """How it ended in the last run that decided it."""
    bad: bool
    """True if that is unexpected."""
    decided: Time | None
    """When that run was last seen; null if the test only was skipped, or its machine failed."""
    results: int
    unexpected: int
    first_seen: Time
    last_seen: Time
    seconds: float | None
    """Median of its recent executions; null if there is none."""
    pins: dict[str, str]
    host: str
    months: list[MonthOfTest]


class ShownSummary(TypedDict):
    """Totals."""

    matched: int
    """Number of tests that the patterns match; the first 200, or those of `--limit`, are shown."""
    shown: int
    unexpected: int
    """Number of shown tests that are bad in the last run that decided them."""


@document
class Shown(TypedDict):
    """The last outcomes of tests (`matrix history show PATTERN`)."""

    schema: Literal["mlir-matrix/history/v1"]
    database: str
    summary: ShownSummary
    tests: list[ShownTest]


class MovedCommit(TypedDict):
    """A catalog that may differ between two runs."""

    folder: str
    good: str
    bad: str
    dirty: bool
    """True if one of them had changes that were not committed."""


class FirstBadTest(TypedDict):
    """A test that is bad in the last run that decided it."""

    id: str
    behaviour: str
    """How it ended in the first bad run."""
    last_good: RecordedRun | None
    """Null if it was never good."""
    first_bad: RecordedRun
    commits: list[MovedCommit]
    pins: dict[str, list[str]]
    """Components whose releases differ: before, after."""
    inputs_differ: bool | None
    """True if an input of the test, or the machine, differs between both runs; null if that is not recorded."""
    bisect: str
    """The command that bisects these pins; empty if no release differs."""
    bisect_notes: list[str]
    """What differs from these pins in the command, and what no release tells."""


class FirstBadCause(TypedDict):
    """What tests have in common that went bad in one run, after the same last good run."""

    key: str
    """What identifies the cause, as in results; empty in runs of older programs, where equal behaviours are one cause."""
    title: str
    tests: list[str]
    globs: list[str]
    """Patterns that match these tests, and no other test of the history."""
    example: FirstBadTest


class FoundSummary(TypedDict):
    """Totals."""

    tests: int
    shown: int


class FirstBadSummary(TypedDict):
    """Totals."""

    tests: int
    """Number of bad tests; the 200 that went bad last, or those of `--limit`, are shown."""
    shown: int
    causes: int


@document
class FirstBad(TypedDict):
    """When tests went bad (`matrix history show --first-bad`)."""

    schema: Literal["mlir-matrix/history-first-bad/v1"]
    database: str
    summary: FirstBadSummary
    causes: list[FirstBadCause]
    """That of most tests first: the 200 largest, or those of `--limit`."""
    tests: list[FirstBadTest]


class SeenBehaviour(TypedDict):
    """One of the ways in which a test ended."""

    behaviour: str
    executions: int


class FlakyTest(TypedDict):
    """A test that ended in different ways although all its inputs were equal."""

    id: str
    executions: int
    """Number of its executions with inputs for which it ended in different ways."""
    differing: int
    """Number of those that did not end in the usual way."""
    rate: float
    interval: list[float]
    """Wilson's 95 % interval of the rate."""
    behaviours: list[SeenBehaviour]
    last_run: Time


@document
class Flaky(TypedDict):
    """Flaky tests (`matrix history show --flaky`)."""

    schema: Literal["mlir-matrix/history-flaky/v1"]
    database: str
    summary: FoundSummary
    tests: list[FlakyTest]


class SlowerTest(TypedDict):
    """A test that costs more than before."""

    id: str
    host: str
    cost: Literal["instructions", "seconds"]
    before: float
    """The instructions of a call before the last 5 counts; or median seconds of up to 20 executions before the last 5."""
    after: float
    """The last count; or median seconds of the last 5."""
    factor: float
    interval: list[float]
    """Of the factor, with 98 %. A count is exact."""


@document
class Slower(TypedDict):
    """Tests that became slower (`matrix history show --slower`)."""

    schema: Literal["mlir-matrix/history-slower/v1"]
    database: str
    summary: FoundSummary
    tests: list[SlowerTest]


class GrowingTest(TypedDict):
    """A test whose error grows; errors are shares of its bound."""

    id: str
    executions: int
    first: float
    last: float
    per_run: float
    """Theil and Sen's slope."""
    runs_left: int
    """Executions until the error exceeds its bound, if it grows on."""
    chance: float
    """The p-value of Mann and Kendall's test."""


@document
class Growing(TypedDict):
    """Tests whose errors grow (`matrix history show --error-growing`)."""

    schema: Literal["mlir-matrix/history-error-growing/v1"]
    database: str
    summary: FoundSummary
    tests: list[GrowingTest]


class ChangedTest(TypedDict):
    """A test that differs between two runs."""

    id: str
    before: str | None
    """How it ended, there or when a run before decided it last; null if none has it."""
    after: str | None
    """Null if the test is gone."""
    last_seen: NotRequired[Time]
    """When the last run that decided it ended; absent if the later one did."""


class DiffSummary(TypedDict):
    """Totals."""

    new: int
    fixed: int
    changed: int
    passes: int
    not_run: int
    added: int
    gone: int


class TodayMachine(TypedDict):
    """The runs of a machine with equal pins on the command line."""

    host: str
    pins: str
    """For example `llvm=22`; empty for the default releases."""
    runs: int
    last_run: Time
    """The start of the last run."""
    tests: int
    """Number of tests that were decided since."""
    unexpected: int
    new: int


class TodayPlace(TypedDict):
    """Where a cause is."""

    host: str
    pins: str
    tests: int
    first_bad: FirstBadTest | None
    """Of the first of these tests: the runs between which it went bad, and what changed. Null if nothing is known of it."""


class TodayCause(TypedDict):
    """Tests that fail, or failed, for one reason."""

    key: str
    """What identifies the cause; equal on other days and machines."""
    title: str
    file: str
    """The file of the step or importer, relative to its catalog; empty if unknown."""
    tests: list[str]
    globs: list[str]
    """Patterns that match these tests, and no other that ran since."""
    example: str
    """The test to look at first."""
    next: str
    """The command that helps most to find the cause; empty if none is known."""
    flaky: int
    """How many of the tests are flaky."""
    places: list[TodayPlace]


@document
class Today(TypedDict):
    """What is new since a time (`matrix history today`)."""

    schema: Literal["mlir-matrix/history-today/v1"]
    database: str
    since: Time
    until: Time
    summary: dict[str, int]
    """Number of runs, of new causes (`new_causes`), and of tests by the other keys of this document."""
    machines: list[TodayMachine]
    new: list[TodayCause]
    """Tests that are not as expected, and were in the last run before that decided them, or had none."""
    changed: list[TodayCause]
    """Tests that are not as expected, in another way than before."""
    fixed: list[TodayCause]
    """Tests that are as expected, and were not; by the cause that they had."""
    still: list[TodayCause]
    """Tests that are not as expected, in the same way as before; by the cause that they had."""
    trouble: list[TodayCause]
    """Tests that nothing decided since, because the infrastructure failed."""
    flaky: list[FlakyTest]
    """Of tests that are new, changed or fixed."""
    slower: list[SlowerTest]
    """Those that were not slower before."""
    notes: list[str]
    """Machines without a run, interrupted runs, and what else makes the answer incomplete."""


@document
class Diff(TypedDict):
    """The differences between two runs (`matrix history diff`)."""

    schema: Literal["mlir-matrix/history-diff/v1"]
    before: str
    """The run or the file."""
    after: str
    summary: DiffSummary
    new: list[ChangedTest]
    """Failures that the run before does not have. A test that a run does not decide keeps its last decided outcome."""
    fixed: list[ChangedTest]
    changed: list[ChangedTest]
    """Unexpected in both runs, in different ways."""
    passes: list[ChangedTest]
    """Passes of tests that are expected to fail."""
    not_run: list[ChangedTest]
    """Failures that the later run does not decide: it did not run them, or its machine failed."""
    added: list[ChangedTest]
    """Expected outcomes of tests that the run before does not have."""
    gone: list[ChangedTest]
