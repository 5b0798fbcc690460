"""Quarantine flaky tests: their unexpected outcomes are reported, and do not fail a run, until a day."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from mlir_matrix.base.names import test_glob
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.suites import Quarantined
from mlir_matrix.judge.repeats import without_copy
from mlir_matrix.judge.results import TestResult

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.run import InQuarantine


def today() -> str:
    """Return the day, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


class Quarantine:
    """The quarantines of a catalog on one day."""

    def __init__(self, catalog: Catalog, day: str) -> None:
        self._day = day
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

    def mark(self, result: TestResult) -> TestResult:
        """Return a result with its quarantine if its outcome is unexpected. One that has ended is a part of the reason."""
        if result.expected:
            return result
        ended = ""
        for entry, position in self.entries(without_copy(result.id)):
            if entry.until < self._day:
                ended = f"; its quarantine ended on {entry.until} ({position}; {entry.owner})"
                continue
            found: InQuarantine = {
                "owner": entry.owner,
                "until": entry.until,
                "reason": entry.reason,
                "position": position,
            }
            if entry.link:
                found["link"] = entry.link
            return replace(result, quarantine=found)
        return replace(result, reason=f"{result.reason}{ended}")
