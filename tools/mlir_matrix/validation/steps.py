"""Checks of steps by themselves: what their tool takes, their files, their parameters, in every variant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.base import Step
from mlir_matrix.catalog.yaml_reader import Key, SourceError, read_text
from mlir_matrix.names import did_you_mean, nearest, printable
from mlir_matrix.validation.checker import Checker

#: The tools of steps, with the keys that say what a tool does: those that it must have, those that it may have.
_TOOL_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "passes": (("passes",), ("schedule", "patterns", "backend")),
    "check": (("directives",), ()),
    "object": ((), ("backend",)),
}
_WORKING_KEYS = ("passes", "schedule", "patterns", "directives", "backend")
_USE = re.compile(r"\$(?:\{([^{}\n]*)\}?)?")


def check_step(checker: Checker, step: Entry[Step]) -> None:
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
    """The files in its folder that a step names, and where."""
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
    """A step has the keys that its tool works by, and no others."""
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
    """The passes and the schedule that run together: the step's own, or those of each variant."""
    if not step.variants:
        yield (), step.passes, step.schedule
    for index, variant in enumerate(step.variants):
        yield ("variants", index), variant.passes or step.passes, variant.schedule or step.schedule


def _parameters(checker: Checker, step: Entry[Step]) -> None:
    """What ``passes`` and the schedule use is declared, and what is declared is used."""
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
