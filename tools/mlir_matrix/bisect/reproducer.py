"""Return the command lines that repeat a test without this program, and the files that they need."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from mlir_matrix.actions.contract import fill
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.bisect.checks import Checks, call_and_compare, compare_files
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.keys import input_names
from mlir_matrix.plan.graph import ActionId, File, Input, PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests

#: In a pipeline or an option.
_PASS = re.compile(r"[a-z][\w]*(?:-[\w]+)+|cse|canonicalize")
_OPTIONS, _CLEANING = re.compile(r"\{[^}]*\}"), {"canonicalize", "cse"}
#: The copy of a step's schedule into which the tool ``passes`` fills parameters.
_SCHEDULE = "schedule.mlir"
#: What surrounds a path in a word is part of no name.
_PATH = r"(?<![\w./-]){}(?![\w./-])"
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
) -> Commands:
    """Return the command lines of a test's steps, and those that compare what it gives; and the files that they need.

    ``until``: the last step that is wanted.
    """
    graph, steps, files = plan.graph, dict[str, list[str]](), dict[str, bytes]()
    names: dict[Input, str] = {}
    compares = False
    for number, identifier in enumerate(plan.needed_by(test)):
        action = graph.actions[identifier]
        commands = _used(_lines(done[identifier]), done[identifier].result.ok) if identifier in done else []
        paths: dict[str, str] = {}
        for name, path in input_names(action, graph).items():
            ref = action.inputs[name]
            paths[path] = names.get(ref, os.path.basename(path))
            if _has(chain(*commands), path) and paths[path] not in files and not _is_made(ref, done):
                files[paths[path]] = _data(catalog, done, ref, read)
        if "schedule" in action.inputs and _has(chain(*commands), _SCHEDULE):
            paths[_SCHEDULE] = f"{number:02}-{_SCHEDULE}"
            text = _data(catalog, done, action.inputs["schedule"], read).decode("utf-8", "replace")
            files[paths[_SCHEDULE]] = fill(text, action.params.get("parameters", {})).encode()
        for name, file in action.outputs.items():
            names[Produced(identifier, name)] = paths[f"out/{file}"] = f"{number:02}-{file}"
        if action.stage == Stage.RUN and identifier in done:
            checks = _checks(plan, done, action, names, lambda ref: _data(catalog, done, ref, read))
            commands, files, compares = [*commands, *checks[0]], files | checks[1], compares or bool(checks[0])
        if commands:
            steps[action.label] = [shlex.join(_renamed(word, paths) for word in words) for words in commands]
        if action.label == until:
            break
    return Commands(steps=steps, files={name: data for name, data in files.items() if data}, compares=compares)


def _checks(
    plan: PlannedTests,
    done: Mapping[str, Done],
    run: PlannedAction,
    names: Mapping[Input, str],
    data: Callable[[Input], bytes],
) -> Checks:
    """Return what compares the outputs of a run, if it wrote them by commands or called what commands made."""
    result = done[run.id].result
    if _lines(done[run.id]):
        return compare_files(plan, run, names, data) if result.ok else ([], {})
    made = any(_is_made(ref, done) for source in run.sources for ref in plan.graph.actions[source].inputs.values())
    return call_and_compare(plan, run, result, names, data) if made else ([], {})


def _used(lines: list[list[str]], ok: bool) -> list[list[str]]:
    """Return the command lines of an action without those that only checked something: nothing reads what they write."""
    kept: list[list[str]] = []
    for words in reversed(lines):
        target = words[words.index("-o") + 1] if "-o" in words[:-1] else ""
        is_read = _has(chain(*kept), target)
        failed = not ok and not kept
        if failed or is_read or target == "" or target.startswith("out/"):
            kept.insert(0, words)
    return kept


def _lines(done: Done) -> list[list[str]]:
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


def _is_made(ref: Input, done: Mapping[str, Done]) -> bool:
    """Return whether a command makes a file."""
    return isinstance(ref, Produced) and bool(_lines(done[ref.action]))


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
            for line in _lines(done[name]):
                words |= {each for word in line[1:] if word.startswith("-") for each in _PASS.findall(word)}
    return frozenset(words)


def pass_of(plan: PlannedTests, test: str, step: str) -> str:
    """Return the pass of a step that has one besides those that clean up; else nothing."""
    actions = map(plan.graph.actions.__getitem__, plan.needed_by(test))
    texts = [_OPTIONS.sub("", str(each.params.get("passes", ""))) for each in actions if each.label == step]
    passes = {name for text in texts for name in _PASS.findall(text)} - _CLEANING
    return passes.pop() if len(passes) == 1 else ""
