"""Compare files and folders: pair them by name, and report missing and additional ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np

from mlir_matrix.actions.numerics.dtypes import Array
from mlir_matrix.base.errors import UsageError
from mlir_matrix.compare.arrays import compare_arrays
from mlir_matrix.compare.files import ArchiveFile, Content, Raw, read
from mlir_matrix.compare.result import Comparison
from mlir_matrix.compare.rules import Rules
from mlir_matrix.compare.text import Buffer, Texts, read_pairs


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """How to compare, for all that is compared."""

    rules: Rules = field(default_factory=Rules)
    #: What the elements are of files that do not say it, or hold them as bits that NumPy has no type for.
    raw: Raw | None = None
    golden: bool = False
    any_space: bool = False


@dataclass(frozen=True)
class Unreadable:
    """A pair of which one side could not be read, and why."""

    name: str
    reason: str


Found = Comparison | Unreadable


def compare_paths(actual: Path, expected: Path, how: CompareOptions) -> Iterator[Found]:
    """Compare two files or two folders, pair by pair, sorted by name. Raise UsageError."""
    for path, side in ((actual, "ACTUAL"), (expected, "EXPECTED")):
        if not os.path.exists(path):
            raise UsageError(f"{side}: there is no file or folder {path}")
    if actual.is_dir() != expected.is_dir():
        folder, file = (actual, expected) if actual.is_dir() else (expected, actual)
        raise UsageError(f"{folder} is a folder and {file} is a file: give two files or two folders")
    if actual.is_dir():
        yield from _folders(actual, expected, how)
        return
    try:
        yield from _pair("", actual, expected, how)
    except OSError as error:
        raise UsageError(_why(error)) from None


def _folders(actual: Path, expected: Path, how: CompareOptions) -> Iterator[Found]:
    ours, theirs = _listed(actual), _listed(expected)
    if not theirs:
        raise UsageError(f"{expected}: the folder holds no files: nothing is expected, which proves nothing")
    for name in sorted(ours | theirs):
        if name not in theirs:
            yield _lonely(name, "there is no such file among the expected ones")
        elif name not in ours:
            yield _lonely(name, "the file is missing")
        else:
            try:
                yield from _pair(name, actual / name, expected / name, how)
            except (UsageError, OSError) as error:
                yield Unreadable(name, _why(error))


def _listed(folder: Path) -> set[str]:
    """Return the files below a folder, through links too, as relative paths. Raise UsageError."""
    files: set[str] = set()
    waiting: list[tuple[str, frozenset[tuple[int, int]]]] = [(os.fspath(folder), frozenset())]
    while waiting:
        place, above = waiting.pop()
        try:
            status = os.stat(place)
            if (status.st_dev, status.st_ino) in above:
                raise UsageError(f"{place}: the link leads back to a folder above it")
            within = above | {(status.st_dev, status.st_ino)}
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir():
                        waiting.append((entry.path, within))
                    else:
                        files.add(os.path.relpath(entry.path, folder))
        except OSError as error:
            raise UsageError(_why(error)) from None
    return files


def _why(error: Exception) -> str:
    """Return the message of an error, with the file first."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _lonely(name: str, reason: str) -> Comparison:
    return Comparison({"name": name, "outcome": "mismatch", "reason": f"{name}: {reason}" if name else reason})


def _pair(name: str, actual: Path, expected: Path, how: CompareOptions) -> Iterator[Found]:
    left, right = read(actual, how.raw), read(expected, how.raw)
    if isinstance(left, ArchiveFile) and isinstance(right, ArchiveFile):
        yield from _archives(name, left, right, how)
    elif isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        yield _arrays(name, left, right, how, actual)
    elif isinstance(left, mmap) and isinstance(right, mmap):
        yield compare_texts(left, right, how, name)
    else:
        yield _lonely(name, f"{_kind(left)} cannot be compared with {_kind(right)}")


def _kind(content: Content) -> str:
    if isinstance(content, np.ndarray):
        return "an array"
    return "an archive of arrays" if isinstance(content, ArchiveFile) else "text"


def _arrays(name: str, left: Array, right: Array, how: CompareOptions, place: Path) -> Comparison:
    try:
        return compare_arrays(
            left,
            right,
            how.rules,
            dtype=how.raw.dtype if how.raw is not None else None,
            golden=how.golden,
            name=name,
        )
    except ValueError as error:
        raise UsageError(f"{place}{f', {name}' if name else ''}: {error}") from None


def _archives(name: str, left: ArchiveFile, right: ArchiveFile, how: CompareOptions) -> Iterator[Found]:
    if not right.names:
        raise UsageError(f"{right.path}: the archive holds no arrays: nothing is expected, which proves nothing")
    for member in sorted({*left.names, *right.names}):
        inner = f"{name}:{member}" if name else member
        if member not in right.names:
            yield _lonely(inner, "there is no such array among the expected ones")
        elif member not in left.names:
            yield _lonely(inner, "the array is missing")
        else:
            try:
                yield _arrays(inner, left.read(member), right.read(member), how, left.path)
            except UsageError as error:
                yield Unreadable(inner, str(error))


def compare_texts(actual: Buffer, expected: Buffer, how: CompareOptions, name: str = "") -> Comparison:
    """Compare two texts: their numbers as doubles, the rest byte by byte."""
    texts = read_pairs(actual, expected, any_space=how.any_space)
    if texts.differs or not texts.actual.size:
        return Comparison({"name": name, "compare": "text", "numbers": texts.actual.size, **_words(texts)})
    found = compare_arrays(texts.actual, texts.expected, how.rules, name=name)
    record = {**found.record, "words": texts.words}
    if "worst" in record:
        record["worst"] = [_placed(element, texts) for element in record["worst"]]
        if not found and record["worst"]:
            record["reason"] += " (line {line}, column {column})".format(**record["worst"][0])
    return Comparison(record, actual=found.actual, expected=found.expected, criteria=found.criteria)


def _words(texts: Texts) -> dict[str, Any]:
    """Return the outcome of texts that differ outside of numbers, or have none."""
    right = f"all {texts.words} words are equal; there are no numbers"
    empty = "" if texts.words else "there is nothing but white space: nothing was compared"
    wrong = texts.differs or empty
    return {"words": texts.words, "outcome": "mismatch" if wrong else "pass", "reason": wrong or right}


def _placed(element: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    (at,) = element["index"]
    return {**element, "line": int(texts.lines[at]), "column": int(texts.columns[at])}
