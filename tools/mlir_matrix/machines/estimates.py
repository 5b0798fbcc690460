"""Estimate the seconds of tests from what is recorded of them and of similar ones."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from statistics import median

from mlir_matrix.base.names import SEGMENTS
from mlir_matrix.expand.expansion import Test
from mlir_matrix.history.snapshot import Snapshot

#: Seconds of a test where nothing is recorded at all.
UNKNOWN_S = 1.0


class Estimates:
    """Seconds by test: recorded, else the median of its cell, else of its target, else of all tests."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._recorded = snapshot.tests

    def seconds(self, test: Test) -> float:
        recorded = self._recorded.get(test.id)
        if recorded is not None:
            return recorded.seconds
        cells, targets, overall = self._medians
        return cells.get(test.cell, targets.get(test.target, overall))

    @cached_property
    def _medians(self) -> tuple[dict[str, float], dict[str, float], float]:
        cells: dict[str, list[float]] = defaultdict(list)
        targets: dict[str, list[float]] = defaultdict(list)
        for identifier, recorded in self._recorded.items():
            name, mark, pins = identifier.partition("@")
            parts = name.split("/")
            if len(parts) == SEGMENTS:
                cells[f"{'/'.join(parts[:-1])}{mark}{pins}"].append(recorded.seconds)
                targets[parts[-2]].append(recorded.seconds)
        every = [recorded.seconds for recorded in self._recorded.values()]
        return (
            {cell: median(each) for cell, each in cells.items()},
            {target: median(each) for target, each in targets.items()},
            median(every) if every else UNKNOWN_S,
        )
