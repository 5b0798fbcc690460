"""Collect the problems of a catalog's files, to report all of them at once."""

from __future__ import annotations

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.yaml_reader import Place, located

#: Problems shown in one error; the rest are counted.
MOST_SHOWN = 20


class Problems:
    """The problems found so far."""

    def __init__(self) -> None:
        self.found: set[tuple[str, Place, str]] = set()
        #: Entries over a limit, by section and name. They are left out; the rest of the catalog can be used.
        self.over: dict[tuple[str, str], str] = {}

    def add(self, file: str, message: str, place: Place = (0, 0)) -> None:
        """Add a problem with a file or folder, at a line and column (from 1) where they are known."""
        self.found.add((file, place, message))

    def leave_out(self, section: str, name: str, file: str, message: str, place: Place = (0, 0)) -> None:
        """Add a problem with an entry that is over a limit."""
        self.over.setdefault((section, name), f"{located(file, place, message)}; it is left out")

    def raise_if_any(self) -> None:
        """Raise one CatalogError, a line per problem, sorted by place."""
        if not self.found:
            return
        lines = [located(*problem) for problem in sorted(self.found)]
        if len(lines) > MOST_SHOWN:
            lines[MOST_SHOWN:] = [f"… and {len(lines) - MOST_SHOWN} more"]
        raise CatalogError("\n".join(lines))
