"""Check frameworks, steps and targets, and that the steps of each pipeline connect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mlir_matrix.catalog.catalog import REFERENCE, Catalog, Entry
from mlir_matrix.catalog.messages import got
from mlir_matrix.catalog.models.base import Framework, ParameterValue, Pipeline, Step, Target, UsedStep, used_steps
from mlir_matrix.catalog.yaml_reader import Key, Place, SourceError, place_in, read_text
from mlir_matrix.names import did_you_mean, nearest, printable
from mlir_matrix.validation.checker import Checker

#: The tools of frameworks.
_IMPORTER = re.compile(r"import_\w+")
#: Devices that every action has of its own, below /dev.
_OWN_DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr")
_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}

#: The tools of steps, each with the keys that a step with this tool must have, and those that it may have.
_TOOL_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "passes": (("passes",), ("schedule", "patterns", "backend")),
    "check": (("directives",), ()),
    "object": ((), ("backend",)),
}
_WORKING_KEYS = ("passes", "schedule", "patterns", "directives", "backend")
_PARAMETER = re.compile(r"\$(?:\{([^{}\n]*)\}?)?")


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
        _codegen_values(checker, pipeline)
        _pipeline(checker, pipeline)


def _framework(checker: Checker, framework: Entry[Framework]) -> None:
    catalog, document = checker.catalog, framework.document
    checker.tool(framework, "framework", _IMPORTER.fullmatch)
    checker.known(framework, "environment", document.environment, catalog.environments, "environment")
    for kind, file in document.emits.items():
        checker.known(framework, "kind", kind, catalog.kinds, "emits", kind)
        if file in ("workload.yaml", REFERENCE):
            checker.wrong(framework, f"'{file}' is not a source: every workload has one", "emits", kind)


def _step(checker: Checker, step: Entry[Step]) -> None:
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
        near = nearest(name, {*named.values(), "step.yaml"})
        message = "is not read: named by none of 'schedule', 'patterns', 'directives'"
        checker.problems.add(step.source.beside(name), message + (f"; did you mean '{near}'?" if near else ""))
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


def _tool_keys(checker: Checker, step: Entry[Step]) -> None:
    """Check that a step has the keys that its tool needs, and no others."""
    document = step.document
    tool, variants = document.tool, document.variants
    must, may = _TOOL_KEYS[tool]
    for key in _WORKING_KEYS:
        in_variants = bool(variants) and all(getattr(variant, key, None) is not None for variant in variants)
        given = getattr(document, key) is not None or in_variants
        if given and key not in must and key not in may:
            checker.wrong(step, f"the tool '{tool}' does not take '{key}'", key)
        elif not given and key in must:
            checker.wrong(step, f"the key '{key}' is missing; the tool '{tool}' needs it")
    if tool != "passes":
        if variants:
            checker.wrong(step, f"the tool '{tool}' takes no variants", "variants")
        return
    # The passes and the schedule that run together: those of each variant, or the step's own.
    forms: list[tuple[tuple[Key, ...], str | None, str | None]] = [
        (("variants", index), variant.passes or document.passes, variant.schedule or document.schedule)
        for index, variant in enumerate(variants)
    ]
    for keys, passes, schedule in forms or [(("schedule",), document.passes, document.schedule)]:
        if schedule and passes is not None and "transform-interpreter" not in passes:
            checker.wrong(step, "the schedule would never run: 'passes' has no transform-interpreter", *keys)


def _parameters(checker: Checker, step: Entry[Step]) -> None:
    """Check that used parameters are declared and that declared ones are used."""
    declared, texts, used = step.document.parameters, _texts(checker, step), set[str]()
    for shown, text, place in texts or ():
        for found in _PARAMETER.finditer(text):
            # ``$`` is no character of pass pipelines, but it may be one of MLIR.
            if found[1] is not None or place is not None:
                name = (found[1] if found[0].endswith("}") else None) or found[0]
                used.add(name)
                if problem := _parameter_problem(name, declared):
                    checker.problems.add(shown, problem, place or place_in(text, found.start()))
    for name in declared.keys() - used if texts is not None else ():
        message = f"the parameter '{name}' is not used; write ${{{name}}} where it belongs"
        checker.wrong(step, message, "parameters", name)


def _texts(checker: Checker, step: Entry[Step]) -> list[tuple[str, str, Place | None]] | None:
    """Return the passes and schedules of a step: file, text, and the place of the text if it is a key's; None if unknown."""
    document, source = step.document, step.source
    forms = [((), document.passes), *((("variants", i), each.passes) for i, each in enumerate(document.variants))]
    texts: list[tuple[str, str, Place | None]] = [
        (source.file, passes, source.place(*keys, "passes")) for keys, passes in forms if passes
    ]
    for file in {name for keys, name in _files(document) if keys[-1] == "schedule"}:
        if file not in step.files:
            return None  # reported by _step
        try:
            texts.append((source.beside(file), read_text(step.files[file], source.beside(file)), None))
        except SourceError as error:
            checker.problems.add(error.file, error.problem, error.place)
            return None
    return texts


def _parameter_problem(name: str, declared: Iterable[str]) -> str | None:
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
    codegen = used_steps(document.codegen, "codegen")
    if _steps_known(checker, target, codegen) and codegen:
        end = _follow(checker, target, catalog.steps[codegen[0].name].document.accepts[0], codegen, set())
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
        return  # reported by _target
    components = [checker.catalog.components.get(name) for name in environment.document.components]
    programs = set[str]()
    for component in [entry.document for entry in components if entry]:
        programs.update(component.tools)
        for release in component.releases:
            if (release.provider or component.provider) == "host":
                programs.update(release.programs or component.programs)
    if program not in programs:
        known = did_you_mean(program, programs) if programs else "; it has none"
        message = f"environment '{environment.name}' has no program '{printable(program)}'{known}"
        checker.wrong(target, message, "runner", 0)


def _pipeline(checker: Checker, pipeline: Entry[Pipeline]) -> None:
    """Check that kinds and steps exist, connect without a circle, and end at a kind that a target accepts."""
    catalog, document = checker.catalog, pipeline.document
    kinds = [checker.known(pipeline, "kind", kind, catalog.kinds, "entry", kind) for kind in document.entry]
    steps = [_steps_known(checker, pipeline, document.route(kind)) for kind in document.entry]
    if not (all(kinds) and all(steps)):
        return
    accepted = _accepted(catalog)
    broken = set[tuple[Key, ...]]()
    for kind in document.entry:
        end = _follow(checker, pipeline, kind, document.route(kind), broken)
        if end is not None and accepted and end not in accepted:
            message = f"this route ends with the kind {end}; targets take {', '.join(sorted(accepted))}"
            checker.wrong(pipeline, message, "entry", kind)


def _accepted(catalog: Catalog) -> set[str]:
    """Return the kinds that targets run or generate code from."""
    kinds = {kind for target in catalog.targets.values() for kind in target.document.accepts}
    for target in catalog.targets.values():
        for use in used_steps(target.document.codegen[:1]):
            if use.name in catalog.steps:
                kinds.update(catalog.steps[use.name].document.accepts)
    return kinds


def _steps_known(checker: Checker, entry: Entry[Pipeline] | Entry[Target], uses: Iterable[UsedStep]) -> bool:
    """Check that steps exist and take the values of their parameters; return whether all exist."""
    catalog = checker.catalog
    good = True
    for use in uses:
        if use.name in catalog.steps:
            for name, value in use.parameters.items():
                _argument(checker, entry, catalog.steps[use.name], name, value, (*use.keys, "with", name))
        elif use.name in catalog.pipelines:
            message = f"'{use.name}' is a pipeline; a pipeline is a list of steps, not of pipelines"
            checker.wrong(entry, message, *use.keys)
            good = False
        else:
            good &= checker.known(entry, "step", use.name, catalog.steps, *use.keys)
    return good


def _codegen_values(checker: Checker, pipeline: Entry[Pipeline]) -> None:
    """Check that a pipeline's values for code generation are parameters of some target's steps."""
    catalog = checker.catalog
    names = {use.name for target in catalog.targets.values() for use in used_steps(target.document.codegen)}
    steps = [catalog.steps[name] for name in sorted(names & catalog.steps.keys())]
    for key, value in pipeline.document.codegen.items():
        takers = [step for step in steps if key in step.document.parameters]
        if not takers:
            known = did_you_mean(key, {name for step in steps for name in step.document.parameters})
            checker.wrong(pipeline, f"no target's code generation has a parameter '{key}'{known}", "codegen", key)
        for step in takers:
            _argument(checker, pipeline, step, key, value, ("codegen", key))


def _argument(
    checker: Checker,
    user: Entry[Pipeline] | Entry[Target],
    step: Entry[Step],
    name: str,
    value: ParameterValue,
    keys: tuple[Key, ...],
) -> None:
    declared = step.document.parameters
    if name not in declared:
        known = did_you_mean(name, declared) if declared else "; it has none"
        checker.wrong(user, f"step '{step.name}' has no parameter '{name}'{known}", *keys)
    elif not _fits(value, default := declared[name].default):
        wanted = _TYPES.get(type(default), "a list like its default")
        if isinstance(default, tuple) and default:
            kinds = " or ".join(dict.fromkeys(_TYPES[type(item)] for item in default))
            wanted = f"a list with items {kinds} like its default"
        shown = got(list(value) if isinstance(value, tuple) else value)
        checker.wrong(user, f"the parameter '{name}' of step '{step.name}' takes {wanted}, got {shown}", *keys)


def _fits(value: ParameterValue, default: ParameterValue) -> bool:
    """Return whether a value has the type of the default. Each item of a list must fit some item of the default."""
    if isinstance(default, tuple):
        return isinstance(value, tuple) and all(not default or any(_fits(v, d) for d in default) for v in value)
    if isinstance(default, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is type(default)


def _follow(
    checker: Checker,
    user: Entry[Pipeline] | Entry[Target],
    kind: str,
    route: Iterable[UsedStep],
    broken: set[tuple[Key, ...]],
) -> str | None:
    """Return the kind at the end of a route; None, and a problem, where it breaks. ``broken``: where earlier routes broke."""
    at, left, entered = kind, set[str](), "in this entry"
    for keys, name, _ in route:
        step = checker.catalog.steps[name].document
        gives = step.gives or at
        if not checker.catalog.kinds.keys() >= {*step.accepts, gives}:
            return None  # reported at the step
        problem = None
        if at not in step.accepts:
            takes = " or ".join(step.accepts)
            problem = f"step '{name}' takes {takes}, but {entered} the kind is {at} (entry '{kind}')"
        elif gives in left:
            problem = f"a circle: step '{name}' goes back to the kind {gives}, which the route left (entry '{kind}')"
        if problem:
            if keys not in broken:
                checker.wrong(user, problem, *keys)
            broken.add(keys)
            return None
        if gives != at:
            left.add(at)
        at, entered = gives, f"after '{name}'"
    return at
