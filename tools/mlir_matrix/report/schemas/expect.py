"""Types of the documents of ``matrix expect`` and ``matrix inputs``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class ExpectationChange(TypedDict):
    """Tests of one cell whose expectation changes alike."""

    state: Literal["new", "changed", "gone"]
    cell: str
    outcome: str
    """What the tests end as now; empty for tests that are gone from the suite."""
    reason: str
    was: str
    """The outcome and reason in the file; empty for new ones."""
    tests: list[str]
    """The names in the cell: `WORKLOAD` or `WORKLOAD~PROPERTY`."""


class NotExpected(TypedDict):
    """A test that is not as expected, and that no expectation can be written for."""

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
    """As that of the expectations."""


class ExpectSummary(TypedDict):
    """Numbers of tests."""

    new: int
    changed: int
    gone: int
    left: int


class Expect(TypedDict):
    """What tests are expected to end as (`matrix expect --format json`)."""

    schema: Literal["mlir-matrix/expect/v1"]
    summary: ExpectSummary
    name: str
    """The suite or corpus."""
    written: bool
    """True if the files have been changed (`--write`)."""
    members: NotRequired[MembersChange]
    """Present for a corpus whose members are named in a list."""
    expectations: NotRequired[ExpectationsChange]
    """Present for a suite."""


class WrittenInput(TypedDict):
    """An input of a workload."""

    name: str
    file: str
    shape: list[int]
    dtype: str
    stored: str
    """The dtype in the file, as NumPy writes it. bf16 is stored as its bits: `<u2`."""


class InputsSummary(TypedDict):
    """Numbers of files."""

    inputs: int
    bytes: int


class Inputs(TypedDict):
    """The inputs of a workload (`matrix inputs`): the file `inputs.json` beside them."""

    schema: Literal["mlir-matrix/inputs/v1"]
    summary: InputsSummary
    workload: str
    draw: int
    """The number of the draw; 0 is the one that tests run with."""
    inputs: list[WrittenInput]
    program: NotRequired[str]
    """The file with the program, of one in a form of others."""
