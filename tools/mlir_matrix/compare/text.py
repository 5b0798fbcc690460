"""Compare texts with numbers in them: words must be equal, numbers are compared as numbers.

The grammar: a *word* is a letter or ``_``, then letters, ``_`` and digits. A *number* is decimal, with an exponent after
``e`` or ``d`` (Fortran's), or hexadecimal as C writes it, or one of the words ``nan``, ``inf``, ``infinity`` in any case; with a
sign before it or not. Anything else that is no white space is a token of one character. Blanks are not compared; line breaks are,
but for those at the beginning and the end.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.compare import native

#: Bytes from which on compiled code is asked for.
WORTHWHILE = 1 << 14
#: Characters of a number; longer ones are text. As in ``text.c``.
LONGEST = 1000
_TOKEN = re.compile(
    rb"(?P<space>[ \t-\r]+)"
    rb"|(?P<number>[+-]?(?:0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?"
    rb"|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eEdD][+-]?[0-9]+)?"
    rb"|(?i:nan|inf|infinity)(?![A-Za-z0-9_])))"
    rb"|(?P<text>[A-Za-z_][A-Za-z0-9_]*|.)",
    re.DOTALL,
)
_CHUNK = 1 << 16
_Doubles = NDArray[np.float64]
_Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The numbers of two texts in pairs, and where the texts themselves differ first."""

    actual: _Doubles
    expected: _Doubles
    #: Of the numbers in the actual text, from 1.
    lines: _Places
    columns: _Places
    words: int
    #: What is wrong with the texts apart from numbers, with line and column; empty if nothing is.
    differs: str


#: A text: read, or mapped.
Buffer: TypeAlias = bytes | memoryview | mmap.mmap


def read_pairs(actual: Buffer, expected: Buffer, *, any_space: bool = False) -> Texts:
    """Compare two texts (bytes or buffers). With ``any_space`` a line break equals any other blank."""
    library = native.load() if max(len(actual), len(expected)) >= WORTHWHILE else None
    if library is not None:
        return _compiled(library, actual, expected, any_space=any_space)
    return _interpreted(bytes(actual), bytes(expected), any_space=any_space)


class _State(ctypes.Structure):
    """``State`` of ``text.c``."""

    _fields_ = [(name, ctypes.c_int64) for name in ("left", "right", "pairs", "words", "lines", "columns", "differs")]


def _compiled(library: ctypes.CDLL, actual: Buffer, expected: Buffer, *, any_space: bool) -> Texts:
    left, right = np.frombuffer(actual, dtype=np.uint8), np.frombuffer(expected, dtype=np.uint8)
    convert = ctypes.cast(ctypes.CDLL(None).strtod, ctypes.c_void_p)
    state = _State()
    parts: list[tuple[_Doubles, _Doubles, _Places, _Places]] = []
    while True:
        before = state.pairs
        values = np.empty((2, _CHUNK)), np.empty((2, _CHUNK), dtype=np.int64)
        library.matrix_text(
            ctypes.c_void_p(left.ctypes.data), ctypes.c_int64(left.size), ctypes.c_void_p(right.ctypes.data),
            ctypes.c_int64(right.size), ctypes.c_int(any_space), convert,
            *(ctypes.c_void_p(row.ctypes.data) for pair in values for row in pair), ctypes.c_int64(_CHUNK), ctypes.byref(state),
        )  # fmt: skip
        found = state.pairs - before
        parts.append((values[0][0][:found], values[0][1][:found], values[1][0][:found], values[1][1][:found]))
        if found < _CHUNK:
            break
    actuals, expecteds, lines, columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    rest = bytes(left[state.left : state.left + 40]), bytes(right[state.right : state.right + 40])
    differs = _differs(state.differs, state.lines, state.columns, *rest)
    return Texts(
        actual=actuals, expected=expecteds, lines=lines + 1, columns=columns + 1, words=state.words, differs=differs
    )


def _differs(kind: int, line: int, column: int, actual: bytes, expected: bytes) -> str:
    """Return the sentence on the first difference outside of numbers."""
    if not kind:
        return ""
    if kind == 2:
        which, rest = ("expected", actual) if actual else ("actual", expected)
        return (
            f"line {line + 1}, column {column + 1}: the {which} text ends here, the other continues with {_shown(rest)}"
        )
    return (
        f"line {line + 1}, column {column + 1}: the texts differ: actual {_shown(actual)}, expected {_shown(expected)}"
    )


def _shown(text: bytes) -> str:
    """Return the start of a text, at most its first line."""
    lines = text.splitlines() or [b""]
    return repr((lines[0] or b"a line break").decode("utf-8", "replace")[:30])


@dataclass(frozen=True)
class _Token:
    kind: str
    text: bytes
    start: int
    breaks: int


def _tokens(data: bytes) -> Iterator[_Token]:
    breaks = 0
    for match in _TOKEN.finditer(data):
        kind, text = str(match.lastgroup), match[0]
        if kind == "space":
            breaks += text.count(b"\n")
            continue
        if kind == "number" and len(text) > LONGEST:
            kind = "text"
        yield _Token(kind, text, match.start(), breaks)
        breaks = 0
    yield _Token("end", b"", len(data), breaks)


def _interpreted(actual: bytes, expected: bytes, *, any_space: bool) -> Texts:
    pairs: list[tuple[float, float, int]] = []
    words = kind = 0
    left_tokens, right_tokens = _tokens(actual), _tokens(expected)
    while True:
        left, right = next(left_tokens), next(right_tokens)
        kind = _stops(left, right, any_space=any_space, first=not (pairs or words))
        if kind or left.kind == "end":
            break
        if left.kind == "number":
            pairs.append((_value(left.text), _value(right.text), left.start))
        else:
            words += 1
    starts = np.array([start for *_, start in pairs], dtype=np.int64)
    breaks = np.array([match.start() for match in re.finditer(b"\n", actual)], dtype=np.int64)
    lines, columns = _places(np.append(starts, left.start), breaks)
    differs = _differs(
        kind,
        int(lines[-1]),
        int(columns[-1]),
        actual[left.start : left.start + 40],
        expected[right.start : right.start + 40],
    )
    return Texts(
        actual=np.array([first for first, *_ in pairs], dtype=np.float64),
        expected=np.array([second for _, second, _ in pairs], dtype=np.float64),
        lines=lines[:-1] + 1, columns=columns[:-1] + 1, words=words, differs=differs,
    )  # fmt: skip


def _stops(left: _Token, right: _Token, *, any_space: bool, first: bool) -> int:
    """Return whether the texts differ at these tokens; as ``State.differs`` of ``text.c``."""
    if "end" in (left.kind, right.kind):
        return 0 if left.kind == right.kind else 2
    if left.breaks != right.breaks and not any_space and not first:
        return 1
    if left.kind == right.kind == "number":
        return 0
    return int(left.kind != right.kind or left.text != right.text)


def _places(starts: _Places, breaks: _Places) -> tuple[_Places, _Places]:
    """Return lines and columns, from 0, of positions, given the line breaks."""
    lines = np.searchsorted(breaks, starts, side="left")
    begins = np.append(0, breaks + 1)[lines]
    return lines.astype(np.int64), (starts - begins).astype(np.int64)


def _value(text: bytes) -> float:
    if b"x" in text or b"X" in text:
        try:
            return float.fromhex(text.decode())
        except OverflowError:
            return float("-inf") if text.startswith(b"-") else float("inf")
    return float(text.replace(b"d", b"e").replace(b"D", b"e") if text[-1:].isdigit() or text.endswith(b".") else text)
