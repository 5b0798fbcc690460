"""Types of the documents of ``matrix expect`` and ``matrix conflicts``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.base.documents import document


class ExpectationChange(TypedDict):
    """Tests of one cell whose expectation changes alike."""

    state: Literal["new", "changed", "gone"]
    cell: str
    outcome: str
    """The current outcome of the tests; empty for tests that are no longer in the suite."""
    reason: str
    was: str
    """The outcome and reason in the file; empty for new ones."""
    tests: list[str]
    """The names in the cell: `WORKLOAD` or `WORKLOAD~PROPERTY`."""


class NotExpected(TypedDict):
    """A test with an unexpected outcome for which no expectation can be written."""

    test: str
    outcome: str
    reason: str


class ExpectationsChange(TypedDict):
    """The change of a suite's file of expectations."""

    file: str
    changes: list[ExpectationChange]
    left: list[NotExpected]
    expected: int
    """Number of tests with an expectation in the new file."""
    patch: str
    """Unified diff for `git apply`; empty if nothing changes."""


class MembersChange(TypedDict):
    """The change of the list of a corpus's members."""

    file: str
    added: list[str]
    removed: list[str]
    patch: str
    """Unified diff for `git apply`; empty if nothing changes."""


class Differing(TypedDict):
    """Tests that differ alike from what upstream expects."""

    outcome: str
    """Ours."""
    reason: str
    """Why they fail here; the sets that have them where they pass here."""
    tests: list[str]
    """Their names upstream."""


class UpstreamCell(TypedDict):
    """The results of a cell beside the sets of tests that upstream expects to fail, or does not run."""

    cell: str
    sets: list[str]
    both_pass: int
    both_fail: int
    only_they_fail: list[Differing]
    only_we_fail: list[Differing]
    not_run: list[str]
    """Tests of the sets without a verdict here."""


class Upstream(TypedDict):
    """What upstream expects to fail, and what fails here."""

    file: str
    cells: list[UpstreamCell]


class ExpectSummary(TypedDict):
    """Numbers of tests."""

    new: int
    changed: int
    gone: int
    left: int


@document
class Expect(TypedDict):
    """Proposed expectations of tests (`matrix expect --format json`)."""

    schema: Literal["mlir-matrix/expect/v1"]
    summary: ExpectSummary
    name: str
    """The suite or corpus."""
    written: bool
    """True if the files have been changed (`--write`)."""
    members: NotRequired[MembersChange]
    """Present for a corpus whose members are named in a list."""
    expectations: NotRequired[ExpectationsChange]
    """Present for a suite, without `--from`."""
    upstream: NotRequired[Upstream]
    """Present with `--from`."""


class KnownConflict(TypedDict):
    """The reason that a suite states for a conflict."""

    reason: str
    position: str


class RepeatedPair(TypedDict):
    """Two tests that could be one."""

    tests: tuple[str, str]
    how: Literal["repeated"]
    where: list[str]
    """The evidence: releases, or documents of results."""


class ConflictPair(TypedDict):
    """Two tests that cannot both pass."""

    tests: tuple[str, str]
    how: Literal["input", "releases"]
    """The kind of evidence: outputs of the same input, or releases under which they pass in turn."""
    where: list[str]
    """The evidence: releases, or documents of results."""
    known: KnownConflict | None
    """Null if no suite lists the conflict."""
    passes: NotRequired[list[str]]
    """With `releases`: the passes that the steps of both have. The tests demand opposite things of them."""
    alone: NotRequired[dict[str, list[str]]]
    """With `releases`: where each of the two passes, and the other one does not."""


class StaleConflict(KnownConflict):
    """A pair without a conflict that a suite lists."""

    tests: tuple[str, str]


class ConflictsSummary(TypedDict):
    """Numbers of entries."""

    tests: int
    conflicts: int
    unknown: int
    """Conflicts that no suite lists."""
    repeated: int
    stale: int


@document
class Conflicts(TypedDict):
    """Pairs of IR tests that cannot both pass (`matrix conflicts --format json`)."""

    schema: Literal["mlir-matrix/conflicts/v1"]
    summary: ConflictsSummary
    tests: int
    """Number of IR tests."""
    where: list[str]
    conflicts: list[ConflictPair]
    repeated: list[RepeatedPair]
    stale: list[StaleConflict]
