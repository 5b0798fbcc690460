"""Make the result of a bisection: behaviours, changes, and what the first of them changed in the IR."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Literal

from mlir_matrix.bisect.changes import Change, changes
from mlir_matrix.bisect.difference import StepDifference, first_difference
from mlir_matrix.bisect.observations import Observation, Scan
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.bisect.signature import PASS, Signature
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.pins import release_of
from mlir_matrix.execute.keys import input_names
from mlir_matrix.plan.graph import File, Input, Produced

#: Longer files are not part of a report. Bytes.
_LONGEST = 20_000


@dataclass(frozen=True, kw_only=True)
class ExplainedChange:
    """A change of behaviour, with the first step that gives something else, and where the sources differ."""

    change: Change[Signature]
    difference: StepDifference | None
    #: A page with the commits between the releases; empty if their sources are not known.
    commits: str

    @property
    def word(self) -> Literal["broke", "fixed", "differs"]:
        if self.change.was == PASS:
            return "broke"
        return "fixed" if self.change.becomes == PASS else "differs"


@dataclass(frozen=True, kw_only=True)
class Commands:
    """What repeats a test without this program."""

    #: Command lines by step, for a folder that has the files.
    steps: Mapping[str, Sequence[str]]
    #: The text of the files that no command makes.
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """The result for one test."""

    test: str
    axis: Axis
    observations: Sequence[Observation]
    changes: Sequence[ExplainedChange]
    #: At the point that ``shown`` returns.
    commands: Commands

    @property
    def behaviours(self) -> dict[Signature, str]:
        """Return the behaviours in the order of their first points, with a letter for each."""
        seen = dict.fromkeys(each.signature for each in self.observations if each.signature is not None)
        return {each: _letter(number) for number, each in enumerate(seen)}


def shown(observations: Sequence[Observation]) -> Observation | None:
    """Return the observation that a report repeats: the newest failure, else the newest that is known."""
    known = [each for each in reversed(observations) if each.signature is not None]
    return next((each for each in known if each.signature != PASS), known[0] if known else None)


def _letter(number: int) -> str:
    return ascii_uppercase[number] if number < len(ascii_uppercase) else f"Z{number}"


def explain(catalog: Catalog, axis: Axis, scan: Scan, read: Callable[[str], bytes]) -> Iterator[Bisection]:
    """Return the result of each test."""
    for test, by_point in scan.observations.items():
        observations = [by_point[point] for point in sorted(by_point)]
        found = [
            ExplainedChange(
                change=change,
                difference=first_difference(
                    scan.plan,
                    scan.run.done,
                    (observations[change.before].result.id, observations[change.after].result.id),
                    read,
                ),
                commits=_commits(catalog, axis, change),
            )
            for change in changes([each.signature for each in observations])
        ]
        chosen = shown(observations)
        commands = _commands(catalog, scan, chosen.result.id, read) if chosen else Commands(steps={}, files={})
        yield Bisection(test=test, axis=axis, observations=observations, changes=found, commands=commands)


def _commits(catalog: Catalog, axis: Axis, change: Change[Signature]) -> str:
    """Return the page that compares the sources of two releases, where these are on GitHub."""
    entry = catalog.components[axis.component]
    before, after = (release_of(entry, axis.releases[point]).commit for point in (change.before, change.after))
    link = entry.document.link or ""
    known = before and after and link.startswith("https://github.com/")
    return f"{link}/compare/{before}...{after}" if known else ""


def _commands(catalog: Catalog, scan: Scan, test: str, read: Callable[[str], bytes]) -> Commands:
    """Return the command lines of a test's steps, and the files that they begin with."""
    graph, steps, files = scan.plan.graph, dict[str, list[str]](), dict[str, str]()
    names: dict[Input, str] = {}
    last = scan.plan.verdicts.get(test)
    for number, identifier in enumerate(graph.needed_by(last) if last else ()):
        done, action = scan.run.done.get(identifier), graph.actions[identifier]
        commands = done.result.metrics.get("commands", ()) if done else ()
        paths: dict[str, str] = {}
        for name, path in input_names(action, graph).items():
            ref = action.inputs[name]
            paths[path] = names.get(ref, os.path.basename(path))
            used = any(path in words for words in commands)
            if used and paths[path] not in files and not _is_made(ref, scan):
                files[paths[path]] = _text(catalog, scan, ref, read)
        for name, file in action.outputs.items():
            names[Produced(identifier, name)] = paths[f"out/{file}"] = f"{number:02}-{file}"
        if commands:
            steps[identifier.rpartition("-")[0]] = [
                shlex.join(paths.get(word, word) for word in words) for words in commands
            ]
    return Commands(steps=steps, files={name: text for name, text in files.items() if text})


def _is_made(ref: Input, scan: Scan) -> bool:
    """Return whether a command makes a file."""
    return isinstance(ref, Produced) and bool(scan.run.done[ref.action].result.metrics.get("commands"))


def _text(catalog: Catalog, scan: Scan, ref: Input, read: Callable[[str], bytes]) -> str:
    """Return a file as text; nothing for one that is none, is lost or is long."""
    try:
        if isinstance(ref, File):
            data = (catalog.roots[ref.root] / ref.path).read_bytes()
        else:
            data = read(scan.run.done[ref.action].result.outputs[ref.output])
        return data.decode() if len(data) <= _LONGEST else ""
    except (OSError, ValueError, KeyError):
        return ""
