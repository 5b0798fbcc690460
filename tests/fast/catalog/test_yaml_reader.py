"""Reading YAML: what comes out, where it stands, and what is refused with which sentence."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog import yaml_reader
from mlir_matrix.catalog.yaml_reader import MOST_BYTES, MOST_LEVELS, SourceError, decode, parse, read

TEXT = """\
# a comment
description: |
  Two
  lines
dims: {B: 8, K: 0.5}
steps:
  - one
  - step: two
    with: {sizes: [1, 2], "on": true, none: }
"""


def problem(text: str | bytes) -> str:
    """The message of the error that a file with this text must give."""
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(SourceError) as caught:
        parse(decode(data, "f.yaml"), "f.yaml")
    return str(caught.value)


def test_data() -> None:
    assert parse(TEXT, "f.yaml").data == {
        "description": "Two\nlines\n",
        "dims": {"B": 8, "K": 0.5},
        "steps": ["one", {"step": "two", "with": {"sizes": [1, 2], "on": True, "none": None}}],
    }


def test_positions() -> None:
    found = parse(TEXT, "f.yaml")
    assert found.position("description") == "f.yaml:2:1"
    assert found.position("dims", "K") == "f.yaml:5:14"
    assert found.position("steps", 0) == "f.yaml:7:5"
    assert found.position("steps", 1, "with", "sizes", 1) == "f.yaml:9:23"
    assert found.position("steps", 1, "with", "on") == "f.yaml:9:27"


def test_a_position_that_is_not_there_is_that_of_what_is_around_it() -> None:
    found = parse(TEXT, "f.yaml")
    assert found.position("steps", 1, "with", "nothing", 3) == found.position("steps", 1, "with") == "f.yaml:9:5"
    assert found.position("nothing") == found.position() == "f.yaml:1:1"


def test_columns_count_characters() -> None:
    assert parse("{ä: ü, b: 1}", "f.yaml").position("b") == "f.yaml:1:8"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-12", -12),
        ("+3", 3),
        ("999999999999999999", 10**18 - 1),
        ("1.5", 1.5),
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        (".5", 0.5),
        ("2.", 2.0),
        ("-0.0", -0.0),
        ("f32", "f32"),
        ("2026-10-01", "2026-10-01"),
        ("2026-10-01 12:00:00", "2026-10-01 12:00:00"),
        ("2.13.0", "2.13.0"),
        ("24.0.0+torch-mlir.20261001", "24.0.0+torch-mlir.20261001"),
        ("1e", "1e"),
        ("-x", "-x"),
        ("y", "y"),
        ("N", "N"),
        ('"017"', "017"),
        ("'off'", "off"),
        ('"a\\tb"', "a\tb"),
        ("_1", "_1"),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    (found,) = parse(f"a: {text}", "f").data.values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1: the key 'a' is a duplicate; first at 1:1"),
        ("a: {b: 1, b: 1}", "f.yaml:1:11: the key 'b' is a duplicate; first at 1:5"),
        ("a: &x [1]", "f.yaml:1:4: '&x': anchors are refused; write the value where it is used"),
        ("a: *x", "f.yaml:1:4: '*x': aliases are refused; write the value again"),
        ("a: {<<: {b: 1}}", "f.yaml:1:5: merge keys (<<) are refused; write the keys out"),
        ("a: !!python/name:os.system x", "f.yaml:1:4: '!!python/name:os.system': tags are refused; write the value alone"),
        ("a: !mine {b: c}", "f.yaml:1:4: '!mine': tags are refused; write the value alone"),
        ("a: ! x", "f.yaml:1:4: '!': tags are refused; write the value alone"),
        ("", "f.yaml:1:1: the file is empty"),
        ("# nothing but this\n", "f.yaml:1:1: the file is empty"),
        ("---\n", "f.yaml:1:1: the file is empty"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins here; a file holds one"),
        ("- a", "f.yaml:1:1: expected keys with values (key: value), got a list"),
        ("just words", "f.yaml:1:1: expected keys with values (key: value), got 'just words'"),
        ("a: [1, 2", "f.yaml:2:1: broken YAML: did not find expected ',' or ']' (while parsing a flow sequence)"),
        ("a: b: c", "f.yaml:1:5: broken YAML: mapping values are not allowed in this context"),
        ("a:\n\tb: 1", "f.yaml:2:1: broken YAML: found character that cannot start any token (while scanning for the next token)"),
        ("1: a", 'f.yaml:1:1: a key must be text; write "1"'),
        ("true: a", 'f.yaml:1:1: a key must be text; write "true"'),
        ("? \n: a", "f.yaml:1:2: a key must not be empty"),
        ("? [a]\n: b", "f.yaml:1:3: a key must be text, not a list"),
        ("{{a: b}: c}", "f.yaml:1:2: a key must be text, not a mapping"),
        ("a: off", 'f.yaml:1:4: unquoted off is false to some YAML readers and text to others; write false, or "off" for the text'),
        ("a: Yes", 'f.yaml:1:4: unquoted Yes is true to some YAML readers and text to others; write true, or "Yes" for the text'),
        ("on: 1", 'f.yaml:1:1: unquoted on is true to some YAML readers and text to others; write true, or "on" for the text'),
        ("a: .inf", "f.yaml:1:4: .inf is refused; a number must be finite"),
        ("a: -.INF", "f.yaml:1:4: -.INF is refused; a number must be finite"),
        ("a: .nan", "f.yaml:1:4: .nan is refused; a number must be finite"),
        ("a: 1e999", "f.yaml:1:4: the number is too large"),
        ("a: 1" + 18 * "0", "f.yaml:1:4: a number of 19 digits is too large; 18 at most"),
        ("a: " + 100_000 * "9", "f.yaml:1:4: a number of 100000 characters is too long"),
        (b"a: \xff", "f.yaml:1:4: is not UTF-8: byte 0xff"),
        ("ä: 1\nb: ü".encode("latin-1"), "f.yaml:1:1: is not UTF-8: byte 0xe4"),
        ("a: b\nc: d".encode("utf-16"), "f.yaml:1:1: is not UTF-8: byte 0xff"),
        ("a: 1\nb: \0", "f.yaml:2:4: holds the control character U+0000"),
        ("a: \x1b[31m", "f.yaml:1:4: holds the control character U+001B"),
        ('a: "\\0"', "f.yaml:1:4: holds the control character U+0000"),
        ('a: "\\e[31m"', "f.yaml:1:4: holds the control character U+001B"),
        ("a: '\u202e'", "f.yaml:1:5: holds the control character U+202E"),
        ("a: 1\u2028b: 2", "f.yaml:1:5: holds the control character U+2028"),
    ],
)  # fmt: skip
def test_refused(text: str | bytes, message: str) -> None:
    assert problem(text) == message


@pytest.mark.parametrize(
    "text", ["017", "0o17", "0x1F", "0b101", "1_000", "12:30", "1:30:00.5", "00", "08.5", "-1_0.5"]
)
def test_numbers_that_mean_different_things_to_different_readers(text: str) -> None:
    fix = f'write a plain decimal number, or "{text}" for the text'
    assert (
        problem(f"a: {text}")
        == f"f.yaml:1:4: unquoted {text} is a number to some YAML readers and text to others; {fix}"
    )
    assert parse(f"a: '{text}'", "f").data == {"a": text}


def test_levels() -> None:
    right = "a: " + (MOST_LEVELS - 1) * "[" + (MOST_LEVELS - 1) * "]"
    assert parse(right, "f").data["a"] != []
    assert problem(f"a: {MOST_LEVELS * '['}") == "f.yaml:1:35: nested more than 32 levels deep"
    assert (
        problem("\n".join(" " * depth + "a:" for depth in range(60))) == "f.yaml:33:33: nested more than 32 levels deep"
    )


@pytest.mark.parametrize("opening", ["[", "{a: ", "{", "- ", "? ", "{? "])
def test_a_file_of_nothing_but_openings_ends_at_once(opening: str) -> None:
    text = f"a: {opening * (MOST_BYTES // len(opening) - 4)}"
    assert problem(text).startswith("f.yaml:1:")


def test_a_bomb_of_aliases() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    assert problem("\n".join(lines)) == "f.yaml:1:5: '&a0': anchors are refused; write the value where it is used"


def test_a_byte_order_mark_is_no_content() -> None:
    assert parse(decode(b"\xef\xbb\xbfa: 1", "f"), "f").position("a") == "f:1:1"


def test_size(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("#" * (MOST_BYTES - 5) + "\na: 1")
    assert read(file, "f.yaml").data == {"a": 1}
    file.write_text("#" * (MOST_BYTES - 4) + "\na: 1")
    with pytest.raises(SourceError, match=r"^f\.yaml:2:4: is larger than 1 MiB, which ends here; split or shorten"):
        read(file, "f.yaml")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("", "cannot be read: Is a directory"),
        ("pipe", "is not a regular file"),
        ("x", "No such file"),
    ):
        with pytest.raises(SourceError, match=message):
            read(tmp_path / name, "f.yaml")


def test_long_plain_scalars_take_linear_time() -> None:
    assert parse("a: " + "1_" * (MOST_BYTES // 2 - 10) + "x", "f").data["a"].endswith("_x")


def test_pure_python_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = parse(TEXT, "f.yaml")
    monkeypatch.setattr(yaml_reader, "_Loader", yaml.SafeLoader)
    assert parse(TEXT, "f.yaml") == fast
    for text in ("a: *x", "a: !x 1", "a: off", "a: 1\na: 1", "", "- a", "a: [", '"\\ud800": 1', "a: 017"):
        with pytest.raises(SourceError):
            parse(text, "f.yaml")


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=20)
)
KEYS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=10).filter(lambda key: key != "<<")
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))
DOCUMENTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=5)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@given(DOCUMENTS)
def test_json_is_read_as_it_was_written(document: dict[str, Any]) -> None:
    found = parse(json.dumps(document, ensure_ascii=False), "f.json")
    assert found.data == document
    assert repr(found.data) == repr(document)


@given(DOCUMENTS)
def test_every_place_is_where_its_key_or_item_is(document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False)
    lines = text.split("\n")
    found = parse(text, "f")

    def walk(value: Any, *keys: str | int) -> None:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in pairs:
            line, column = found.place(*keys, key)
            rest = lines[line - 1][column - 1 :]
            wanted = json.dumps(key if isinstance(key, str) else inner, indent=1, ensure_ascii=False)
            assert rest.startswith(wanted.split("\n")[0])
            walk(inner, *keys, key)

    walk(document)


@given(DOCUMENTS, st.sampled_from([None, False, True]))
def test_block_style_is_read_as_it_was_written_or_refused_as_ambiguous(
    document: dict[str, Any], flow: bool | None
) -> None:
    text = yaml.dump(document, Dumper=_Dumper, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    try:
        found = parse(text, "f").data
    except SourceError as error:
        # PyYAML leaves unquoted what only YAML 1.2 reads as a number.
        assert "unquoted" in error.problem or "number" in error.problem or "a key must be" in error.problem  # noqa: PT017
        return
    assert _texts_as_they_were(found, document)


def _texts_as_they_were(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(_texts_as_they_were(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_texts_as_they_were, found, wanted))
    if isinstance(found, float) and isinstance(wanted, str):
        return math.isclose(found, float(wanted))  # 1e5: text to YAML 1.1, a number to 1.2 and to us
    return bool(found == wanted and type(found) is type(wanted))


@given(st.binary(max_size=200))
@example(b"%TAG ! tag:x,2026:\n---\na: 1")
@example(b"%YAML 9.9\n---\na: 1")
@example(b'a: "\\UFFFFFFFF"')
@example(b"&a\n")
@example(b"'")
@example(b"? ")
@example(b"a: |9\n")
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = parse(decode(data, "f.yaml"), "f.yaml")
    except CatalogError as error:
        assert str(error).startswith("f.yaml:")  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert isinstance(found.data, dict)


PIECES = st.sampled_from(
    [*"{}[]:,-?&*!|>'\"%@`# \n\t~<=0179.aé", "<<", "---", "...", "a: ", "- ", "\n  ", "\\x", "!!", "1e5"]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_anything_like_yaml_is_read_or_refused(text: str) -> None:
    try:
        parse(decode(text.encode(), "f.yaml"), "f.yaml")
    except CatalogError as error:
        assert str(error).isprintable()  # noqa: PT017
