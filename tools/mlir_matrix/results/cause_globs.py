"""Describe sets of tests by few globs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from mlir_matrix.base.names import MEMBER, MOST_ALTERNATIVES, OF, SEGMENTS, TestId, split_pins, split_property

#: The most globs for people, and the most names in each of their braces.
_GLOBS, _NAMES = 4, 4


class RanTests:
    """The tests that a run decided, to choose globs that match some of them and no others."""

    def __init__(self, tests: Iterable[str]) -> None:
        self._workloads = _by_place(tests)
        #: The frameworks that have tests, by the other parts of their place.
        self._frameworks: dict[TestId, set[str]] = defaultdict(set)
        for place in self._workloads:
            self._frameworks[place._replace(framework="")].add(place.framework)

    def globs(self, tests: Iterable[str]) -> list[str]:
        """Return globs that match these tests, and no other test of the run. The globs of most tests come first.

        Names that are no identifiers of tests have none; the database and results documents may have such names.
        """
        rows = {
            place._replace(called=place.called.replace("*", glob)): len(names)
            for place, names in _by_place(tests).items()
            for glob in _globs(names, self._workloads[place])
        }
        rows = _merged(rows, "framework", lambda row: self._frameworks[row._replace(called=_template(row.called))])
        rows = _merged(rows, "pipeline", lambda _: ())
        return [str(row) for row in sorted(rows, key=lambda row: (-rows[row], row))]


def _by_place(tests: Iterable[str]) -> dict[TestId, set[str]]:
    """Return the names of workloads by the rest of their tests' identifiers, which has ``*`` for them."""
    found: dict[TestId, set[str]] = defaultdict(set)
    for identifier in tests:
        if split_pins(identifier)[0].count("/") == SEGMENTS - 1:
            test = TestId.parse(identifier)
            name = test.workload.rpartition(MEMBER)[2]
            found[test._replace(called=_template(test.called))].add(name)
    return found


def _template(called: str) -> str:
    """Return ``*~scaling`` for ``matmul~scaling``, and ``onnx-nodes:*`` for a member: without a corpus, ``*`` matches none."""
    workload, tested_property = split_property(called)
    corpus, member, _ = workload.rpartition(MEMBER)
    return f"{corpus}{member}*{OF}{tested_property}" if tested_property else f"{corpus}{member}*"


def _merged(rows: Mapping[TestId, int], part: str, every: Callable[[TestId], Collection[str]]) -> dict[TestId, int]:
    """Return the rows with one glob for those that differ in one part only. ``every``: all names of this part in their place."""
    names: dict[TestId, set[str]] = defaultdict(set)
    sizes = Counter[TestId]()
    for row, size in rows.items():
        shared = row._replace(**{part: ""})
        names[shared].add(getattr(row, part))
        sizes[shared] += size
    return {
        shared._replace(**{part: glob}): sizes[shared]
        for shared, of in names.items()
        for glob in _globs(of, every(shared))
    }


def _globs(names: Collection[str], every: Collection[str]) -> Iterator[str]:
    """Yield globs that match these names, ``*`` if they are all of several ones."""
    if names == every and len(names) > 1:
        yield "*"
    else:
        yield from braces(names)


def braces(names: Iterable[str]) -> Iterator[str]:
    """Yield globs that match these names: ``{mlp,topk}``."""
    ordered = sorted(names)
    # A pattern with more alternatives is refused.
    for start in range(0, len(ordered), MOST_ALTERNATIVES):
        some = ordered[start : start + MOST_ALTERNATIVES]
        yield some[0] if len(some) == 1 else f"{{{','.join(some)}}}"


def abridged_globs(globs: Sequence[str]) -> list[str]:
    """Return the first globs for people to read, each with few of its names, and the number of the others."""

    def few(found: re.Match[str]) -> str:
        names = found[1].split(",")
        if len(names) <= _NAMES:
            return found[0]
        return f"{{{','.join(names[: _NAMES - 1])},… {len(names) - _NAMES + 1} more}}"

    shown = [re.sub(r"\{(.*?)\}", few, glob) for glob in globs[:_GLOBS]]
    return shown + ([f"… {len(globs) - _GLOBS} more"] if len(globs) > _GLOBS else [])
