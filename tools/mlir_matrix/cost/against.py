"""Find the other side of a comparison: pins, a pipeline or cell, a catalog, a revision, or the results of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.fingerprint import PLAN_FOLDERS
from mlir_matrix.base.names import did_you_mean, printable, split_pins, with_pins
from mlir_matrix.cli.options import SessionOptions
from mlir_matrix.environments.scratch import temporary_folder
from mlir_matrix.environments.session import Session
from mlir_matrix.fleet.affected import find_revision
from mlir_matrix.plan.session import session_of
from mlir_matrix.results.documents import TestEntry
from mlir_matrix.results.merge import read_results

#: The folders of a catalog; one of them shows that a folder is one.
_CATALOG = ("matrix", "recipes", "toolchains", "golden")


@dataclass(frozen=True, kw_only=True)
class Other:
    """The other side: a session whose tests run, or recorded results."""

    session: Session | None = None
    recorded: Mapping[str, TestEntry] = field(default_factory=dict)
    #: Returns the test of this side for one of the tests in question.
    test: Callable[[str], str] = lambda test: test


@contextmanager
def opened(word: str, closed: SessionOptions, current: Session) -> Iterator[Other]:
    """Open the other side that a word names. Raise UsageError if it names none.

    In the order of the checks: ``llvm=19`` are pins, a file has results, a folder is a catalog instead of the last one; then
    pipelines, then cells (``c/native/x86_64``), then revisions of the catalogs' repository.
    """
    path = Path(word)
    if "=" in word:
        yield Other(session=_with_pins(word, closed))
    elif path.is_file():
        yield Other(recorded={each["id"]: each for each in read_results(path)["tests"]})
    elif path.is_dir():
        yield Other(session=_with_catalog(path, closed))
    elif word in current.catalog.pipelines:
        yield Other(session=current, test=lambda test: _through(test, word))
    elif _is_cell(word, current):
        yield Other(session=current, test=lambda test: _in_cell(test, word))
    else:
        with temporary_folder(current.home) as folder:
            yield Other(session=_at_revision(word, closed, current, folder))


def _with_pins(word: str, closed: SessionOptions) -> Session:
    added = word.split(",")
    names = {each.partition("=")[0] for each in added}
    kept = [each for each in closed.pins if each.partition("=")[0] not in names]
    return replace(closed, pins=[*kept, *added]).open()


def _with_catalog(folder: Path, closed: SessionOptions) -> Session:
    if not any((folder / each).is_dir() for each in _CATALOG):
        raise UsageError(f"--against {folder}: it has none of the folders of a catalog, {', '.join(_CATALOG)}")
    return replace(closed, catalogs=[*closed.catalogs[:-1], folder]).open()


def _through(test: str, pipeline: str) -> str:
    """Return the identifier of a test with another pipeline."""
    name, pins = split_pins(test)
    framework, _, rest = name.split("/", 2)
    return with_pins(f"{framework}/{pipeline}/{rest}", pins)


def _is_cell(word: str, current: Session) -> bool:
    parts, catalog = word.split("/"), current.catalog
    known = (catalog.frameworks, catalog.pipelines, catalog.targets)
    return len(parts) == len(known) and all(part in names for part, names in zip(parts, known, strict=True))


def _in_cell(test: str, cell: str) -> str:
    """Return the identifier of the test of the same workload in another cell."""
    name, pins = split_pins(test)
    return with_pins(f"{cell}/{name.split('/', 3)[3]}", pins)


def _at_revision(word: str, closed: SessionOptions, current: Session, folder: Path) -> Session:
    """Return a session with the catalogs as they were at a revision, in the same size."""
    try:
        revision = find_revision(word, current.catalog.roots)
    except UsageError as error:
        near = did_you_mean(word, current.catalog.pipelines)
        wanted = "pins such as llvm=19, a pipeline, a cell, a catalog, a revision or a file with results"
        why = str(error).removeprefix("--changed-since: ")
        raise UsageError(f"--against {printable(word)}: expected {wanted}{near} ({why})") from None
    roots: list[Path] = list(current.catalog.roots)
    for number, place in revision.places.items():
        # A session needs more of this repository: how images are made, and what kernels are linked with.
        parts = PLAN_FOLDERS if number == 0 else _CATALOG
        revision.repository.write_files(revision.commit, [str(Path(place, part)) for part in parts], folder)
        roots[number] = folder / place
    older = session_of(roots, current.home, size=closed.size)
    return replace(older, pins=replace(current.pins, catalog=older.catalog), permissions=current.permissions)
