"""Make an axis of the releases of a component, and find the tests at each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import (
    IR_TARGET,
    OF,
    PINS_MARK,
    check_known,
    is_glob,
    split_pins,
    test_glob,
    with_pins,
)
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.base import used_steps
from mlir_matrix.catalog.pins import find_release
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose, is_suite


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Releases or commits of a component, the oldest first."""

    component: str
    #: The releases; for commits, the releases that are built from them.
    names: tuple[str, ...]
    noun: str = "release"
    #: The indices of the parents of each point; None for a line.
    parents: Sequence[Sequence[int]] | None = None
    #: Text for users beside the name: the subject of a commit.
    titles: tuple[str, ...] = ()
    #: The indices of ``--good`` and ``--bad``, if given.
    good: int | None = None
    bad: int | None = None
    #: Releases that are left out because they come as Python bindings, and others as programs.
    left_out: tuple[str, ...] = field(default=())
    #: For commits: a function that returns those that change files of passes.
    of_passes: Callable[[Collection[str]], frozenset[int]] = field(default=lambda _: frozenset(), repr=False)

    def __len__(self) -> int:
        return len(self.names)

    def labels(self) -> list[str]:
        """Return the shortest names that distinguish the points."""
        if self.noun != "release":
            return list(self.names)
        names = [release.partition("+")[0].split(".") for release in self.names]
        lengths = [
            next(
                (n for n in range(1, len(name)) if sum(other[:n] == name[:n] for other in names) == 1),
                len(name),
            )
            for name in names
        ]
        labels = [".".join(name[:length]) for name, length in zip(names, lengths, strict=True)]
        return labels if len({*labels}) == len(labels) else list(self.names)


def point_name(axis: Axis, point: int) -> str:
    """Return the name of a point for messages: a release, or a commit with its subject."""
    return f"{axis.names[point]} {axis.titles[point]}" if axis.titles else axis.names[point]


def make_axis(
    catalog: Catalog, component: str, *, good: str = "", bad: str = "", bindings: bool = False, fixed: bool = False
) -> Axis:
    """Return the releases from one end to the other, by default all; ``fixed``: the good one is the newer. Raise UsageError.

    Without ``bindings``, releases that come as Python bindings are left out if others come as programs: they generate code for
    other CPU features.
    """
    check_known("component", [component], catalog.components, "--component: ")
    entry = catalog.components[component]
    releases = entry.document.releases
    named = {which: find_release(entry, name).release for which, name in (("good", good), ("bad", bad)) if name}
    ends = list(named.values())
    if len(ends) == 2 and ends[0] == ends[1]:
        raise UsageError(f"--good {good} and --bad {bad} are the same release, {component} {ends[0]}; name two")
    mixed = any(each.bindings for each in releases) and not all(each.bindings for each in releases)
    usable = [each.release for each in releases if bindings or not (mixed and each.bindings) or each.release in ends]
    places = sorted(map(usable.index, ends))
    if len(ends) == 2:
        usable = usable[places[0] : places[1] + 1]
    elif ends:
        usable = usable[places[0] :] if bool(good) != fixed else usable[: places[0] + 1]
    if len(usable) < 2:
        raise UsageError(f"{component} has {len(usable)} release to bisect; it takes two or more")
    every = [each.release for each in releases]
    between = releases[every.index(usable[0]) : every.index(usable[-1])]
    left_out = tuple(each.release for each in between if each.bindings and each.release not in usable and mixed)
    at = {which: usable.index(release) for which, release in named.items()}
    return Axis(component=component, names=tuple(usable), left_out=left_out, good=at.get("good"), bad=at.get("bad"))


def find_place(catalog: Catalog, axis: Axis, name: str, what: str) -> int:
    """Return the index of a release. Raise UsageError if it is not on the axis."""
    found = name if name in axis.names else find_release(catalog.components[axis.component], name).release
    if found not in axis.names:
        raise UsageError(f"{what} {name}: not between {axis.names[0]} and {axis.names[-1]}")
    return axis.names.index(found)


def as_glob(name: str) -> str:
    """Return a glob that matches only one test. A named test must be able to run, but tests that a glob matches need not."""
    return name if is_glob(name) else f"{name[:-1]}[{name[-1:]}]"


def default_component(catalog: Catalog, tests: Sequence[str]) -> str:
    """Return the component to bisect: the compiler of the tests' steps that has the most releases. Raise UsageError."""
    if suites := [test for test in tests if is_suite(test)]:
        raise UsageError(f"{suites[0]}: a bisection takes tests, not suites, e.g. 'mlir/math-poly/x86_64/*'")
    found: dict[str, int] = {}
    for step in chain.from_iterable(_steps(catalog, test) for test in tests):
        for name in catalog.environments[catalog.steps[step].document.environment].document.components:
            document = catalog.components[name].document
            if document.tools:
                found[name] = len(document.releases)
    if not found:
        choose(catalog, tests)  # raises UsageError for unknown names
        raise UsageError(f"no compiler to bisect in the steps of {' '.join(tests)}; name one: --component COMPONENT")
    return max(sorted(found), key=lambda name: found[name])


def _steps(catalog: Catalog, test: str) -> Iterator[str]:
    """Yield the steps of a test, or of all tests that a glob may match."""
    for _, pipeline, target, _ in test_glob(test).segments:
        if target.matches(IR_TARGET):
            yield from filter(pipeline.matches, catalog.steps)
        for name in filter(pipeline.matches, catalog.pipelines):
            document = catalog.pipelines[name].document
            yield from (use.name for kind in document.entry for use in document.route(kind))
        for name in filter(target.matches, catalog.targets):
            yield from (use.name for use in used_steps(catalog.targets[name].document.codegen))


def check_names(names: Sequence[str]) -> None:
    """Raise UsageError for names of tests that cannot be bisected."""
    for name in names:
        if PINS_MARK in name:
            raise UsageError(f"{name}: a bisection chooses the releases; leave out what follows the '@'")
        if OF in name:
            raise UsageError(f"{name}: tests of properties are not bisected; name tests without '{OF}'")


def tests_on(session: Session, names: Sequence[str], axis: Axis) -> dict[str, list[Test]]:
    """Return the tests at each release, oldest first, by the identifier without pins. Raise UsageError."""
    check_names(names)
    found: dict[str, dict[str, Test]] = {}
    globs = [with_pins(name, f"{axis.component}=*") for name in names]
    for test in choose(session.catalog, globs, pins=session.pins).tests():
        release = find_release(session.catalog.components[axis.component], test.pins.partition("=")[2]).release
        if release in axis.names:
            found.setdefault(split_pins(test.id)[0], {})[release] = test
    complete = {test: [by[release] for release in axis.names] for test, by in found.items()}
    possible = {test: each for test, each in complete.items() if any(one.selected for one in each)}
    if not possible:
        reasons = {each.reason for tests in complete.values() for each in tests}
        why = "; ".join(sorted(reasons)[:3]) or "there is no such test"
        raise UsageError(f"{' '.join(names)} can run at no {axis.noun}: {why}")
    return possible
