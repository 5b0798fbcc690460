"""What a reduction finds, and the folder that it is written into, which one process has at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import sole_user, unwritable
from mlir_matrix.base.paths import find_home
from mlir_matrix.bisect.steps.passes import PATTERNS
from mlir_matrix.reduce.subject import Subject
from mlir_matrix.reduction.search import Candidate

LOG, REDUCED = "log.ndjson", "reduced.mlir"
_ODD = re.compile(r"[^\w.+=,-]", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a program is: its operations, without functions and what ends a block, and lines as the release prints them."""

    #: None for a text that is no module.
    operations: int | None
    lines: int


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """The result of a reduction."""

    subject: Subject
    #: None for a text that is no module.
    best: Candidate | None
    #: The reduced IR as the release prints it.
    text: str
    before: Size
    after: Size
    candidates: int
    seconds: float
    search_seconds: float
    complete: bool
    verified: bool
    #: Why what is right for the test has no part in the reduction of a failure; empty if it has, or none is known.
    good_fails: str
    #: The passes that suffice, after ``PATTERNS`` if these need the patterns of the step; empty if they were not reduced. Whether
    #: a program of the release has them.
    passes: Sequence[str]
    by_programs: bool
    folder: Path
    #: The text of the reference of a program that is right by it.
    reference: str
    #: The name of the workload in ``folder``, and its test; empty if it could not be written as one.
    workload: str = ""
    test: str = ""
    #: The script of the compiler's own programs, if there is one.
    script: Path | None = None

    @property
    def good(self) -> str:
        """The name of what is right with the reduced program; empty if that is not known."""
        return self.subject.good if len(self.subject.behaviour.sides) > 1 else ""

    def moved(self, folder: Path) -> Reduced:
        """Return it after its folder was renamed."""
        script = self.script and folder / self.script.relative_to(self.folder)
        return replace(self, folder=folder, script=script)

    @property
    def fails_in_one_command(self) -> bool:
        """Whether one program of the release shows the failure, by the passes that suffice. None applies patterns."""
        return self.by_programs and bool(self.passes) and PATTERNS not in self.passes


def folder_of(subject: Subject) -> Path:
    """Return the folder of a test's reduction, which another process continues if this one is killed."""
    return find_home().state / "reduce" / _ODD.sub("-", subject.test.id)[:200]


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other reductions from it.

    Raise UsageError if another process has it, or if it has files of something else, which the result would replace.
    """
    with sole_user(folder, f"another process reduces this test; its log is {folder / LOG}"):
        _claim(folder)
        yield


def _claim(folder: Path) -> None:
    """Mark a folder by an empty log. Raise UsageError or InfrastructureError."""
    log = folder / LOG
    names = os.listdir(folder)
    if names and LOG not in names:
        raise UsageError(f"{folder} has files, but no {LOG} of a reduction; name a new folder with --out")
    try:
        log.touch()
    except OSError as error:
        raise unwritable(f"the log {log} cannot be written", error) from None
