"""Check frameworks, steps and targets, and that the steps of each pipeline connect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlir_matrix.catalog.catalog import REFERENCE, Entry
from mlir_matrix.catalog.messages import got
from mlir_matrix.catalog.models.base import Framework, ParameterValue, Pipeline, Step, StepUse, Target
from mlir_matrix.catalog.models.toolchains import Component
from mlir_matrix.catalog.yaml_reader import Key, SourceError, read_text
from mlir_matrix.names import did_you_mean, nearest, printable
from mlir_matrix.validation.checker import Checker

#: The tools of frameworks.
_IMPORTER = re.compile(r"import_\w+")
#: What every action has of its own below /dev.
_OWN_DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr")
_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}

#: The tools of steps, with the keys that say what a tool does: those that it must have, those that it may have.
_TOOL_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "passes": (("passes",), ("schedule", "patterns", "backend")),
    "check": (("directives",), ()),
    "object": ((), ("backend",)),
}
_WORKING_KEYS = ("passes", "schedule", "patterns", "directives", "backend")
_USE = re.compile(r"\$(?:\{([^{}\n]*)\}?)?")


def check(checker: Checker) -> None:
    """Check frameworks, steps, targets and pipelines."""
    catalog = checker.catalog
    for framework in catalog.frameworks.values():
        _framework(checker, framework)
    for step in catalog.steps.values():
        _step(checker, step)
    for target in catalog.targets.values():
        _target(checker, target)
    for pipeline in catalog.pipelines.values():
        if _steps_known(checker, pipeline):
            _routes(checker, pipeline)


def _framework(checker: Checker, framework: Entry[Framework]) -> None:
    catalog, document = checker.catalog, framework.document
    checker.tool(framework, "framework", _IMPORTER.fullmatch)
    checker.known(framework, "environment", document.environment, catalog.environments, "environment")
    for kind, file in document.emits.items():
        checker.known(framework, "kind", kind, catalog.kinds, "emits", kind)
        if file in ("workload.yaml", REFERENCE):
            checker.wrong(framework, f"'{file}' is not a source: every workload has one", "emits", kind)


def _step(checker: Checker, step: Entry[Step]) -> None:
    """Check one step."""
    catalog, document = checker.catalog, step.document
    if checker.tool(step, "step", _TOOL_KEYS.__contains__):
        _tool_keys(checker, step)
    checker.known(step, "environment", document.environment, catalog.environments, "environment")
    for index, kind in enumerate(document.accepts):
        checker.known(step, "kind", kind, catalog.kinds, "accepts", index)
    if document.gives is not None:
        checker.known(step, "kind", document.gives, catalog.kinds, "gives")
    named = dict(_files(document))
    for keys, name in named.items():
        if name not in step.files:
            message = f"there is no file '{name}' in the step's folder{did_you_mean(name, step.files)}"
            checker.wrong(step, message, *keys)
    for name in step.files.keys() - set(named.values()):
        _stray(
            checker, step, name, {*named.values(), "step.yaml"}, "named by none of 'schedule', 'patterns', 'directives'"
        )
    if document.tool == "passes":
        _parameters(checker, step)


def _files(step: Step) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Return the files that a step names, with their positions."""
    for key in ("schedule", "patterns", "directives"):
        if (name := getattr(step, key)) is not None:
            yield (key,), name
    for index, variant in enumerate(step.variants):
        for key in ("schedule", "patterns"):
            if (name := getattr(variant, key)) is not None:
                yield ("variants", index, key), name


def _stray(checker: Checker, entry: Entry[Any], name: str, right: Iterable[str], why: str) -> None:
    """Add a problem for a file that nothing reads."""
    folder = entry.source.file.rpartition("/")[0]
    near = nearest(name, right)
    checker.problems.add(f"{folder}/{name}", f"is not read: {why}" + (f"; did you mean '{near}'?" if near else ""))


def _tool_keys(checker: Checker, step: Entry[Step]) -> None:
    """Check that a step has the keys that its tool needs, and no others."""
    tool = step.document.tool
    must, may = _TOOL_KEYS[tool]
    for key in _WORKING_KEYS:
        given = getattr(step.document, key) is not None or _in_variants(step.document, key)
        if given and key not in must and key not in may:
            checker.wrong(step, f"the tool '{tool}' does not take '{key}'", key)
        elif not given and key in must:
            checker.wrong(step, f"the key '{key}' is missing; the tool '{tool}' needs it")
    if tool != "passes":
        if step.document.variants:
            checker.wrong(step, f"the tool '{tool}' takes no variants", "variants")
        return
    for keys, passes, schedule in _forms(step.document):
        if schedule and passes is not None and "transform-interpreter" not in passes:
            message = "the schedule would never run: 'passes' has no transform-interpreter"
            checker.wrong(step, message, *keys, *(() if keys else ("schedule",)))


def _in_variants(step: Step, key: str) -> bool:
    """Whether every variant gives a key, so that the step itself need not."""
    return bool(step.variants) and all(getattr(variant, key, None) is not None for variant in step.variants)


def _forms(step: Step) -> Iterator[tuple[tuple[Key, ...], str | None, str | None]]:
    """Return the passes and the schedule that run together: the step's own, or those of each variant."""
    if not step.variants:
        yield (), step.passes, step.schedule
    for index, variant in enumerate(step.variants):
        yield ("variants", index), variant.passes or step.passes, variant.schedule or step.schedule


def _parameters(checker: Checker, step: Entry[Step]) -> None:
    """Check that used parameters are declared and that declared ones are used."""
    declared = step.document.parameters
    used: set[str] = set()
    for keys, passes in _passes(step.document):
        for name, _ in _uses(passes):
            used.add(name)
            if problem := _use_problem(name, declared):
                checker.wrong(step, problem, *keys)
    for file in {name for keys, name in _files(step.document) if keys[-1] == "schedule"}:
        if file not in step.files:
            return  # said already; what it would use is not known
        shown = f"{step.source.file.rpartition('/')[0]}/{file}"
        try:
            text = read_text(step.files[file], shown)
        except SourceError as error:
            checker.problems.add(error.file, error.problem, error.place)
            return
        for name, start in _uses(text, braces_only=True):
            used.add(name)
            if problem := _use_problem(name, declared):
                place = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
                checker.problems.add(shown, problem, place)
    for name in declared.keys() - used:
        message = f"the parameter '{name}' is not used; write ${{{name}}} where it belongs"
        checker.wrong(step, message, "parameters", name)


def _passes(step: Step) -> Iterator[tuple[tuple[Key, ...], str]]:
    if step.passes:
        yield ("passes",), step.passes
    for index, variant in enumerate(step.variants):
        if variant.passes:
            yield ("variants", index, "passes"), variant.passes


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


def _target(checker: Checker, target: Entry[Target]) -> None:
    catalog, document = checker.catalog, target.document
    for index, kind in enumerate(document.accepts):
        checker.known(target, "kind", kind, catalog.kinds, "accepts", index)
    for key in ("linker_environment", "runner_environment"):
        checker.known(target, "environment", getattr(document, key), catalog.environments, key)
    if document.runner:
        _runner(checker, target, document.runner[0])
    if _uses_known(checker, target, _with_keys(document.codegen, "codegen")) and document.codegen:
        route = [*_with_keys(document.codegen, "codegen")]
        first = catalog.steps[_name(route[0][0])].document.accepts[0]
        end = _follow(checker, target, first, route, set())
        if end is not None and end not in document.accepts:
            takes = " or ".join(document.accepts)
            checker.wrong(target, f"these steps end with the kind {end}; the target takes {takes}", "codegen")
    for index, device in enumerate(document.devices):
        if (name := device.split("/")[2]) in _OWN_DEVICES:
            checker.wrong(target, f"every action has a /dev/{name} of its own; leave it out", "devices", index)
    if target.name == "ir":
        checker.wrong(target, "a target cannot be called 'ir': the IR tests of steps are STEP/ir/CASE")


def _runner(checker: Checker, target: Entry[Target], program: str) -> None:
    """Check that the target's environment has the program that runs kernels: else every test is run-failed."""
    if target.document.tool == "run_jit":
        checker.wrong(target, "the tool 'run_jit' takes no 'runner': MLIR's own runner calls the kernel", "runner")
        return
    environment = checker.catalog.environments.get(target.document.runner_environment)
    if environment is None:
        return  # said already
    components = (checker.catalog.components.get(name) for name in environment.document.components)
    programs = {program for component in components if component for program in _programs(component.document)}
    if program not in programs:
        known = did_you_mean(program, programs) if programs else "; it has none"
        checker.wrong(
            target, f"environment '{environment.name}' has no program '{printable(program)}'{known}", "runner", 0
        )


def _programs(component: Component) -> Iterator[str]:
    """Return the programs of a component; for programs of the machine, also those that a release names."""
    yield from component.tools
    for release in component.releases:
        if (release.provider or component.provider) == "host":
            yield from release.programs or component.programs


def _steps_known(checker: Checker, pipeline: Entry[Pipeline]) -> bool:
    """Return whether all kinds and steps of a pipeline exist; check the parameters of those that do."""
    good = True
    for kind in pipeline.document.entry:
        good &= checker.known(pipeline, "kind", kind, checker.catalog.kinds, "entry", kind)
    _codegen_values(checker, pipeline)
    return _uses_known(checker, pipeline, _all_uses(pipeline.document)) and good


def _uses_known(
    checker: Checker, entry: Entry[Pipeline] | Entry[Target], uses: Iterable[tuple[str | StepUse, tuple[Key, ...]]]
) -> bool:
    catalog = checker.catalog
    good = True
    for use, keys in uses:
        name = _name(use)
        if name in catalog.steps:
            if isinstance(use, StepUse):
                _arguments(checker, entry, use, keys)
        elif name in catalog.pipelines:
            checker.wrong(entry, f"'{name}' is a pipeline; a pipeline is a list of steps, not of pipelines", *keys)
            good = False
        else:
            good &= checker.known(entry, "step", name, catalog.steps, *keys)
    return good


def _codegen_values(checker: Checker, pipeline: Entry[Pipeline]) -> None:
    """Check that a pipeline's values for code generation are parameters of some target's steps."""
    catalog = checker.catalog
    names = {_name(use) for target in catalog.targets.values() for use in target.document.codegen}
    steps = [catalog.steps[name] for name in sorted(names & catalog.steps.keys())]
    for key, value in pipeline.document.codegen.items():
        takers = [step for step in steps if key in step.document.parameters]
        if not takers:
            known = did_you_mean(key, {name for step in steps for name in step.document.parameters})
            checker.wrong(pipeline, f"no target's code generation has a parameter '{key}'{known}", "codegen", key)
        for step in takers:
            _argument(checker, pipeline, step, key, value, ("codegen", key))


def _all_uses(pipeline: Pipeline) -> Iterator[tuple[str | StepUse, tuple[Key, ...]]]:
    for kind, steps in pipeline.entry.items():
        yield from _with_keys(steps, "entry", kind)
    yield from _with_keys(pipeline.steps, "steps")


def _with_keys(steps: Sequence[str | StepUse], *keys: Key) -> Iterator[tuple[str | StepUse, tuple[Key, ...]]]:
    for index, use in enumerate(steps):
        yield use, (*keys, index)


def _name(use: str | StepUse) -> str:
    return use.step if isinstance(use, StepUse) else use


def _arguments(checker: Checker, user: Entry[Pipeline] | Entry[Target], use: StepUse, keys: tuple[Key, ...]) -> None:
    for name, value in use.parameters.items():
        _argument(checker, user, checker.catalog.steps[use.step], name, value, (*keys, "with", name))


def _argument(
    checker: Checker,
    user: Entry[Pipeline] | Entry[Target],
    step: Entry[Step],
    name: str,
    value: ParameterValue,
    place: tuple[Key, ...],
) -> None:
    declared = step.document.parameters
    if name not in declared:
        known = did_you_mean(name, declared) if declared else "; it has none"
        checker.wrong(user, f"step '{step.name}' has no parameter '{name}'{known}", *place)
    elif not _fits(value, declared[name].default):
        wanted = _wanted(declared[name].default)
        shown = got(list(value) if isinstance(value, tuple) else value)
        checker.wrong(user, f"the parameter '{name}' of step '{step.name}' takes {wanted}, got {shown}", *place)


def _fits(value: ParameterValue, default: ParameterValue) -> bool:
    """Return whether a value has the type of the default. Each item of a list must fit some item of the default."""
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


def _routes(checker: Checker, pipeline: Entry[Pipeline]) -> None:
    """Check that the steps of each entry connect without a circle and end at a kind that a target accepts."""
    broken: set[tuple[Key, ...]] = set()
    for kind, entry_steps in pipeline.document.entry.items():
        route = [*_with_keys(entry_steps, "entry", kind), *_with_keys(pipeline.document.steps, "steps")]
        end = _follow(checker, pipeline, kind, route, broken)
        if end is not None:
            _ends(checker, pipeline, kind, end)


def _follow(
    checker: Checker,
    pipeline: Entry[Pipeline] | Entry[Target],
    kind: str,
    route: Iterable[tuple[str | StepUse, tuple[Key, ...]]],
    broken: set[tuple[Key, ...]],
) -> str | None:
    """Return the kind at the end of a route; None, and a problem, where it breaks. ``broken``: where earlier routes broke."""
    at, left, entered = kind, set[str](), "in this entry"
    for use, keys in route:
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
            problem = f"a circle: step '{name}' goes back to the kind {gives}, which the route left (entry '{kind}')"
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
    catalog = checker.catalog
    accepted = {name for target in catalog.targets.values() for name in target.document.accepts}
    for target in catalog.targets.values():
        for use in target.document.codegen[:1]:
            if _name(use) in catalog.steps:
                accepted.update(catalog.steps[_name(use)].document.accepts)
    if accepted and end not in accepted:
        takes = ", ".join(sorted(accepted))
        checker.wrong(pipeline, f"this route ends with the kind {end}; targets take {takes}", "entry", kind)
