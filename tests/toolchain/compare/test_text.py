"""Texts: the grammar of numbers and words, in compiled code and in Python alike."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.compare import text
from mlir_matrix.compare.text import Texts, read_pairs

PIECES = [
    "1", "2.5", "-3", "+4e2", "1d3", "1D-3", "0x1F", "0x1.8p3", "0x", "0xp", "nan", "-inf", "Infinity", "INF", "infx", "abc", "x1",
    "_", "e5", "1e", "1e+", ".5", "5.", ".", "..", "-", "--1", " ", "  ", "\n", "\t", "\r\n", "#", "(", ",", "1.2.3",
    "9007199254740993", "1.7976931348623157e308", "1e400", "-1e-400", "4.9e-324", "0.30000000000000004", "123456789012345678901",
    "1e23", "é", "0x1p-1080", "0X.8", "nan(1)", "12345678901234567e-5", "1dx", "3e5x", "0x1.g", "\0", "0" * 30 + "7",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


def content(found: Texts) -> tuple[Any, ...]:
    """Everything, with NaN equal to NaN."""
    values = [repr(number) for number in (*found.actual.tolist(), *found.expected.tolist())]
    return values, found.lines.tolist(), found.columns.tolist(), found.words, found.differs


@given(actual=TEXTS, expected=TEXTS, same=st.booleans(), any_space=st.booleans())
def test_compiled_code_and_python_read_alike(
    library: ctypes.CDLL, actual: str, expected: str, same: bool, any_space: bool
) -> None:
    left, right = actual.encode(), (actual if same else expected).encode()
    compiled = text._compiled(library, left, right, any_space=any_space)
    assert content(compiled) == content(text._interpreted(left, right, any_space=any_space))


@given(
    number=st.one_of(st.floats(), st.floats(width=32), st.integers(-(10**25), 10**25)),
    form=st.sampled_from(["", ".17g", ".3e", "f"]),
)
def test_every_number_is_read_as_python_reads_it(library: ctypes.CDLL, number: float, form: str) -> None:
    written = format(number, form)
    for read in (text._compiled, lambda _, *texts, **how: text._interpreted(*texts, **how)):
        found = read(library, written.encode(), b"1", any_space=False)
        assert not found.differs
        (value,) = found.actual.tolist()
        assert value == float(written) or (math.isnan(value) and math.isnan(float(written)))
        assert math.copysign(1, value) == math.copysign(1, float(written))


def test_numbers_that_are_too_long_are_text(library: ctypes.CDLL) -> None:
    for digits in (text.LONGEST, text.LONGEST + 1):
        left, right = b"1" * digits + b" 2", b"1" * (digits - 1) + b"2 2"
        compiled = text._compiled(library, left, right, any_space=False)
        assert content(compiled) == content(text._interpreted(left, right, any_space=False))
        assert bool(compiled.differs) == (digits > text.LONGEST)
        same = text._compiled(library, left, left, any_space=False)
        assert (same.actual.size, same.words) == ((1, 1) if digits > text.LONGEST else (2, 0))


def test_large_texts_go_by_compiled_code_in_chunks(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(3000, 3))
    data = "".join(f"row {number}: {' '.join(map(repr, row.tolist()))}\n" for number, row in enumerate(rows)).encode()
    assert len(data) > text.WORTHWHILE
    monkeypatch.setattr(text, "_CHUNK", 777)
    found = read_pairs(data, data)
    assert found.actual.size == 12_000
    assert found.words == 6000
    assert np.array_equal(found.actual.reshape(-1, 4)[:, 1:], rows)
    assert found.lines.reshape(-1, 4)[-1].tolist() == [3000] * 4
    assert content(found) == content(text._interpreted(data, data, any_space=False))


@pytest.mark.parametrize(
    ("actual", "expected", "differs"),
    [
        ("a 1\nb 2", "a 1\nc 2", "line 2, column 1: the texts differ: actual 'b 2', expected 'c 2'"),
        ("a 1", "a 1 2", "line 1, column 4: the actual text ends here, the other continues with '2'"),
        ("a 1 2", "a 1", "line 1, column 5: the expected text ends here, the other continues with '2'"),
        ("a 1 2", "a 1\n2", "line 1, column 5: the texts differ: actual '2', expected '2'"),
        ("1 x", "1 2", "line 1, column 3: the texts differ: actual 'x', expected '2'"),
        ("x1", "x2", "line 1, column 1: the texts differ: actual 'x1', expected 'x2'"),
        ("  a   1\t2  \n\n", "a 1 2", ""),
        ("1 nan", "1 7", ""),
    ],
)
def test_where_texts_differ(actual: str, expected: str, differs: str) -> None:
    assert read_pairs(actual.encode(), expected.encode()).differs == differs


def test_line_breaks_may_be_blanks() -> None:
    assert not read_pairs(b"a 1 2", b"a 1\n2", any_space=True).differs
