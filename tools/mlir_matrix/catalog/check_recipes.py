"""Checks of how the IR moves: frameworks, environments, steps, targets, and whether each pipeline connects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlir_matrix.catalog.catalog import REFERENCE, Entry
from mlir_matrix.catalog.check import Checker
from mlir_matrix.catalog.models import Framework, ParameterValue, Pipeline, Step, StepUse, Target
from mlir_matrix.catalog.source import Key, SourceError, read_text
from mlir_matrix.names import did_you_mean, nearest, printable

#: Keys of a step that say what its tool does: those that a tool must have, those that it may have.
_TOOL_KEYS = {"passes": (("passes",), ("schedule", "patterns")), "check": (("directives",), ())}
_WORKING_KEYS = ("passes", "schedule", "patterns", "directives")
_USE = re.compile(r"\$(?:\{([^{}\n]*)\}?)?")
_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def check(checker: Checker) -> None:
    """Check all recipes and what they lean on."""
    catalog = checker.catalog
    for environment in catalog.environments.values():
        for index, name in enumerate(environment.document.components):
            checker.known(environment, "component", name, catalog.components, "components", index)
    for framework in catalog.frameworks.values():
        _framework(checker, framework)
    for step in catalog.steps.values():
        _step(checker, step)
    for target in catalog.targets.values():
        _target(checker, target)
    for pipeline in catalog.pipelines.values():
        if _steps_known(checker, pipeline):
            _roads(checker, pipeline)


def _framework(checker: Checker, framework: Entry[Framework]) -> None:
    catalog, document = checker.catalog, framework.document
    checker.tool(framework, document.tool)
    checker.known(framework, "environment", document.environment, catalog.environments, "environment")
    for kind, file in document.emits.items():
        checker.known(framework, "kind", kind, catalog.kinds, "emits", kind)
        if file in ("workload.yaml", REFERENCE):
            checker.wrong(framework, f"'{file}' is not a source: every workload has one", "emits", kind)


def _target(checker: Checker, target: Entry[Target]) -> None:
    catalog, document = checker.catalog, target.document
    for index, kind in enumerate(document.accepts):
        checker.known(target, "kind", kind, catalog.kinds, "accepts", index)
    for key in ("linker_environment", "runner_environment"):
        checker.known(target, "environment", getattr(document, key), catalog.environments, key)
    if target.name == "ir":
        checker.wrong(target, "a target cannot be called 'ir': the IR tests of steps are STEP/ir/CASE")


def _step(checker: Checker, step: Entry[Step]) -> None:
    catalog, document = checker.catalog, step.document
    checker.tool(step, document.tool)
    checker.known(step, "environment", document.environment, catalog.environments, "environment")
    for index, kind in enumerate(document.accepts):
        checker.known(step, "kind", kind, catalog.kinds, "accepts", index)
    if document.gives is not None:
        checker.known(step, "kind", document.gives, catalog.kinds, "gives")
    _tool_keys(checker, step)
    named = {name for name in (document.schedule, document.patterns, document.directives) if name is not None}
    for key in ("schedule", "patterns", "directives"):
        name = getattr(document, key)
        if name is not None and name not in step.files:
            checker.wrong(step, f"there is no file '{name}' in the step's folder{did_you_mean(name, step.files)}", key)
    for name in step.files.keys() - named:
        _stray(checker, step, name, {*named, "step.yaml"}, "named by none of 'schedule', 'patterns', 'directives'")
    if document.tool == "passes":
        _parameters(checker, step)


def _stray(checker: Checker, entry: Entry[Any], name: str, right: Iterable[str], why: str) -> None:
    """Add a problem for a file that nothing reads."""
    folder = entry.source.file.rpartition("/")[0]
    near = nearest(name, right)
    checker.problems.add(f"{folder}/{name}", f"is not read: {why}" + (f"; did you mean '{near}'?" if near else ""))


def _tool_keys(checker: Checker, step: Entry[Step]) -> None:
    """A step has the keys that its tool works by, and no others."""
    tool = step.document.tool
    must, may = _TOOL_KEYS.get(tool, ((), ()))
    for key in _WORKING_KEYS:
        given = getattr(step.document, key) is not None
        if given and key not in must and key not in may:
            checker.wrong(step, f"the tool '{tool}' does not take '{key}'", key)
        elif not given and key in must:
            checker.wrong(step, f"the key '{key}' is missing; the tool '{tool}' needs it")
    passes = step.document.passes
    if tool == "passes" and step.document.schedule and passes is not None and "transform-interpreter" not in passes:
        checker.wrong(step, "the schedule would never run: 'passes' has no transform-interpreter", "schedule")


def _parameters(checker: Checker, step: Entry[Step]) -> None:
    """What ``passes`` and the schedule use is declared, and what is declared is used."""
    declared = step.document.parameters
    used: set[str] = set()
    if step.document.passes:
        for name, _ in _uses(step.document.passes):
            used.add(name)
            if problem := _use_problem(name, declared):
                checker.wrong(step, problem, "passes")
    schedule = step.files.get(step.document.schedule or "")
    if schedule is not None:
        shown = f"{step.source.file.rpartition('/')[0]}/{step.document.schedule}"
        try:
            text = read_text(schedule, shown)
        except SourceError as error:
            checker.problems.add(error.file, error.problem, error.place)
            return
        for name, start in _uses(text, braces_only=True):
            used.add(name)
            if problem := _use_problem(name, declared):
                place = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
                checker.problems.add(shown, problem, place)
    if step.document.schedule is not None and schedule is None:
        return  # said already; what it would use is not known
    for name in declared.keys() - used:
        message = f"the parameter '{name}' is not used; write ${{{name}}} where it belongs"
        checker.wrong(step, message, "parameters", name)


def _uses(text: str, *, braces_only: bool = False) -> Iterator[tuple[str, int]]:
    """The parameters that a text uses and where; ``$`` is no character of pass pipelines, but it may be one of MLIR."""
    for found in _USE.finditer(text):
        if found[1] is not None or not braces_only:
            yield (found[1] if found[0].endswith("}") else found[0]) or found[0], found.start()


def _use_problem(name: str, declared: Iterable[str]) -> str | None:
    if name.startswith("$"):
        return f"'{printable(name)}' is not a parameter; write ${{NAME}}"
    if name not in declared:
        return f"the parameter '{printable(name)}' is not declared{did_you_mean(name, declared)}"
    if not (name.isascii() and name.isidentifier()):
        return f"'{name}' cannot be used here: letters, digits and '_', with a letter first"
    return None


def _steps_known(checker: Checker, pipeline: Entry[Pipeline]) -> bool:
    """Whether all kinds and steps of a pipeline exist; also checks the parameters of those that do."""
    catalog = checker.catalog
    good = True
    for kind in pipeline.document.entry:
        good &= checker.known(pipeline, "kind", kind, catalog.kinds, "entry", kind)
    for use, keys in _all_uses(pipeline.document):
        name = _name(use)
        if name in catalog.steps:
            if isinstance(use, StepUse):
                _arguments(checker, pipeline, use, keys)
        elif name in catalog.pipelines:
            checker.wrong(pipeline, f"'{name}' is a pipeline; a pipeline is a list of steps, not of pipelines", *keys)
            good = False
        else:
            good &= checker.known(pipeline, "step", name, catalog.steps, *keys)
    return good


def _all_uses(pipeline: Pipeline) -> Iterator[tuple[str | StepUse, tuple[Key, ...]]]:
    for kind, steps in pipeline.entry.items():
        yield from _with_keys(steps, "entry", kind)
    yield from _with_keys(pipeline.steps, "steps")


def _with_keys(steps: Sequence[str | StepUse], *keys: Key) -> Iterator[tuple[str | StepUse, tuple[Key, ...]]]:
    for index, use in enumerate(steps):
        yield use, (*keys, index)


def _name(use: str | StepUse) -> str:
    return use.step if isinstance(use, StepUse) else use


def _arguments(checker: Checker, pipeline: Entry[Pipeline], use: StepUse, keys: tuple[Key, ...]) -> None:
    declared = checker.catalog.steps[use.step].document.parameters
    for name, value in use.parameters.items():
        place = (*keys, "with", name)
        if name not in declared:
            known = did_you_mean(name, declared) if declared else "; it has none"
            checker.wrong(pipeline, f"step '{use.step}' has no parameter '{name}'{known}", *place)
        elif not _fits(value, declared[name].default):
            from mlir_matrix.catalog.wording import got  # only needed once something is wrong

            wanted = _wanted(declared[name].default)
            shown = got(list(value) if isinstance(value, tuple) else value)
            checker.wrong(pipeline, f"the parameter '{name}' of step '{use.step}' takes {wanted}, got {shown}", *place)


def _fits(value: ParameterValue, default: ParameterValue) -> bool:
    """Whether a value is of the type of the parameter's default. A list fits when each item fits some item of it."""
    if isinstance(default, tuple):
        return isinstance(value, tuple) and all(not default or any(_fits(v, d) for d in default) for v in value)
    if isinstance(default, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is type(default)


def _wanted(default: ParameterValue) -> str:
    if not isinstance(default, tuple):
        return _TYPES[type(default)]
    kinds = dict.fromkeys(_TYPES[type(item)] for item in default)
    return f"a list{' with items ' if kinds else ''}{' or '.join(kinds)} like its default"


def _roads(checker: Checker, pipeline: Entry[Pipeline]) -> None:
    """Each entry's steps and then the shared ones connect, go round no circle, and end where a target runs them."""
    broken: set[tuple[Key, ...]] = set()
    for kind, entry_steps in pipeline.document.entry.items():
        road = [*_with_keys(entry_steps, "entry", kind), *_with_keys(pipeline.document.steps, "steps")]
        end = _follow(checker, pipeline, kind, road, broken)
        if end is not None:
            _ends(checker, pipeline, kind, end)


def _follow(
    checker: Checker,
    pipeline: Entry[Pipeline],
    kind: str,
    road: Iterable[tuple[str | StepUse, tuple[Key, ...]]],
    broken: set[tuple[Key, ...]],
) -> str | None:
    """The kind at a road's end; None, and a problem, where it breaks. ``broken`` has what earlier roads broke at."""
    at, left, entered = kind, set[str](), "in this entry"
    for use, keys in road:
        name = _name(use)
        step = checker.catalog.steps[name].document
        if not checker.catalog.kinds.keys() >= {*step.accepts, step.gives or at}:
            return None  # said already, at the step
        problem = None
        gives = step.gives or at
        if at not in step.accepts:
            takes = " or ".join(step.accepts)
            problem = f"step '{name}' takes {takes}, but {entered} the kind is {at} (entry '{kind}')"
        elif gives in left:
            problem = f"a circle: step '{name}' goes back to the kind {gives}, which the road left (entry '{kind}')"
        if problem:
            if keys not in broken:
                checker.wrong(pipeline, problem, *keys)
            broken.add(keys)
            return None
        if gives != at:
            left.add(at)
        at, entered = gives, f"after '{name}'"
    return at


def _ends(checker: Checker, pipeline: Entry[Pipeline], kind: str, end: str) -> None:
    accepted = {name for target in checker.catalog.targets.values() for name in target.document.accepts}
    if accepted and end not in accepted:
        takes = ", ".join(sorted(accepted))
        checker.wrong(pipeline, f"this road ends with the kind {end}; targets take {takes}", "entry", kind)
