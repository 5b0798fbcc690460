"""Find the new name of a pass or option that a step uses and a newer compiler does not know."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mlir_matrix.catalog.models.base import Step
from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.environments.installed.prefix import read_prefix, wrapper
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.confined import confined_version
from mlir_matrix.results.results import TestResult

#: What compilers say of names that they do not know.
_UNKNOWN = (
    re.compile(r"'([\w.-]+)' does not refer to a registered pass"),
    re.compile(r"[Uu]n(?:known|recognized) (?:command.line )?(?:argument|option):? '?--?([\w.-]+)"),
)
#: An option in the list of ``--help``.
_OPTION = re.compile(r"^\s+--?([A-Za-z][\w.-]+)", re.MULTILINE)
#: How similar a new name is at least, where several are new.
_ALIKE = 0.6


@dataclass(frozen=True)
class Rename:
    """A name in the file of a step, and the one that takes its place."""

    step: str
    old: str
    new: str
    path: Path
    #: The file with the new name.
    text: str


def find_rename(
    session: Session, result: TestResult, before: Path, after: Path, texts: Mapping[Path, str]
) -> Rename | None:
    """Return how to change the step that failed; ``before``, ``after``: prefixes of builds that know the old name, and do not.

    ``texts``: the files that earlier renames changed.
    None if the step did not fail for an unknown name, if nothing like it is new, or if its file has the name more than once.
    """
    said = f"{result.reason}\n{result.diagnostics}"
    old = next((found[1] for each in _UNKNOWN if (found := each.search(said))), "")
    entry = session.catalog.steps.get(str(result.step["name"])) if result.step else None
    if not old or entry is None:
        return None
    new = _similar(old, _options(session, after) - _options(session, before))
    path = entry.folder / "step.yaml"
    text = texts.get(path) or path.read_text(encoding="utf-8")
    # Of an option, its dashes come before the name.
    name = re.compile(rf"(?<![\w.])(?<!\w-){re.escape(old)}(?![\w.-])")
    if not new or len(name.findall(text)) != 1:
        return None
    return Rename(entry.name, old, new, path, name.sub(new, text))


def renamed(session: Session, rename: Rename) -> Session:
    """Return the session with the changed step."""
    catalog = session.catalog
    entry = catalog.steps[rename.step]
    source = parse(rename.text, entry.source.file)
    step = replace(entry, document=Step.model_validate(source.data), source=source)
    changed = replace(catalog, steps={**catalog.steps, rename.step: step})
    return session.with_catalog(changed)


def _similar(old: str, new: set[str]) -> str:
    if len(new) == 1:
        return next(iter(new))
    return next(iter(difflib.get_close_matches(old, sorted(new), 1, _ALIKE)), "")


def _options(session: Session, prefix: Path) -> set[str]:
    """Return the names that the programs of a prefix list in their help."""
    return {name for text in _helps(session, prefix) for name in _OPTION.findall(text)}


def _helps(session: Session, prefix: Path) -> Iterator[str]:
    for name, program in read_prefix(prefix).programs.items():
        path = wrapper(prefix, name) if program.loaded else prefix / program.path
        # A program may need the libraries of other prefixes.
        yield confined_version(str(path), str(session.home.packages), "--help")
