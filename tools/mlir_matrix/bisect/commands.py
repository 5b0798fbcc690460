"""Return the command lines that repeat a test without this program, and the files that they begin with."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.keys import input_names
from mlir_matrix.plan.graph import File, Input, Produced
from mlir_matrix.plan.planner import Plan

#: In a pipeline or an option.
_PASS = re.compile(r"[a-z][\w]*(?:-[\w]+)+|cse|canonicalize")
#: Longer files are not part of a report. Bytes.
_LONGEST = 20_000


@dataclass(frozen=True, kw_only=True)
class Commands:
    """What repeats a test without this program."""

    #: Command lines by step, for a folder that has the files.
    steps: Mapping[str, Sequence[str]]
    #: The text of the files that no command makes.
    files: Mapping[str, str]


def commands_of(
    catalog: Catalog, plan: Plan, done: Mapping[str, Done], test: str, read: Callable[[str], bytes]
) -> Commands:
    """Return the command lines of a test's steps, and the files that they begin with."""
    graph, steps, files = plan.graph, dict[str, list[str]](), dict[str, str]()
    names: dict[Input, str] = {}
    for number, identifier in enumerate(plan.needed_by(test)):
        action = graph.actions[identifier]
        commands = _lines(done[identifier]) if identifier in done else []
        paths: dict[str, str] = {}
        for name, path in input_names(action, graph).items():
            ref = action.inputs[name]
            paths[path] = names.get(ref, os.path.basename(path))
            used = any(_split(word, path) is not None for words in commands for word in words)
            if used and paths[path] not in files and not _is_made(ref, done):
                files[paths[path]] = _text(catalog, done, ref, read)
        for name, file in action.outputs.items():
            names[Produced(identifier, name)] = paths[f"out/{file}"] = f"{number:02}-{file}"
        if commands:
            steps[identifier.rpartition("-")[0]] = [
                shlex.join(_renamed(word, paths) for word in words) for words in commands
            ]
    return Commands(steps=steps, files={name: text for name, text in files.items() if text})


def _lines(done: Done) -> list[list[str]]:
    """Return the commands of an action; none where the code under test wrote something else there: nothing else reads these."""
    found = done.result.metrics.get("commands")
    lines = [words for words in found if isinstance(words, list)] if isinstance(found, list) else []
    return [list(map(str, words)) for words in lines]


def _split(word: str, path: str) -> str | None:
    """Return what is before a path in a word, ``--input=@`` for example; None if the word does not end with the path."""
    option = word.removesuffix(path)
    return option if option != word and option[-1:] in ("", "=", "@", ":", ",") else None


def _renamed(word: str, paths: Mapping[str, str]) -> str:
    """Return a word with the name of a file in the report's folder."""
    options = ((_split(word, path), name) for path, name in paths.items())
    return next((option + name for option, name in options if option is not None), word)


def _is_made(ref: Input, done: Mapping[str, Done]) -> bool:
    """Return whether a command makes a file."""
    return isinstance(ref, Produced) and bool(_lines(done[ref.action]))


def _text(catalog: Catalog, done: Mapping[str, Done], ref: Input, read: Callable[[str], bytes]) -> str:
    """Return a file as text; nothing for one that is none, is lost or is long."""
    try:
        if isinstance(ref, File):
            data = (catalog.roots[ref.root] / ref.path).read_bytes()
        else:
            data = read(done[ref.action].result.outputs[ref.output])
        return data.decode() if len(data) <= _LONGEST else ""
    except (OSError, ValueError, KeyError):
        return ""


def passes_of(plan: Plan, done: Mapping[str, Done], test: str, step: str) -> frozenset[str]:
    """Return the names of passes in the command lines of a step: of ``--pass-pipeline=`` and options that are passes."""
    words: set[str] = set()
    for name in plan.needed_by(test):
        if name in done and name.rpartition("-")[0] == step.partition(" ")[0]:
            for line in _lines(done[name]):
                words |= {each for word in line[1:] if word.startswith("-") for each in _PASS.findall(word)}
    return frozenset(words)
