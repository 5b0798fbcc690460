"""Digests: of values by their canonical JSON, of files by their bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.base.digest import canonical, digest_bytes, digest_file, digest_value

values = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text(strategies.characters(exclude_categories=["Cs"])),
    lambda inner: strategies.lists(inner, max_size=4) | strategies.dictionaries(
        strategies.text(strategies.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip


@hypothesis.given(values)
def test_canonical_is_the_value(value: Any) -> None:
    text = canonical(value)
    assert json.loads(text) == value
    assert digest_value(value) == hashlib.sha256(text).hexdigest() == digest_bytes(text)


@hypothesis.given(strategies.dictionaries(strategies.text("abc", max_size=3), strategies.integers(), min_size=2))
def test_order_of_keys_does_not_count(value: dict[str, int]) -> None:
    assert digest_value(dict(reversed(value.items()))) == digest_value(value)


@pytest.mark.parametrize(
    ("one", "other"), [([1, 2], [2, 1]), ("1", 1), (True, 1), (None, "null"), ({}, []), ([[]], []), (1, 1.0)]
)
def test_different_values_differ(one: Any, other: Any) -> None:
    assert digest_value(one) != digest_value(other)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_what_json_has_no_word_for(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        digest_value(value)


def test_text_is_utf8() -> None:
    assert canonical({"ü": "目"}) == '{"ü":"目"}'.encode()


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_digest_of_a_file(tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    path = tmp_path / "file"
    path.write_bytes(data[:size])
    assert digest_file(path) == digest_file(str(path)) == hashlib.sha256(data[:size]).hexdigest()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        digest_file(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        digest_file(tmp_path)
