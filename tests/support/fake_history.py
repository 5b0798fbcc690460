"""Histories of which some commits break tests, others mend them, and some cannot be built; nothing of it exists."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlir_matrix.bisect.commits import Commits
from mlir_matrix.environments.source.repository import Repository
from mlir_matrix.integrate.walk import LateError, Probed, Walk


@dataclass
class FakeHistory:
    """Commits 0, 1, … of which some break tests, and others mend them."""

    parents: list[tuple[int, ...]]
    #: Tests and how they behave, by the commit that breaks them.
    culprits: Mapping[int, Mapping[str, str]]
    #: The tests that a commit mends.
    mended: Mapping[int, frozenset[str]] = field(default_factory=dict)
    unbuildable: frozenset[int] = frozenset()
    #: How many commits may be probed.
    most: int = 1 << 30
    probed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broken: list[dict[str, str]] = []
        for commit, parents in enumerate(self.parents):
            inherited: dict[str, str] = {}
            for parent in parents:
                inherited |= self.broken[parent]
            mended = self.mended.get(commit, frozenset())
            kept = {test: how for test, how in inherited.items() if test not in mended}
            self.broken.append({**kept, **self.culprits.get(commit, {})})

    def walk(self, good: int = 0) -> Walk:
        names = tuple(f"{commit:040}" for commit in range(len(self.parents)))
        commits = Commits(
            repository=Repository("", Path()), ids=names, parents=tuple(self.parents), subjects=names,
            good=good, bad=len(names) - 1, first_parent=False,
        )  # fmt: skip
        return Walk(commits=commits, probe=self.probe)

    def probe(self, commit: int) -> Probed:
        if len(self.probed) == self.most:
            raise LateError
        self.probed.append(commit)
        if commit in self.unbuildable:
            return Probed(unbuildable="no")
        return Probed(broken=self.broken[commit])


def a_line(count: int) -> list[tuple[int, ...]]:
    return [(commit - 1,) if commit else () for commit in range(count)]


def with_merges(count: int, draw: random.Random) -> Iterator[tuple[int, ...]]:
    """Yield the parents of commits: short branches beside the line, each merged into it."""
    tip, branch = 0, list[int]()
    yield ()
    for commit in range(1, count):
        if branch and (draw.random() < 0.3 or commit == count - 1):
            yield tip, branch[-1]
            tip, branch = commit, []
        elif branch and draw.random() < 0.5:
            yield (branch[-1],)
            branch.append(commit)
        elif not branch and draw.random() < 0.1 and commit < count - 2:
            yield (tip,)
            branch.append(commit)
        else:
            yield (tip,)
            tip = commit


@dataclass(frozen=True)
class Monorepo:
    """A history with merges, commits that cannot be built, and two culprits, of one test or of two."""

    history: FakeHistory
    culprits: tuple[int, int]

    @property
    def shown(self) -> tuple[int, ...]:
        """The culprits that some commit shows: the newer one may be on a branch that is merged into a broken line."""
        first, second = self.culprits
        is_hidden = "crash" not in self.history.broken[-1].values()
        return (first,) if is_hidden else (first, second)

    def furthest(self, line: list[int]) -> int:
        """Return the last green commit of a line."""
        greens = [each for each in line if each not in self.history.unbuildable and not self.history.broken[each]]
        return greens[-1]


def make_monorepo(seed: int, count: int, unbuildable: float) -> Monorepo:
    """Make a history of ``count`` commits of which a share cannot be built."""
    draw = random.Random(seed)
    parents = list(with_merges(count, draw))
    first, second = sorted(draw.sample(range(50, count - 50), 2))
    failing = {each for each in range(1, count - 1) if draw.random() < unbuildable} - {first, second}
    tests = draw.choice([("a", "b"), ("a", "a")])
    culprits = {first: {tests[0]: "wrong"}, second: {tests[1]: "crash"}}
    return Monorepo(FakeHistory(parents, culprits, unbuildable=frozenset(failing)), (first, second))
