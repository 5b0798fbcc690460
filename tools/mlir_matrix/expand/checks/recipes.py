"""Check frameworks, steps and targets, and that the steps of each pipeline connect."""

from __future__ import annotations

from collections.abc import Iterable

from mlir_matrix.base.names import IR_TARGET, did_you_mean
from mlir_matrix.catalog.catalog import LINKING, REFERENCE, Catalog, Entry, is_linked, taken_by
from mlir_matrix.catalog.models.base import PYTHON_FILE, Framework, Pipeline, Step, Target, UsedStep, used_steps
from mlir_matrix.catalog.yaml_reader import Key
from mlir_matrix.expand.checks import tools
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.recipes import Tooled

#: Devices below /dev that every action has.
_OWN_DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr")


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
    if document.environment:
        tools.check(checker, framework, {"source", "out"})
        checker.known(framework, "environment", document.environment, catalog.environments, "environment")
    elif framework.files or document.command:
        checker.wrong(framework, "the key 'environment' is missing: without it no importer runs")
    for kind, file in document.emits.items():
        checker.known(framework, "kind", kind, catalog.kinds, "emits", kind)
        if file in ("workload.yaml", REFERENCE):
            checker.wrong(framework, f"'{file}' is not a source: every workload has one", "emits", kind)


def _step(checker: Checker, step: Entry[Step]) -> None:
    catalog, document = checker.catalog, step.document
    tools.check(checker, step, {"ir", "out"})
    checker.known(step, "environment", document.environment, catalog.environments, "environment")
    for index, kind in enumerate(document.accepts):
        checker.known(step, "kind", kind, catalog.kinds, "accepts", index)
    if isinstance(document.gives, str):
        checker.known(step, "kind", document.gives, catalog.kinds, "gives")
    elif document.gives:
        for kind, given in document.gives.items():
            checker.known(step, "kind that it accepts", kind, document.accepts, "gives", kind)
            checker.known(step, "kind", given, catalog.kinds, "gives", kind)


def _target(checker: Checker, target: Entry[Target]) -> None:
    catalog, document = checker.catalog, target.document
    for index, kind in enumerate(document.accepts):
        checker.known(target, "kind", kind, catalog.kinds, "accepts", index)
    for key in ("linker_environment", "runner_environment") if is_linked(target) else ("runner_environment",):
        checker.known(target, "environment", getattr(document, key), catalog.environments, key)
    names = {"artifact", "out"} if document.compile_only else {"artifact", "inputs", "outputs"}
    if document.judges and (document.compile_only or document.tool_name(target.files) != PYTHON_FILE):
        checker.wrong(target, "'judges' needs a run.py, and no 'compile_only'", "judges")
    tools.check(checker, target, names)
    _compiling(checker, target)
    _linking(checker, target)
    codegen = used_steps(document.codegen, "codegen")
    if _steps_known(checker, target, codegen) and codegen:
        end = _follow(checker, target, catalog.steps[codegen[0].name].document.accepts[0], codegen, set())
        if end is not None and end not in document.accepts:
            takes = " or ".join(document.accepts)
            checker.wrong(target, f"these steps end with the kind {end}; the target takes {takes}", "codegen")
    for index, device in enumerate(document.devices):
        if (name := device.split("/")[2]) in _OWN_DEVICES:
            checker.wrong(target, f"every action has its own /dev/{name}; leave it out", "devices", index)
    if target.name == IR_TARGET:
        checker.wrong(target, "a target cannot be called 'ir': the IR tests of steps are STEP/ir/CASE")


def _compiling(checker: Checker, target: Entry[Target]) -> None:
    """Check the keys of a target that only compiles, and those of its modes."""
    document = target.document
    if document.compile_only and document.directives is None:
        checker.wrong(target, "the key 'directives' is missing: nothing would be checked", "compile_only")
    if document.directives is not None and not document.compile_only:
        checker.wrong(target, "'directives' has no effect without 'compile_only'", "directives")
    if document.compile_only and document.devices:
        checker.wrong(target, "'devices' has no effect: this target runs nothing", "devices")
    codegen = (checker.catalog.steps.get(use.name) for use in used_steps(document.codegen))
    users: list[Tooled] = [target, *filter(None, codegen)]
    for name, mode in document.modes.items():
        for key, value in mode.parameters.items():
            takers = [user for user in users if key in user.document.parameters]
            if not takers:
                known = did_you_mean(key, {each for user in users for each in user.document.parameters})
                message = f"neither this target nor a codegen step of it has a parameter '{key}'{known}"
                checker.wrong(target, message, "modes", name, "with", key)
            for user in takers:
                tools.argument(checker, target, user, key, value, ("modes", name, "with", key))


def _linking(checker: Checker, target: Entry[Target]) -> None:
    """Check the keys of targets that link kernels with the driver, which other targets must not have."""
    document, tool = target.document, target.document.tool_name(target.files)
    if tool in LINKING and document.triple is None:
        checker.wrong(target, f"the key 'triple' is missing; the tool '{tool}' needs it")
    if not is_linked(target) and document.triple is not None:
        checker.wrong(target, "'triple' has no effect: this target links no kernels", "triple")
    if document.runner and tool != "run":
        why = "MLIR's own runner calls the kernel" if tool == "run_jit" else "the target's own tool runs artifacts"
        checker.wrong(target, f"the tool '{tool}' takes no 'runner': {why}", "runner")
    elif document.runner:
        tools.program(checker, target, document.runner[0], "runner", 0)


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
    return {kind for target in catalog.targets.values() for kind in taken_by(target.document, catalog.steps)}


def _steps_known(checker: Checker, entry: Entry[Pipeline] | Entry[Target], uses: Iterable[UsedStep]) -> bool:
    """Check that steps exist and take the values of their parameters; return whether all exist."""
    catalog = checker.catalog
    good = True
    for use in uses:
        if use.name in catalog.steps:
            for name, value in use.parameters.items():
                tools.argument(checker, entry, catalog.steps[use.name], name, value, (*use.keys, "with", name))
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
    users: list[Tooled] = [*steps, *catalog.targets.values()]
    for key, value in pipeline.document.codegen.items():
        takers = [each for each in users if key in each.document.parameters]
        if not takers:
            known = did_you_mean(key, {name for each in users for name in each.document.parameters})
            checker.wrong(pipeline, f"no target's code generation has a parameter '{key}'{known}", "codegen", key)
        for taker in takers:
            tools.argument(checker, pipeline, taker, key, value, ("codegen", key))


def _follow(
    checker: Checker,
    user: Entry[Pipeline] | Entry[Target],
    kind: str,
    route: Iterable[UsedStep],
    broken: set[tuple[Key, ...]],
) -> str | None:
    """Return the kind at the end of a route; None, and a problem, if it breaks. ``broken``: the breaks of earlier routes."""
    at, left, entered = kind, set[str](), "in this entry"
    for keys, name, _ in route:
        step = checker.catalog.steps[name].document
        gives = step.kind_from(at)
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
