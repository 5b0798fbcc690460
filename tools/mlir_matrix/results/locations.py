"""Find the files of locations in an action's folder: catalog files, and the files that are kept of a failure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.execute.keys import input_names
from mlir_matrix.plan.graph import BUILDING, File, Graph

#: Copies with the same lines that tools read, by input: files of steps with values of parameters, and tests with RUN lines.
_COPIES = {"schedule": "schedule", "patterns": "patterns", "artifact": "test"}
#: A location of the bindings: ``loc("x.mlir":3:5)``.
_LOCATION = re.compile(r'loc\("([^"\n]+)":(\d+):(\d+)\)')
_FRAME = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)


@dataclass(frozen=True)
class Locations:
    """The files that an action reads, by their paths in its folder."""

    files: Mapping[str, str]

    def __call__(self, text: str) -> str:
        """Return a text with the locations of the files."""
        text = re.sub(rf"{_any_of(self.files)}(?![\w-]|\.\w)", lambda found: self.files[found[0]], text)
        return _LOCATION.sub(r"\1:\2:\3", text)

    def first(self, text: str) -> str:
        """Return the first ``FILE:LINE`` or ``FILE:LINE:COLUMN`` of a text, or the innermost frame of a traceback."""
        frames = [f"{path}:{line}" for path, line in _FRAME.findall(text) if path in self.files.values()]
        if frames:
            return frames[-1]
        found = re.search(rf"{_any_of(self.files.values())}:\d+(?::\d+)?", text)
        return found[0] if found else ""


def _any_of(paths: Iterable[str]) -> str:
    """Return an expression for any of these paths that is not the end of another; without paths it matches nothing."""
    return rf"(?<![\w./-])(?:{'|'.join(map(re.escape, paths)) or '(?!)'})"


def kept_names(graph: Graph, last: str) -> dict[str, str]:
    """Return how the names of kept files begin, by the action that they belong to, for a test whose last action is ``last``."""
    needed = [graph.actions[name] for name in graph.needed_by(last)]
    kept = (action for action in needed if action.tool not in BUILDING)
    return {action.id: f"{number:02}-{action.label.replace('/', '-')}" for number, action in enumerate(kept, 1)}


def locations_of(graph: Graph, last: str, failed: str, roots: Sequence[Path], kept: str) -> Locations:
    """Return the files that the action ``failed`` of a test reads; ``kept``: the folder of the test's files, if they are kept.

    Files of the first catalog are named relative to it. Without a folder, what other actions made keeps its name.
    """
    action, names = graph.actions[failed], kept_names(graph, last)
    files: dict[str, str] = {}
    for name, path in input_names(action, graph).items():
        ref = action.inputs[name]
        if isinstance(ref, File):
            files[path] = ref.shown(roots)
        elif kept and ref.action in names:
            output = graph.actions[ref.action].outputs[ref.output]
            files[path] = os.path.join(kept, f"{names[ref.action]}-{output}")
        if name in _COPIES and isinstance(ref, File):
            files[f"{_COPIES[name]}{os.path.splitext(path)[1]}"] = files[path]
    return Locations(files)
