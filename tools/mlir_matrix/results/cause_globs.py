"""Describe sets of tests by few globs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from mlir_matrix.base.names import OF, TestId, split_property, with_pins

#: The most globs for people, and the most names in each of their braces.
_GLOBS, _NAMES = 4, 4


class _Place(NamedTuple):
    """What tests of one cell share, also if a property is tested."""

    framework: str
    pipeline: str
    target: str
    tested_property: str
    pins: str

    def glob(self, frameworks: str, pipelines: str, workloads: str) -> str:
        called = f"{workloads}{OF}{self.tested_property}" if self.tested_property else workloads
        return with_pins(f"{frameworks}/{pipelines}/{self.target}/{called}", self.pins)


class RanTests:
    """The tests that a run decided, to choose globs that match some of them and no others."""

    def __init__(self, tests: Iterable[str]) -> None:
        self._workloads = _by_place(tests)
        #: The frameworks that have tests, by the other parts of their place.
        self._frameworks: dict[_Place, set[str]] = defaultdict(set)
        for place in self._workloads:
            self._frameworks[place._replace(framework="")].add(place.framework)

    def globs(self, tests: Iterable[str]) -> list[str]:
        """Return globs that match these tests, and no other test of the run. The globs of most tests come first."""
        counts: dict[tuple[_Place, str], int] = defaultdict(int)
        frameworks: dict[tuple[_Place, str], set[str]] = defaultdict(set)
        for place, names in _by_place(tests).items():
            workloads = _glob(names, self._workloads[place])
            group = place._replace(framework=""), workloads
            frameworks[group].add(place.framework)
            counts[group] += len(names)
        merged: dict[tuple[_Place, str, str], set[str]] = defaultdict(set)
        sizes: dict[tuple[_Place, str, str], int] = defaultdict(int)
        for (place, workloads), of in frameworks.items():
            row = place._replace(pipeline=""), _glob(of, self._frameworks[place]), workloads
            merged[row].add(place.pipeline)
            sizes[row] += counts[place, workloads]
        rows = sorted(merged, key=lambda row: (-sizes[row], row))
        return [place.glob(of, _glob(merged[place, of, workloads]), workloads) for place, of, workloads in rows]


def _by_place(tests: Iterable[str]) -> dict[_Place, set[str]]:
    """Return the workloads of tests by their place."""
    found: dict[_Place, set[str]] = defaultdict(set)
    for test in map(TestId.parse, tests):
        workload, tested_property = split_property(test.called)
        found[_Place(test.framework, test.pipeline, test.target, tested_property, test.pins)].add(workload)
    return found


def _glob(names: Collection[str], every: Collection[str] = ()) -> str:
    """Return a glob that matches these names, ``*`` if they are all of several ones."""
    if len(names) == 1:
        return next(iter(names))
    return "*" if names == every else f"{{{','.join(sorted(names))}}}"


def abridged_globs(globs: Sequence[str]) -> list[str]:
    """Return the first globs for people to read, each with few of its names, and the number of the others."""

    def few(found: re.Match[str]) -> str:
        names = found[1].split(",")
        if len(names) <= _NAMES:
            return found[0]
        return f"{{{','.join(names[: _NAMES - 1])},… {len(names) - _NAMES + 1} more}}"

    shown = [re.sub(r"\{(.*?)\}", few, glob) for glob in globs[:_GLOBS]]
    return shown + ([f"… {len(globs) - _GLOBS} more"] if len(globs) > _GLOBS else [])
