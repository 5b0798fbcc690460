"""Quarantine flaky tests: until a given day, a run reports their unexpected outcomes but does not fail."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from mlir_matrix.base.names import test_glob
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.suites import Quarantined


def today() -> str:
    """Return the current day, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


class ActiveQuarantine:
    """The quarantines of a catalog on one day."""

    def __init__(self, catalog: Catalog, day: str) -> None:
        #: The day in UTC, in the form of ISO 8601.
        self.day = day
        self._entries = [
            (entry, quarantine.source.position("quarantine", number))
            for quarantine in catalog.quarantines
            for number, entry in enumerate(quarantine.document.quarantine)
        ]

    def entries(self, test: str) -> Iterator[tuple[Quarantined, str]]:
        """Yield the entries that name a test, with their positions."""
        for entry, position in self._entries:
            if any(test_glob(pattern).matches(test) for pattern in entry.tests):
                yield entry, position
