"""Say in words what is known of a change of behaviour."""

from __future__ import annotations

from collections import Counter

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.text import counted, shortened
from mlir_matrix.bisect.bisection import Bisection, ExplainedChange, shown
from mlir_matrix.bisect.observations import Point
from mlir_matrix.bisect.releases import Axis, point_name
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import Signature

_RUNS_DIFFER = "all steps give the same; the difference is in what ran"
#: What is more probable is not called uncertain.
_CERTAIN = 0.9995
#: Characters of a reason in a title.
_REASON = 100


def headline(found: Bisection, explained: ExplainedChange, component: str = "") -> str:
    """Say what changed and at which point, or between which points where several may have changed it, and how sure that is."""
    change, axis, candidates = explained.change, found.axis, explained.candidates
    name = f"{component} " if component and axis.noun != "pin set" else ""
    where = f"between {name}{axis.names[change.before]} and {axis.names[change.after]}"
    if len(candidates) == 1:
        where = f"in {name}{point_name(axis, candidates[0])}"
    certain = "" if explained.confidence >= _CERTAIN else f" ({explained.confidence:.0%})"
    return f"{explained.word} {where}{certain}"


def among(found: Bisection, explained: ExplainedChange) -> str:
    """Say how many points may have made a change, and of how many of these nothing is known; nothing for a single one."""
    candidates = explained.candidates
    if len(candidates) == 1:
        return ""
    unknown = sum(point.index in candidates and not point.known for point in found.points)
    return f"in one of {len(candidates)}, " + (
        f"{unknown} of them unknown" if unknown else "which cannot be told apart"
    )


def unchanged(found: Bisection, explained: ExplainedChange) -> str:
    """Say which steps give the same at both points of a change, or why none is known to give something else."""
    if explained.difference:
        return f"the steps were not compared: {explained.difference.problem}"
    if explained.unstable:
        return _unstable(explained)
    results = [found.at(point).shown.result for point in (explained.change.before, explained.change.after)]
    steps = sorted({str(each.step["name"]) for each in results if each.step and each.stage != Stage.JUDGE})
    if len(steps) > 1:
        return f"they fail at different steps, {' and '.join(steps)}; what both have given before is the same"
    return f"all steps before {steps[0]} give the same" if steps else _RUNS_DIFFER


def scaled(found: Bisection) -> str:
    """Say which numbers of a program were made smaller for a test; nothing if none was."""
    return next((point.shown.result.scaled for point in reversed(found.points) if point.shown.result.scaled), "")


def sentence(text: str) -> str:
    """Return what is said in a line as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."


def bug(found: Bisection) -> str:
    """Say what is wrong, of the failure that the report repeats: what crashes, fails or gives which numbers; else nothing."""
    failing = shown(found.points)
    if failing is None or failing.signature is None or failing.signature.passes:
        return ""
    made = [each.guilty for each in found.changes if failing.signature in each.change.becomes]
    ended = [each.guilty for each in found.changes if failing.signature in each.change.was]
    guilty = next(filter(None, made + ended), "")
    result = failing.result
    if result.outcome == Outcome.MISMATCH:
        return f"wrong numbers{f' after {guilty}' if guilty else ''}{_numbers(result)}"
    who = "the kernel" if result.stage == Stage.RUN else guilty or str(result.stage)
    if result.outcome == Outcome.TIMED_OUT:
        return f"{who} does not end"
    if result.signal:
        return f"{who} crashes by {result.signal}{f' in {result.frame}' if result.frame else ''}"
    step = f"{result.step['name']}: " if result.step else ""
    return f"{who}: {shortened(result.reason.removeprefix(step), _REASON)}"


def _numbers(result: TestResult) -> str:
    """Say which number is the most wrong."""
    outputs = result.verdict["outputs"] if result.verdict else ()
    for output in outputs:
        for worst in (output.get("worst") or ())[:1]:
            actual, expected = (float(worst[side]) for side in ("actual", "expected"))
            return f", {output['name']}{worst['index'] or ''} is {actual:.6g} instead of {expected:.6g}"
    return ""


def flaky(found: Bisection, explained: ExplainedChange) -> str:
    """Say how often the new behaviour was seen, where a point with the change showed another one, too, and which step varies."""
    new = explained.change.becomes - explained.change.was
    points = _with_change(found, explained, new)
    if all(len(point.behaviours) < 2 for point in points):
        # What such a step gives differs without a change, too.
        return _unstable(explained) if explained.difference and explained.unstable else ""
    seen = sum((Counter(point.behaviours) for point in points), Counter[Signature]())
    shows = sorted((found.behaviours[each], seen[each]) for each in new)
    words = " and ".join(f"{count} {'shows' if count == 1 else 'show'} {letter}" for letter, count in shows)
    compiler = f"; {_unstable(explained)}" if explained.unstable else ""
    return f"flaky: of {counted(seen.total(), 'run')} with the change, {words}{compiler}"


def _unstable(explained: ExplainedChange) -> str:
    return f"in repeated runs, {' and '.join(explained.unstable)} gave different outputs for the same input"


def _with_change(found: Bisection, explained: ExplainedChange, new: frozenset[Signature]) -> list[Point]:
    """Return the points that have a change, up to the next one and the last point that shows the new behaviour."""
    change, axis = explained.change, found.axis
    first = explained.candidates[0] if len(explained.candidates) == 1 else change.after
    ends = [each.change.before for each in found.changes if each.change.before >= change.after]
    inside = _descendants(axis, first)
    points = [each for each in found.points if each.index in inside and each.index <= min(ends, default=len(axis))]
    last = max((each.index for each in points if new & each.behaviours.keys()), default=-1)
    return [each for each in points if each.index <= last]


def _descendants(axis: Axis, first: int) -> set[int]:
    """Return a point and those after it; of sets of pins, which have no order, itself."""
    found = {first}
    for point in range(first + 1, len(axis) if axis.noun != "pin set" else 0):
        if axis.parents is None or found.intersection(axis.parents[point]):
            found.add(point)
    return found
