"""Collect the problems of a catalog, and answer questions that many checks ask."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date

from mlir_matrix.base.names import PatternError, did_you_mean, name_glob, printable
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.messages import Problems
from mlir_matrix.catalog.models.base import Document
from mlir_matrix.catalog.releases import find
from mlir_matrix.catalog.yaml_reader import Key, Source


@dataclass(frozen=True, eq=False, repr=False)
class Checker:
    """A catalog, the problems found in it, and the questions that many checks ask."""

    catalog: Catalog
    problems: Problems

    def wrong(self, where: Entry[Document] | Source, message: str, *keys: Key) -> None:
        """Add a problem at the position of a key or item of a file."""
        source = where.source if isinstance(where, Entry) else where
        self.problems.add(source.file, message, source.place(*keys))

    def over(self, section: str, entry: Entry[Document], message: str, *keys: Key) -> None:
        """Leave out an entry that exceeds a limit. Only entries that use it are then wrong."""
        source = entry.source
        self.problems.leave_out(section, entry.name, source.file, message, source.place(*keys))

    def known(self, where: Entry[Document] | Source, what: str, name: str, names: Iterable[str], *keys: Key) -> bool:
        """Return whether ``name`` is one of ``names``; add a problem if it is not."""
        if name in names:
            return True
        self.wrong(where, f"there is no {what} '{printable(name)}'{did_you_mean(name, names)}", *keys)
        return False

    def check_date(self, where: Entry[Document], text: str, *keys: Key) -> None:
        """Add a problem if a text is not a day, such as ``2026-12-31``."""
        try:
            date.fromisoformat(text)
        except ValueError:
            self.wrong(where, f"'{text}' is not a valid date", *keys)

    def suites(self) -> list[str]:
        """Return the names of all suites, those of corpora whose checkout is not given too."""
        return [*self.catalog.suites, *self.catalog.without_data]

    def release(
        self, entry: Entry[Document], component: str, wanted: str, *keys: Key, in_full: bool = False
    ) -> str | None:
        """Return the release of a component that a name such as ``19`` stands for. Add a problem and return None if none does."""
        releases = [release.release for release in self.catalog.components[component].document.releases]
        found = find(releases, wanted)
        if found is None or (in_full and found != wanted):
            near = did_you_mean(wanted, releases)
            self.wrong(entry, f"{component} has no release '{printable(wanted)}'{near}", *keys)
            return None
        return found

    def matches(self, where: Source, what: str, pattern: str, names: Collection[str], *keys: Key) -> list[str]:
        """Return the names that a pattern matches; add a problem if it is not valid or matches none."""
        try:
            glob = name_glob(pattern)
        except PatternError as error:
            self.wrong(where, str(error), *keys)
            return []
        found = glob.select(names)
        if not found and glob.literal:
            self.known(where, what, pattern, names, *keys)
        elif not found and not glob.everything:
            self.wrong(where, f"no {what} matches '{printable(pattern)}'", *keys)
        return found
