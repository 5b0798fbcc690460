"""Check the tools of frameworks, steps and targets: their files, commands, parameters and variants."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from mlir_matrix.base.names import did_you_mean, printable, should_be_called
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.messages import got
from mlir_matrix.catalog.models.base import (
    CHECK,
    COMMAND,
    PYTHON_FILE,
    TOOL_FILES,
    TOOL_NOUNS,
    Document,
    ParameterValue,
    Step,
    Tool,
)
from mlir_matrix.catalog.run_lines import fits
from mlir_matrix.catalog.yaml_reader import Key, Place, SourceError, place_in, read_text
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.recipes import Tooled

_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
#: The package's tools of steps, each with the keys that such a step must have, and those that it may have.
_TOOL_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "passes": (("passes",), ("schedule", "patterns", "backend")),
    CHECK: (("directives",), ()),
    "object": ((), ("backend",)),
}
_WORKING_KEYS = ("passes", "schedule", "patterns", "directives", "backend")
_PARAMETER = re.compile(r"\$(?:\{([^{}\n]*)\}?)?")


def check(checker: Checker, entry: Tooled, names: Collection[str]) -> None:
    """Check the tool of an entry. ``names``: the inputs and outputs that a command may name."""
    document = entry.document
    what = TOOL_NOUNS[type(document)]
    file = TOOL_FILES[type(document)]
    tool = document.tool_name(entry.files)
    _files(checker, entry, tool)
    _one_tool(checker, entry, tool)
    inputs = [name.rpartition("/")[2] for name in document.files]
    for index, name in enumerate(inputs):
        if name in {*names, "tool"}:
            checker.wrong(entry, f"'{name}' is the name of an input or output; rename the file", "files", index)
        if name in inputs[:index]:
            checker.wrong(entry, f"another of the files is called '{name}'; rename one of them", "files", index)
    if tool == COMMAND:
        _commands(checker, entry, {*names, "kind", *inputs})
    if document.preload and tool != PYTHON_FILE:
        checker.wrong(entry, f"'preload' has no effect: the {what} has no file {file} that imports anything", "preload")
    _variants(checker, entry)
    if isinstance(document, Step):
        _tool_keys(checker, entry, document, tool)
        if tool == "passes":
            _parameters(checker, entry, document)


def _one_tool(checker: Checker, entry: Tooled, tool: str) -> None:
    """Check that exactly one exists of a Python file, a command and a tool of the package."""
    document = entry.document
    what = TOOL_NOUNS[type(document)]
    file = TOOL_FILES[type(document)]
    given = getattr(document, "tool", None)
    if tool in (PYTHON_FILE, COMMAND) and given:
        checker.wrong(entry, f"the tool '{given}' would never run: the {what} has {_own(tool, file)}", "tool")
    if tool == COMMAND and file in entry.files:
        checker.wrong(entry, f"'command' and {file} exclude each other; remove one of them", "command")
    if tool == PYTHON_FILE and file not in entry.files:
        hint = should_be_called(file, entry.files)
        checker.wrong(entry, f"a {what} needs the file {file} beside it or the key 'command'{hint}")


def _own(tool: str, file: str) -> str:
    return "a 'command'" if tool == COMMAND else f"the file {file}"


def _named_files(document: Tool) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Return the files that a tool names, with their positions."""
    for index, name in enumerate(document.files):
        yield ("files", index), name
    for key in ("schedule", "patterns", "directives"):
        if (given := getattr(document, key, None)) is not None:
            yield (key,), given
    for index, variant in enumerate(document.variants):
        for key in ("schedule", "patterns"):
            if (given := getattr(variant, key)) is not None:
                yield ("variants", index, key), given


def _files(checker: Checker, entry: Tooled, tool: str) -> None:
    """Check that the files that a tool names exist, and that it names all files."""
    named = dict(_named_files(entry.document))
    for keys, name in named.items():
        if "/" in name:
            if checker.catalog.tool_file(entry, name) is None:
                checker.wrong(entry, f"there is no file '{name}' in another folder of this section", *keys)
        elif name not in entry.files:
            message = f"there is no file '{name}' in this folder{did_you_mean(name, entry.files)}"
            checker.wrong(entry, message, *keys)
    own = TOOL_FILES[type(entry.document)]
    if entry.document.files and tool not in (PYTHON_FILE, COMMAND):
        checker.wrong(entry, f"'files' has no effect without {own} or 'command'", "files")
    unread = "is not read: named by none of 'schedule', 'patterns', 'directives'"
    if tool in (PYTHON_FILE, COMMAND):
        unread = "is not read: 'files' does not name it"
    for name in entry.files.keys() - {*named.values(), own}:
        meant = did_you_mean(name, {*named.values(), own}, listed=False)
        checker.problems.add(entry.source.beside(name), unread + meant)


def _commands(checker: Checker, entry: Tooled, names: set[str]) -> None:
    """Check the program of each command, that each ``${NAME}`` in it exists, and that each parameter is used."""
    document = entry.document
    forms: list[tuple[tuple[Key, ...], tuple[str, ...]]] = (
        [(("command",), document.command)] if document.command else []
    )
    forms += [(("variants", i, "command"), each.command) for i, each in enumerate(document.variants) if each.command]
    if not document.command and len(forms) < len(document.variants):
        index = next(i for i, each in enumerate(document.variants) if not each.command)
        checker.wrong(entry, "this variant has no 'command', nor has the file as a whole", "variants", index)
    used = set[str]()
    for taken in sorted(names & document.parameters.keys()):
        message = f"the parameter '{taken}' has the name of an input, output or file; '${{{taken}}}' would be ambiguous"
        checker.wrong(entry, message, "parameters", taken)
    names |= document.parameters.keys()
    for keys, command in forms:
        program(checker, entry, command[0], *keys, 0)
        for index, word in enumerate(command):
            for found in _PARAMETER.finditer(word):
                name = found[1] if found[0].endswith("}") else None
                used.add(name or "")
                if name is None or name not in names:
                    fix = "write ${NAME}" if name is None else did_you_mean(name, names).lstrip("; ") or "see 'command'"
                    checker.wrong(entry, f"'{printable(found[0])}' stands for nothing; {fix}", *keys, index)
    for name in document.parameters.keys() - used:
        message = f"the parameter '{name}' is not used; write ${{{name}}} where it belongs"
        checker.wrong(entry, message, "parameters", name)


def program(checker: Checker, entry: Tooled, name: str, *keys: Key) -> None:
    """Check that the environment of a tool has a program, because otherwise every test fails."""
    environment = checker.catalog.environments.get(entry.document.works_in)
    if environment is None:
        return  # reported where it is named
    components = [checker.catalog.components.get(each) for each in environment.document.components]
    programs = set[str]()
    for component in [each.document for each in components if each]:
        programs.update(component.tools)
        for release in component.releases:
            if (release.provider or component.provider) == "host":
                programs.update(release.programs or component.programs)
    if name not in programs:
        known = did_you_mean(name, programs) if programs else "; it has none"
        message = f"environment '{environment.name}' has no program '{printable(name)}'{known}"
        checker.wrong(entry, message, *keys)


def _variants(checker: Checker, entry: Tooled) -> None:
    """Check that variants have only keys that the tool takes, and values for its parameters."""
    step = isinstance(entry.document, Step) and entry.document.tool_name(entry.files) == "passes"
    for index, variant in enumerate(entry.document.variants):
        for key in ("passes", "schedule", "patterns") if not step else ():
            if getattr(variant, key) is not None:
                checker.wrong(entry, f"only variants of the tool 'passes' have '{key}'", "variants", index, key)
        for name, value in variant.parameters.items():
            argument(checker, entry, entry, name, value, ("variants", index, "parameters", name))


def _tool_keys(checker: Checker, step: Tooled, document: Step, tool: str) -> None:
    """Check that a step has the keys that its tool needs, and no others."""
    variants = document.variants
    must, may = _TOOL_KEYS.get(tool, ((), ()))
    for key in _WORKING_KEYS:
        in_variants = bool(variants) and all(getattr(variant, key, None) is not None for variant in variants)
        given = getattr(document, key) is not None or in_variants
        if getattr(document, key) is not None and key not in must and key not in may:
            shown = f"the tool '{tool}'" if tool in _TOOL_KEYS else _own(tool, TOOL_FILES[Step])
            checker.wrong(step, f"{shown} does not take '{key}'", key)
        elif not given and key in must:
            checker.wrong(step, f"the key '{key}' is missing; the tool '{tool}' needs it")
    if tool != "passes":
        return
    # The passes and the schedule that run together: those of each variant, or those of the step.
    forms: list[tuple[tuple[Key, ...], str | None, str | None]] = [
        (("variants", index), variant.passes or document.passes, variant.schedule or document.schedule)
        for index, variant in enumerate(variants)
    ]
    for keys, passes, schedule in forms or [(("schedule",), document.passes, document.schedule)]:
        if schedule and passes is not None and "transform-interpreter" not in passes:
            checker.wrong(step, "the schedule would never run: 'passes' has no transform-interpreter", *keys)


def _parameters(checker: Checker, step: Tooled, document: Step) -> None:
    """Check that used parameters are declared and that declared ones are used."""
    declared, texts, used = document.parameters, _texts(checker, step, document), set[str]()
    for shown, text, place in texts or ():
        for found in _PARAMETER.finditer(text):
            # Pass pipelines have no ``$``, but other MLIR may.
            if found[1] is not None or place is not None:
                name = (found[1] if found[0].endswith("}") else None) or found[0]
                used.add(name)
                if problem := _parameter_problem(name, declared):
                    checker.problems.add(shown, problem, place or place_in(text, found.start()))
    for name in declared.keys() - used if texts is not None else ():
        message = f"the parameter '{name}' is not used; write ${{{name}}} where it belongs"
        checker.wrong(step, message, "parameters", name)


def _texts(checker: Checker, step: Tooled, document: Step) -> list[tuple[str, str, Place | None]] | None:
    """Return the passes and schedules of a step: file, text and, for the value of a key, its place. Return None if unknown."""
    source = step.source
    forms = [((), document.passes), *((("variants", i), each.passes) for i, each in enumerate(document.variants))]
    texts: list[tuple[str, str, Place | None]] = [
        (source.file, passes, source.place(*keys, "passes")) for keys, passes in forms if passes
    ]
    for file in {name for keys, name in _named_files(document) if keys[-1] == "schedule"}:
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


def argument(
    checker: Checker,
    user: Entry[Document],
    taker: Tooled,
    name: str,
    value: ParameterValue,
    keys: tuple[Key, ...],
) -> None:
    """Check that a tool has a parameter, and that a value has the type of its default."""
    declared = taker.document.parameters
    shown_as = f"{TOOL_NOUNS[type(taker.document)]} '{taker.name}'"
    if name not in declared:
        known = did_you_mean(name, declared) if declared else "; it has none"
        checker.wrong(user, f"{shown_as} has no parameter '{name}'{known}", *keys)
    elif not fits(value, default := declared[name].default):
        wanted = _TYPES.get(type(default), "a list like its default")
        if isinstance(default, tuple) and default:
            kinds = " or ".join(dict.fromkeys(_TYPES[type(item)] for item in default))
            wanted = f"a list with items {kinds} like its default"
        shown = got(list(value) if isinstance(value, tuple) else value)
        checker.wrong(user, f"the parameter '{name}' of {shown_as} takes {wanted}, got {shown}", *keys)
