"""Collect the problems of a catalog's files, to report all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_matrix.errors import CatalogError
from mlir_matrix.names import printable

#: Problems shown in one error; the rest are counted.
MOST_SHOWN = 20


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong, at ``line`` and ``column`` (from 1; 0 where only the file or folder is known)."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        place = printable(self.file, 4096)
        if self.line:
            place += f":{self.line}:{self.column}"
        return f"{place}: {self.message}"


@dataclass
class Problems:
    """The problems found so far."""

    found: list[Problem] = field(default_factory=list)

    def add(self, file: str, message: str, place: tuple[int, int] = (0, 0)) -> None:
        """Add a problem with a file or folder, at a line and column where they are known."""
        self.found.append(Problem(file, *place, message))

    def raise_if_any(self) -> None:
        """Raise one CatalogError, a line per problem, sorted by place."""
        if not self.found:
            return
        problems = sorted(set(self.found))
        lines = [str(problem) for problem in problems[:MOST_SHOWN]]
        if len(problems) > MOST_SHOWN:
            lines.append(f"… and {len(problems) - MOST_SHOWN} more")
        raise CatalogError("\n".join(lines))
