"""The document of ``matrix fuzz``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.documents import document


class FuzzFinding(TypedDict):
    """A failure that is unlike all others, and the smallest program that shows it."""

    key: str
    """What identifies it in other sessions, too."""
    known: str
    """The link of a known one; empty for a new one."""
    id: str
    """The test of the first program that fails in this way."""
    outcome: Outcome
    reason: str
    step: str
    """The step that is wrong; empty if that is not known."""
    passes: list[str]
    """Those of its passes that suffice; empty if they were not reduced."""
    count: int
    """How many programs failed in this way."""
    operations: int | None
    """Of the reduced program; null if it was not reduced."""
    draws: int | None
    """With how many of three other inputs it fails, too; null for a member of a corpus, which has no others."""
    releases: dict[str, Outcome]
    """How the reduced program ends with other releases of LLVM."""
    confirmed: bool
    """Whether it fails in new processes and with all inputs."""
    trouble: str
    """Why it was not reduced."""
    folder: str


class FuzzSummary(TypedDict):
    """Numbers of a session."""

    seed: int
    programs: int
    judged: int
    """Programs by the routes that they ran on."""
    outputs: int
    """Their results by the routes that they ran on."""
    weak: int
    """Those of them that would also pass without the program, e.g. because zeros are right."""
    undecided: int
    """Those of them that are wrong only in elements without a derived bound, which count as right."""
    routes: list[str]
    seconds: float
    cpu_seconds: float
    """Of all processes."""
    findings: int
    new: int
    interrupted: bool
    """Whether it ended before its budget: by the user, or because the machine failed."""


@document
class Fuzz(TypedDict):
    """What programs composed at random found (`matrix fuzz --format json`)."""

    schema: Literal["mlir-matrix/fuzz/v1"]
    summary: FuzzSummary
    findings: list[FuzzFinding]
    pairs: dict[str, int]
    """How often an operation was made after another: `exp after add`."""
