"""Make the axis of a bisection from ``--good`` and ``--bad``, and find the tests at its points.

These are releases of a component, commits of its repository, or sets of pins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import split_pins, with_pins
from mlir_matrix.bisect.commit_releases import CommitSource, with_commits
from mlir_matrix.bisect.commits import SHORT, Commits
from mlir_matrix.bisect.pin_driver import MovedPins
from mlir_matrix.bisect.prober import TestsAt
from mlir_matrix.bisect.releases import Axis, as_glob, find_place
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.command_lines import slots
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose

#: How much more likely a commit is that touches the paths of ``--path``.
_LIKELY = 20.0


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The subject of a bisection: an axis, its tests, and the tests at points."""

    axis: Axis
    tests: Sequence[str]
    tests_at: TestsAt
    #: A function that returns the point for a name.
    place: Callable[[str, str], int]
    #: A weight for each point.
    prior: Sequence[float] | None = None
    #: How many points can be made at once; None: as many as jobs.
    at_once: int | None = None
    pins: MovedPins | None = None


def of_releases(session: Session, axis: Axis, tests: Mapping[str, Sequence[Test]]) -> Ground:
    """Return the ground of releases; ``tests`` at all of them."""

    def tests_at(points: Sequence[int]) -> tuple[Session, dict[str, dict[int, Test]]]:
        return session, {test: {point: each[point] for point in points} for test, each in tests.items()}

    return Ground(
        axis=axis,
        tests=list(tests),
        tests_at=tests_at,
        place=lambda name, what: find_place(session.catalog, axis, name, what),
    )


@dataclass(frozen=True)
class _TestsByCommit:
    """The tests at commits. Each commit is a release that is built from it."""

    session: Session
    source: CommitSource
    commits: Commits
    names: Sequence[str]

    def __call__(self, points: Sequence[int]) -> tuple[Session, dict[str, dict[int, Test]]]:
        ids = [self.commits.ids[point] for point in points]
        session, releases = with_commits(self.session, self.source, self.commits.repository, ids)
        found: dict[str, dict[int, Test]] = {}
        for point, release in zip(points, releases, strict=True):
            globs = [with_pins(as_glob(name), f"{self.source.component}={release}") for name in self.names]
            for test in choose(session.catalog, globs, pins=session.pins).tests():
                found.setdefault(split_pins(test.id)[0], {})[point] = test
        return session, found


def of_commits(
    session: Session, source: CommitSource, commits: Commits, names: Sequence[str], *, fixed: bool, paths: Sequence[str]
) -> Ground:
    """Return the ground of commits; ``fixed``: the good end is the newer one. Raise UsageError if no test can run."""
    older, newer = commits.good, commits.bad
    good, bad = (newer, older) if fixed else (older, newer)
    axis = Axis(
        component=source.component,
        names=tuple(each[:SHORT] for each in commits.ids),
        noun="commit",
        parents=commits.parents,
        titles=commits.subjects,
        of_passes=commits.of_passes,
        good=good,
        bad=bad,
    )
    tests_at = _TestsByCommit(session, source, commits, names)
    at_ends = tests_at([good, bad])[1]
    possible = [test for test, each in at_ends.items() if any(one.selected for one in each.values())]
    if not possible:
        reasons = {one.reason for each in at_ends.values() for one in each.values()}
        why = "; ".join(sorted(reasons)[:3]) or "there is no such test"
        raise UsageError(f"{' '.join(names)} can run with no commit of {source.component}: {why}")
    likely = commits.touching(paths) if paths else frozenset()
    if paths and not likely:
        raise UsageError(f"--path {' '.join(paths)}: no commit between the ends touches it")

    def place(name: str, what: str) -> int:
        commit = commits.repository.commit(name)
        if commit not in commits.ids:
            raise UsageError(f"{what} {name}: not between the ends")
        return commits.ids.index(commit)

    return Ground(
        axis=axis,
        tests=possible,
        tests_at=tests_at,
        place=place,
        prior=[_LIKELY if each in likely else 1.0 for each in range(len(axis))] if likely else None,
        at_once=slots(),
    )


def of_pins(session: Session, pins: MovedPins, tests: Sequence[str]) -> Ground:
    """Return the ground of sets of pins."""

    def test_at(test: str, point: int) -> Test:
        words = ",".join(f"{name}={release}" for name, release in pins.pins(point).items())
        chosen = choose(session.catalog, [with_pins(as_glob(test), words)], pins=session.pins)
        return next(iter(chosen.tests()))

    def no_place(name: str, what: str) -> int:
        raise UsageError(f"{what} {name}: a bisection of pins has sets of them, which are not skipped")

    return Ground(
        axis=pins.axis(),
        tests=tests,
        tests_at=lambda points: (session, {test: {point: test_at(test, point) for point in points} for test in tests}),
        place=no_place,
        pins=pins,
    )
