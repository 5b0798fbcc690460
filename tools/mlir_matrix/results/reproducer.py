"""Return the command lines that repeat a test without this program, and the files that they need."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias

from mlir_matrix.actions.contract import fill
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.keys import input_names
from mlir_matrix.plan.graph import ActionId, File, Input, PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.checks import Checks, call_and_compare, compare_files

#: In an option of a program.
_WORD = re.compile(r"[a-z][\w]*(?:-[\w]+)+|cse|canonicalize")
#: The options of a pass, which may hold options; and a pass, which has no list of passes behind it, as ``func.func(…)`` has.
_OPTIONS = re.compile(r"\{[^{}]*\}")
_PASS = re.compile(r"[\w-]+(?=\s*(?:[,)]|$))", re.ASCII)
_CLEANING = frozenset({"canonicalize", "cse"})
#: The copy of a step's schedule into which the tool ``passes`` fills parameters.
SCHEDULE = "schedule.mlir"
#: What surrounds a path in a word is part of no name.
_PATH = r"(?<![\w./-]){}(?![\w./-])"
#: Command lines, word by word.
Lines: TypeAlias = list[list[str]]
#: Longer files are not part of a report. Bytes.
_LONGEST = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Commands:
    """What repeats a test without this program."""

    #: Command lines by step, for a folder that has the files.
    steps: Mapping[str, Sequence[str]]
    #: The files that no command makes.
    files: Mapping[str, bytes]
    #: Whether the last ones compare the outputs with what is right.
    compares: bool = False


def commands_of(
    catalog: Catalog,
    plan: PlannedTests,
    done: Mapping[str, Done],
    test: str,
    read: Callable[[str], bytes],
    *,
    until: str = "",
    kept: Mapping[Input, str] = MappingProxyType({}),
    programs: Mapping[str, Lines] = MappingProxyType({}),
) -> Commands:
    """Return the command lines of a test's steps, and those that compare what it gives; and the files that they need.

    ``until``: the last step that is wanted. ``kept``: paths of files that exist already. ``programs``: command lines of actions
    that recorded none, by their identifiers.
    """
    graph, steps, files = plan.graph, dict[str, list[str]](), dict[str, bytes]()
    needed = plan.needed_by(test)
    recorded = {identifier: _recorded(done[identifier]) for identifier in needed if identifier in done}
    lines = {**programs, **{identifier: found for identifier, found in recorded.items() if found}}
    names: dict[Input, str] = dict(kept)
    compares = False

    def data(ref: Input) -> bytes:
        return _data(catalog, done, ref, read)

    for number, identifier in enumerate(needed):
        action = graph.actions[identifier]
        commands: Lines = []
        if identifier in done and identifier in lines:
            commands = _used(lines[identifier], done[identifier].result.ok)
        paths: dict[str, str] = {}
        for name, path in input_names(action, graph).items():
            ref = action.inputs[name]
            paths[path] = names.get(ref, os.path.basename(path))
            if _has(chain(*commands), path) and not _exists(ref, kept, lines) and paths[path] not in files:
                files[paths[path]] = data(ref)
        if "schedule" in action.inputs and _has(chain(*commands), SCHEDULE):
            paths[SCHEDULE] = f"{number:02}-{SCHEDULE}"
            text = data(action.inputs["schedule"]).decode("utf-8", "replace")
            files[paths[SCHEDULE]] = fill(text, action.params.get("parameters", {})).encode()
        names |= _output_names(action, number, kept, lines)
        paths |= {f"out/{file}": names[Produced(identifier, name)] for name, file in action.outputs.items()}
        if action.stage == Stage.RUN and identifier in done:
            checks = _checks(plan, done[identifier], action, names, data, lines)
            commands, files, compares = [*commands, *checks[0]], files | checks[1], compares or bool(checks[0])
        if commands:
            # A pipeline may have a step twice, and an IR test several RUN lines.
            repeated = steps.setdefault(action.label, [])
            repeated += [shlex.join(_renamed(word, paths) for word in words) for words in commands]
        if action.label == until:
            break
    return Commands(steps=steps, files={name: data for name, data in files.items() if data}, compares=compares)


def _exists(ref: Input, kept: Container[Input], lines: Container[str]) -> bool:
    """Return whether a file exists when a command reads it: it is kept, or a command makes it."""
    return ref in kept or (isinstance(ref, Produced) and ref.action in lines)


def _output_names(
    action: PlannedAction, number: int, kept: Mapping[Input, str], lines: Container[str]
) -> dict[Input, str]:
    """Return the names of an action's outputs. What a command makes does not overwrite a kept file."""
    names: dict[Input, str] = {}
    for name, file in action.outputs.items():
        output = Produced(action.id, name)
        if action.id in lines or output not in kept:
            names[output] = f"{number:02}-{file}"
        else:
            names[output] = kept[output]
    return names


def _checks(
    plan: PlannedTests,
    done: Done,
    run: PlannedAction,
    names: Mapping[Input, str],
    data: Callable[[Input], bytes],
    lines: Container[str],
) -> Checks:
    """Return what compares the outputs of a run, if it wrote them by commands or called what commands made."""
    if run.id in lines:
        return compare_files(plan, run, names, data) if done.result.ok else ([], {})
    kernels = (ref for source in run.sources for ref in plan.graph.actions[source].inputs.values())
    made = any(isinstance(ref, Produced) and ref.action in lines for ref in kernels)
    return call_and_compare(plan, run, done.result, names, data) if made else ([], {})


def _used(lines: Lines, ok: bool) -> Lines:
    """Return the command lines of an action without those that only checked something: nothing reads what they write."""
    kept: Lines = []
    for words in reversed(lines):
        target = words[words.index("-o") + 1] if "-o" in words[:-1] else ""
        is_read = _has(chain(*kept), target)
        failed = not ok and not kept
        if failed or is_read or target == "" or target.startswith("out/"):
            kept.insert(0, words)
    return kept


def _recorded(done: Done) -> Lines:
    """Return the commands of an action; none where the code under test wrote something else there: nothing else reads these."""
    found = done.result.metrics.get("commands")
    lines = [words for words in found if isinstance(words, list)] if isinstance(found, list) else []
    return [list(map(str, words)) for words in lines]


def _has(words: Iterable[str], path: str) -> bool:
    """Return whether command lines name a path, also inside an option: ``--input=@in/x.npy``, ``library-paths=x.mlir}``."""
    return any(re.search(_PATH.format(re.escape(path)), word) for word in words)


def _renamed(word: str, paths: Mapping[str, str]) -> str:
    """Return a word with the names of files in the report's folder."""
    for path, name in paths.items():
        word = re.sub(_PATH.format(re.escape(path)), lambda _, name=name: name, word)  # type: ignore[misc]
    return word


def _data(catalog: Catalog, done: Mapping[str, Done], ref: Input, read: Callable[[str], bytes]) -> bytes:
    """Return a file; nothing for one that is lost or long."""
    try:
        if isinstance(ref, File):
            data = (catalog.roots[ref.root] / ref.path).read_bytes()
        else:
            data = read(done[ref.action].result.outputs[ref.output])
        return data if len(data) <= _LONGEST else b""
    except (OSError, ValueError, KeyError):
        return b""


def passes_of(plan: PlannedTests, done: Mapping[str, Done], test: str, step: str) -> frozenset[str]:
    """Return the names of passes in the command lines of a step: of ``--pass-pipeline=`` and options that are passes."""
    words: set[str] = set()
    for name in plan.needed_by(test):
        if name in done and ActionId.parse(name).label == step.partition(" ")[0]:
            for line in _recorded(done[name]):
                words |= {each for word in line[1:] if word.startswith("-") for each in _WORD.findall(word)}
    return frozenset(words)


def pass_of(plan: PlannedTests, test: str, step: str) -> str:
    """Return the pass of a step that has one besides those that clean up; else nothing."""
    actions = map(plan.graph.actions.__getitem__, plan.needed_by(test))
    passes = {name for each in actions if each.label == step for name in pass_names(each.params.get("passes", ""))}
    return passes.pop() if len(passes) == 1 else ""


def pass_names(pipeline: str) -> frozenset[str]:
    """Return the names of the passes of a pipeline, without those that clean up."""
    before = ""
    while before != pipeline:
        before, pipeline = pipeline, _OPTIONS.sub("", pipeline)
    return frozenset(_PASS.findall(pipeline)) - _CLEANING
