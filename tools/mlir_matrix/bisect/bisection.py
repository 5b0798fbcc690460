"""Make the result of a bisection: behaviours, changes, and the effect of each change on the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from string import ascii_uppercase
from typing import Literal

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.base.names import with_pins
from mlir_matrix.bisect.difference import StepDifference, first_difference
from mlir_matrix.bisect.driver import ChangeInterval, FoundChange, SearchDriver, word
from mlir_matrix.bisect.observations import Observation, Point
from mlir_matrix.bisect.outputs import step_of
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.pins import release_of
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.repeats import unstable
from mlir_matrix.results.reproducer import Commands, commands_of, pass_of, passes_of
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import Signature

#: The most candidates that a report lists.
_LISTED = 50


@dataclass(frozen=True, kw_only=True)
class ExplainedChange:
    """A change of behaviour, with the first step whose output differs, and the differences of the sources."""

    change: ChangeInterval[frozenset[Signature]]
    difference: StepDifference | None
    #: A page with the commits between the releases; empty if their sources are not known.
    commits: str
    #: The points that may have made the change, the most likely first, and the probability that one of them did.
    candidates: Sequence[int] = ()
    confidence: float = 1.0
    #: The arguments of ``matrix bisect`` that search the commits between two releases; empty if none can be built.
    descend: Sequence[str] = ()
    #: The candidates that change files of the passes whose IR differs.
    marked: frozenset[int] = frozenset()
    #: Steps that gave different outputs for the same input, at one of the points.
    unstable: Sequence[str] = ()
    #: The pass or the step that fails, or after which the IR differs; empty if none is known.
    guilty: str = ""

    @property
    def word(self) -> Literal["broke", "fixed", "differs"]:
        return word(self.change.was, self.change.becomes)


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """The result for one test."""

    test: str
    axis: Axis
    #: The observed points, in the order of the axis.
    points: Sequence[Point]
    changes: Sequence[ExplainedChange]
    #: The commands at the point that ``shown`` returns.
    commands: Commands = field(default_factory=lambda: Commands(steps={}, files={}))
    #: The nearest point where the test passes, and the commands there; None without such a point.
    passing: tuple[int, Commands] | None = None
    #: The arguments of ``matrix run`` that run the test there; empty for a commit, whose release is in no file.
    again: Sequence[str] = ()
    #: Why a search has no answer, or one that does not explain all observations.
    problem: str = ""

    @property
    def behaviours(self) -> dict[Signature, str]:
        """Return the behaviours in the order of their first points, with a letter for each."""
        seen = dict.fromkeys(each for point in self.points for each in point.behaviours)
        return {each: _letter(number) for number, each in enumerate(seen)}

    def letters(self, known: frozenset[Signature]) -> str:
        """Return the letters of behaviours: ``A``, or ``A/B`` where a test is flaky."""
        return "/".join(sorted(self.behaviours[each] for each in known))

    def at(self, index: int) -> Point:
        """Return an observed point."""
        return next(point for point in self.points if point.index == index)


def shown(points: Sequence[Point]) -> Observation | None:
    """Return the observation that a report repeats: the newest failure, else the newest known one."""
    known = [point.shown for point in reversed(points) if point.known]
    return next((each for each in known if each.signature and not each.signature.passes), known[0] if known else None)


def _passing(points: Sequence[Point], failing: Observation | None) -> Observation | None:
    """Return the observation of a pass that is nearest to a failure."""
    if failing is None or failing.signature is None or failing.signature.passes:
        return None
    passes = [point for point in points if point.known and all(each.passes for each in point.known)]
    nearest = min(passes, key=lambda point: abs(point.index - failing.point), default=None)
    return nearest.shown if nearest else None


def _letter(number: int) -> str:
    return ascii_uppercase[number] if number < len(ascii_uppercase) else f"Z{number}"


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Options for the commands in a report."""

    #: Of ``matrix run`` and of ``matrix bisect``.
    run: Sequence[str] = ()
    bisect: Sequence[str] = ()


def explain(
    catalog: Catalog, driver: SearchDriver, read: Callable[[str], bytes], repeat: Repeat
) -> Iterator[Bisection]:
    """Return the result of each test."""
    observations, axis, done = driver.prober.observations, driver.axis, driver.prober.done
    found = {test: driver.changes(test) for test in observations.tests}
    repeated = {test: shown(observations.points(test)) for test in found}
    passing = {test: _passing(observations.points(test), chosen) for test, chosen in repeated.items()}
    wanted = {
        test: {point for each in of for point in (each.change.before, each.change.after)} for test, of in found.items()
    }
    for test, chosen in (*repeated.items(), *passing.items()):
        wanted[test] |= {chosen.point} if chosen else set()
    flaky = {test: {each.index for each in observations.points(test) if len(each.behaviours) > 1} for test in found}
    for test, points in flaky.items():
        wanted[test] |= points
    plan = driver.prober.plan({test: sorted(points) for test, points in wanted.items()})

    names = {(test, each.index): each.shown.result.id for test in found for each in observations.points(test)}
    ends = [((test, each.change.before), (test, each.change.after)) for test, of in found.items() for each in of]
    places = {names[place]: place[1] for pair in ends for place in pair}
    prints = driver.prober.prints(plan, [(names[before], names[after]) for before, after in ends], places)
    listed, changing = driver.prober.listings(plan, places), unstable(plan, driver.prober.made)

    def explained(test: str, result: FoundChange) -> ExplainedChange:
        change = result.change
        before, after = names[test, change.before], names[test, change.after]
        last = step_of(plan, after, driver.prober.by)
        difference = first_difference(plan, done, (before, after), read, prints, last)
        if difference is not None and difference.step:
            closer = first_difference(*listed, (before, after), read, prints, last)
            difference = closer if closer and closer.step else difference
        candidates = result.answer.candidates[:_LISTED]
        step = difference.step if difference and len(candidates) > 1 else ""
        # If the compiler is flaky, the points next to the change may have passed by chance.
        varying = [
            changing.get(names[test, point], ()) for point in (change.before, change.after, *sorted(flaky[test]))
        ]
        failing = observations.at(test, change.before if word(change.was, change.becomes) == "fixed" else change.after)
        return ExplainedChange(
            change=change,
            difference=difference,
            unstable=list(dict.fromkeys(chain.from_iterable(varying))),
            commits=_commits(catalog, axis, change),
            descend=_descend(catalog, axis, test, change, repeat),
            candidates=candidates,
            confidence=result.answer.confidence,
            marked=axis.of_passes(passes_of(plan, done, after, step)) & set(candidates) if step else frozenset(),
            guilty=_guilty(plan, failing.shown.result, difference) if failing else "",
        )

    def commands_at(seen: Observation | None, until: str = "") -> Commands:
        return commands_of(catalog, plan, done, seen.result.id if seen else "", read, until=until)

    for test, changes in found.items():
        chosen, passed = repeated[test], passing[test]
        failing_step = str(chosen.result.step["name"]) if chosen and chosen.result.step else ""
        every = [explained(test, each) for each in changes]
        # Observations have the text of each release. Only the comparison shows which texts differ only in spelling.
        kept = [each for each in every if each.difference or driver.prober.by.kind != "ir"]
        spelt = "the IR is the same: releases only spell it differently" if len(kept) < len(every) else ""
        yield Bisection(
            test=test,
            axis=axis,
            points=observations.points(test),
            changes=kept,
            commands=commands_at(chosen),
            passing=(passed.point, commands_at(passed, failing_step)) if passed else None,
            again=_again(axis, chosen, repeat) if chosen else (),
            problem=driver.problems.get(test, "" if kept else spelt),
        )


def _guilty(plan: PlannedTests, failing: TestResult, difference: StepDifference | None) -> str:
    decided = failing.step is not None and failing.stage != Stage.JUDGE
    step = str(failing.step["name"]) if failing.step and decided else difference.step if difference else ""
    return pass_of(plan, failing.id, step) or step


def _again(axis: Axis, chosen: Observation, repeat: Repeat) -> list[str]:
    if axis.noun == "commit":
        return []
    # Name the release in full: a later release may take over the short name in the result's identifier.
    pins = f"{axis.component}={axis.names[chosen.point]}"
    name = with_pins(chosen.test, pins) if axis.noun == "release" else chosen.result.id
    return [*repeat.run, name]


def _sources(catalog: Catalog, axis: Axis, change: ChangeInterval[frozenset[Signature]]) -> tuple[str, str] | None:
    """Return the commits of two releases, if these are known."""
    if axis.noun != "release":
        return None
    entry = catalog.components[axis.component]
    before, after = (release_of(entry, axis.names[point]).commit for point in (change.before, change.after))
    return (before, after) if before and after else None


def _commits(catalog: Catalog, axis: Axis, change: ChangeInterval[frozenset[Signature]]) -> str:
    """Return the page that compares the sources of two releases, if these are on GitHub."""
    found = _sources(catalog, axis, change)
    link = (catalog.components[axis.component].document.link or "") if found else ""
    return f"{link}/compare/{'...'.join(found)}" if found and link.startswith("https://github.com/") else ""


def _descend(
    catalog: Catalog, axis: Axis, test: str, change: ChangeInterval[frozenset[Signature]], repeat: Repeat
) -> list[str]:
    found = _sources(catalog, axis, change)
    if found is None or not catalog.components[axis.component].document.build:
        return []
    fixed = word(change.was, change.becomes) == "fixed"
    ends = (
        ["--find", "fixed", "--bad", found[0], "--good", found[1]] if fixed else ["--good", found[0], "--bad", found[1]]
    )
    return [test, *repeat.bisect, "--component", axis.component, *ends]
