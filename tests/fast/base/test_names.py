"""Names and globs, against a matcher that is too simple to be wrong."""

from __future__ import annotations

import re
import string
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import (
    MOST_ALTERNATIVES,
    NAME_LENGTH,
    NameGlob,
    PatternError,
    TestGlob,
    TestId,
    did_you_mean,
    in_order,
    is_name,
    name_glob,
    nearest,
    printable,
    select_known,
    test_glob,
    why_not_a_name,
)


@pytest.mark.parametrize("name", ["a", "x86_64", "24.0.0+torch-mlir.20261001", "mlir-24", "0", "A.b", "a_", "x" * 64])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", "a.", ".a", "-a", "+a", "_a", "a b", "a/b", "a\\b", "a\n", "a'", "$a", "a;b", "<a>", "a&b",
     "a|b", "a*", "é", "a:b", "a@b", "a=b", "~", "a#", "a%", "(a)", "{a}", "[a]", "a,b", "a!", "x" * 65, "a\0"],
)  # fmt: skip
def test_no_names(name: str) -> None:
    assert not is_name(name)
    assert why_not_a_name(name).isprintable()


@given(st.text())
def test_names_need_no_quoting(text: str) -> None:
    if is_name(text):
        assert len(text) <= NAME_LENGTH
        assert set(text) <= {*string.ascii_letters, *string.digits, *"_+-."}
        assert ".." not in text
        assert text[0] not in ".-+_"


@given(st.text(st.characters(codec=None), max_size=50), st.integers(1, 20))
def test_printable(text: str, most: int) -> None:
    shown = printable(text, most)
    assert shown.isprintable()
    assert len(shown) <= most
    shown.encode()
    if text.isprintable() and len(text) <= most:
        assert shown == text


def test_nearest() -> None:
    known = ["bufferize", "linalg-loops", "linalg-named", "tosa-loops"]
    assert nearest("bufferise", known) == "bufferize"
    assert nearest("linalg_loops", known) == "linalg-loops"
    assert nearest("BUFFERIZE", known) == "bufferize"
    assert nearest("zzz", known) is None
    assert nearest("x", []) is None


def test_did_you_mean() -> None:
    assert did_you_mean("tosa-loop", ["tosa-loops", "x"]) == "; did you mean 'tosa-loops'?"
    assert did_you_mean("zzz", ["b", "a"]) == "; known: a, b"
    assert did_you_mean("zzz", [f"name{i}" for i in range(30)]) == ""
    assert did_you_mean("zzz", []) == ""


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("mlp", ["mlp"], ["mlp2", "ml", "Mlp"]),
        ("*", ["a", "x.y"], []),
        ("mat*", ["mat", "matmul"], ["amat"]),
        ("*mul*", ["matmul_i8", "mul"], ["mu-l"]),
        ("a*b*c", ["abc", "a-b-b-c", "abcbc"], ["ab", "acb", "abca"]),
        ("a?c", ["abc", "a.c"], ["ac", "abbc"]),
        ("f[13]?", ["f16", "f32"], ["f64", "f1"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx", "-x"], ["ax"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[+--]x", ["+x", "-x"], ["ax"]),
        ("{mlp,softmax}", ["mlp", "softmax"], ["mlp,softmax", "mlps"]),
        ("linalg-{loops,vector*}", ["linalg-loops", "linalg-vectorized"], ["linalg-named"]),
        ("{a,b{c,d}}e", ["ae", "bce", "bde"], ["be", "abce"]),
        ("mlp{,_dynamic}", ["mlp", "mlp_dynamic"], ["mlp_"]),
        ("*{abcd,c}*d", ["abcd", "cd", "abcdd"], ["abc"]),
        ("x.y", ["x.y"], ["xzy"]),
        ("a+", ["a+"], ["aa"]),
    ],
)
def test_name_globs(pattern: str, right: list[str], wrong: list[str]) -> None:
    glob = NameGlob(pattern)
    assert glob.select([*right, *wrong]) == right


def test_what_a_name_glob_is() -> None:
    assert NameGlob("mlp").literal
    assert not NameGlob("mlp").everything
    assert NameGlob("*").everything
    assert not NameGlob("m?p").literal
    assert name_glob("m*") is name_glob("m*")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "'' is not a pattern for a name"),
        ("a b", "'a b' is not a pattern for a name"),
        ("a\nb", "'a\\nb' is not a pattern for a name"),
        ("a[bc", "'a[bc' has a '[' without characters and a ']' after it"),
        ("a[]c", "'a[]c' has a '[' without characters and a ']' after it"),
        ("a[!]c", "'a[!]c' has a '[' without characters and a ']' after it"),
        ("a]c", "'a]c' has a ']' without its '['"),
        ("[z-a]", "'[z-a]' has a range in '[z-a]' that runs backwards"),
        ("{a,b", "'{a,b' has a '{' without its '}'"),
        ("a,b}", "'a,b}' has a '}' without its '{'"),
        ("{a,b}" * 7, f"'{'{a,b}' * 7}' stands for more than {MOST_ALTERNATIVES} patterns"),
        ("{a,b}" * 60, "stands for more than"),
    ],
)
def test_name_globs_that_cannot_be_read(pattern: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        NameGlob(pattern)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_glob_cannot_take_long() -> None:
    glob = NameGlob("*a" * 190 + "b")
    start = time.process_time()
    assert not glob.matches("a" * 64)
    assert not NameGlob("*" + "a*" * 30 + "b").matches("a" * 64)
    assert time.process_time() - start < 1


def simple_match(pattern: str, text: str) -> bool:
    """A matcher for globs without braces that follows the definition, slowly."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(simple_match(pattern[1:], text[index:]) for index in range(len(text) + 1))
    if not text:
        return False
    if pattern[0] == "[":
        inside, rest = pattern[1:].split("]", 1)
        return (text[0] in inside.lstrip("!")) != inside.startswith("!") and simple_match(rest, text[1:])
    return pattern[0] in ("?", text[0]) and simple_match(pattern[1:], text[1:])


GLOBS = st.lists(st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]", "-"]), min_size=1, max_size=6).map("".join)
WORDS = st.text("ab.-", min_size=1, max_size=7)  # no name is empty


@given(GLOBS, WORDS)
def test_globs_match_as_they_should(pattern: str, text: str) -> None:
    assert NameGlob(pattern).matches(text) == simple_match(pattern, text)


@given(st.lists(GLOBS, min_size=1, max_size=4), GLOBS, GLOBS, WORDS)
def test_braces_are_alternatives(choices: list[str], before: str, after: str, text: str) -> None:
    glob = NameGlob(f"{before}{{{','.join(choices)}}}{after}")
    assert glob.matches(text) == any(simple_match(before + choice + after, text) for choice in choices)


@given(st.text("ab*?[]{},!-", max_size=12))
@example("[*]")
@example("[--a]")
@example("{}")
def test_any_pattern_is_read_or_refused(pattern: str) -> None:
    try:
        glob = NameGlob(pattern)
    except PatternError as error:
        assert str(error).isprintable()  # noqa: PT017
    else:
        glob.matches("ab")


def simple_test_match(pattern: list[str], names: list[str]) -> bool:
    """The definition of ``**``."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(simple_test_match(pattern[1:], names[index:]) for index in range(len(names) + 1))
    return bool(names) and simple_match(pattern[0], names[0]) and simple_test_match(pattern[1:], names[1:])


PARTS = st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "?"]), min_size=1, max_size=6)


@given(PARTS, st.lists(WORDS, min_size=4, max_size=4))
def test_test_globs_match_as_they_should(parts: list[str], names: list[str]) -> None:
    pattern = "/".join(parts)
    fixed = sum(part != "**" for part in parts)
    if fixed > 4 or (fixed < 4 and "**" not in parts):
        with pytest.raises(PatternError):
            TestGlob(pattern)
        return
    assert TestGlob(pattern).matches("/".join(names)) == simple_test_match(parts, names)


def test_segments() -> None:
    def shown(pattern: str) -> list[str]:
        return ["/".join(glob.pattern for glob in globs) for globs in test_glob(pattern).segments]

    assert shown("pytorch/*/x86_64/mlp") == ["pytorch/*/x86_64/mlp"]
    assert shown("jax/**") == ["jax/*/*/*"]
    assert shown("**/mlp") == ["*/*/*/mlp"]
    assert shown("**") == shown("**/**") == ["*/*/*/*"]
    assert shown("jax/**/mlp") == ["jax/*/*/mlp"]
    assert sorted(shown("**/x/**")) == ["*/*/*/x", "*/*/x/*", "*/x/*/*", "x/*/*/*"]
    assert shown("a/b/c/d/**") == ["a/b/c/d"]


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("a/**", ["a/b/c/d", "a/b/c/d@llvm=19", "a/b/c/d@llvm=19,onnx=1"], ["b/b/c/d@llvm=19"]),
        ("a/**@llvm=19", ["a/b/c/d@llvm=19"], ["a/b/c/d", "a/b/c/d@llvm=19.1", "a/b/c/d@llvm=19,onnx=1", "b/b/c/d@llvm=19"]),
        ("a/**@llvm=1*", ["a/b/c/d@llvm=19", "a/b/c/d@llvm=18.1.8", "a/b/c/d@llvm=18,onnx=1"], ["a/b/c/d", "a/b/c/d@llvm=22"]),
        ("**@*onnx=1*", ["a/b/c/d@llvm=19,onnx=1.22"], ["a/b/c/d@llvm=19"]),
        ("**@x=1,llvm=1*", ["a/b/c/d@llvm=19,x=1"], ["a/b/c/d@llvm=22,x=1", "a/b/c/d@llvm=19"]),
        ("**@llvm={18,19}", ["a/b/c/d@llvm=18", "a/b/c/d@llvm=19"], ["a/b/c/d@llvm=17"]),
        ("**@{llvm=18,x=1}", ["a/b/c/d@llvm=18", "a/b/c/d@x=1"], ["a/b/c/d"]),
        ("**", ["a/b/c/d", "a/b/c/d@llvm=19"], ["a/b/c/d~scaling", "a/b/c/d~scaling@llvm=19"]),
        ("**~scaling", ["a/b/c/d~scaling", "a/b/c/d~scaling@llvm=19"], ["a/b/c/d", "a/b/c/d~batch", "a/b/c/scaling"]),
        ("*/*/*/d~*", ["a/b/c/d~x", "a/b/c/d~y@llvm=19"], ["a/b/c/e~x", "a/b/c/d"]),
        ("a/**~{x,y}@llvm=1*", ["a/b/c/d~x@llvm=19", "a/b/c/d~y@llvm=18"], ["a/b/c/d~x", "a/b/c/d@llvm=19", "a/b/c/d~z@llvm=19"]),
    ],
)  # fmt: skip
def test_pins_after_a_test_glob(pattern: str, right: list[str], wrong: list[str]) -> None:
    glob = TestGlob(pattern)
    assert [name for name in (*right, *wrong) if glob.matches(name)] == right


@pytest.mark.parametrize(
    ("pins", "ordered"),
    [
        ("b=1,a=2", "a=2,b=1"),
        ("a=2,b=1", "a=2,b=1"),
        ("torch-mlir=1,torch=2", "torch=2,torch-mlir=1"),
        ("b=*,a=1?", "a=1?,b=*"),
        ("b=1,*", "b=1,*"),
        ("b=1,a", "b=1,a"),
        ("b={1,a=2}", "b={1,a=2}"),
        ("{b=1,a=2}", "{b=1,a=2}"),
        ("b=[,a=]", "b=[,a=]"),
        ("", ""),
    ],
)
def test_components_in_order(pins: str, ordered: str) -> None:
    assert in_order(pins) == ordered


def test_a_test_glob_matches_only_whole_identifiers() -> None:
    assert TestGlob("**").matches("a/b/c/d")
    assert not TestGlob("**").matches("a/b/c")
    assert not TestGlob("**").matches("a/b/c/d/e")
    assert TestGlob("mlir/*/ir/*").matches("mlir/tile/ir/basic")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("mlp", "'mlp' has 1 part, but a test is framework/pipeline/target/workload; perhaps 'mlp/**'"),
        ("a/b", "'a/b' has 2 parts, but a test is framework/pipeline/target/workload; perhaps 'a/b/**'"),
        ("a/b/c/d/e", "'a/b/c/d/e' has 5 parts, but a test is framework/pipeline/target/workload"),
        ("a/b//d", "'' is not a pattern for a name"),
        ("a//b", "'a//b' has an empty part; a test is framework/pipeline/target/workload"),
        ("{a/b,c/d}/**", "'{a' has a '{' without its '}'"),
        ("a b/**", "'a b' is not a pattern for a name"),
        ("", "'' has an empty part; a test is framework/pipeline/target/workload"),
        ("a/b/c/d@", "'a/b/c/d@' has no COMPONENT=RELEASE after its '@'"),
        ("a/b/c/d@llvm", "'a/b/c/d@llvm' has no COMPONENT=RELEASE after its '@'"),
        (
            "a/b@x=1/c/d",
            "'a/b@x=1/c/d' has 2 parts, but a test is framework/pipeline/target/workload; perhaps 'a/b/**@x=1/c/d'",
        ),
        ("a@x=1", "'a@x=1' has 1 part, but a test is framework/pipeline/target/workload; perhaps 'a/**@x=1'"),
        ("a/b/c/d~", "'a/b/c/d~' has no property after its '~', which comes after the workload"),
        ("a~b/c/d/e", "'a~b/c/d/e' has no property after its '~', which comes after the workload"),
        ("a/b/c/d~x~y", "'x~y' is not a pattern for a name"),
        ("a/b/c/d@x=1@y=2", "'a/b/c/d@x=1@y=2' has no COMPONENT=RELEASE after its '@'"),
        ("a/b/c/d@llvm=[", "'llvm=[' has a '[' without characters and a ']' after it"),
    ],
)
def test_test_globs_that_cannot_be_read(pattern: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        TestGlob(pattern)
    assert str(caught.value) == message


def test_many_double_stars_are_quick() -> None:
    start = time.process_time()
    assert TestGlob("/".join(["**"] * 200)).matches("a/b/c/d")
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("patterns", "found"), [(["m*"], ["mlp", "matmul"]), (["mlp", "m*"], ["mlp", "matmul"]), ([], [])]
)
def test_known_names_are_selected_by_patterns(patterns: list[str], found: list[str]) -> None:
    assert select_known("workload", patterns, ["softmax", "mlp", "matmul"]) == found


@pytest.mark.parametrize(("pattern", "says"), [("mpl", "did you mean 'mlp'?"), ("q*", "there is no workload 'q*'")])
def test_what_selects_no_known_name(pattern: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        select_known("workload", ["mlp", pattern], ["mlp"])


@pytest.mark.parametrize(
    ("text", "workload", "cell", "row"),
    [
        ("jax/loops/x86_64/mlp", "mlp", "jax/loops/x86_64", "jax/loops/x86_64"),
        ("jax/loops/x86_64/mlp~scaling@llvm=19", "mlp", "jax/loops/x86_64@llvm=19", "jax/loops/x86_64@llvm=19"),
        ("mlir/fuse/ir/two@llvm=19", "two", "mlir/fuse/ir@llvm=19", "IR tests of steps@llvm=19"),
    ],
)
def test_identifiers_of_tests_are_parsed_and_written(text: str, workload: str, cell: str, row: str) -> None:
    test = TestId.parse(text)
    assert (str(test), test.workload, test.cell, test.row) == (text, workload, cell, row)
    assert TestId.in_cell(cell, test.called) == test


@pytest.mark.parametrize("text", ["", "a/b/c", "a/b/c/d/e", "a/b/c@x=a/b"])
def test_an_identifier_of_a_test_has_four_segments(text: str) -> None:
    with pytest.raises(ValueError, match="unpack"):
        TestId.parse(text)
