"""The reader and writer of MLIR's generic form: what is read is written again, whatever its dialect and release."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.reduction.tree import MOST_REGIONS, ParseError, attribute, copy_of, parse, text_of, walk

TEXT = r"""
#loc = loc("a.py":1:1)
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<2xf32, #x.y<">">>, i1) -> ((i32) -> i32), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2xf32, #x.y<">">> loc("b"), %arg1: i1):  // no predecessors
    %0:2 = "a.two"(%arg0) {map = affine_map<(d0) -> (d0)>, set = affine_set<(d0) : (d0 >= 0)>, unit, "odd name" = "\"}"}
      : (tensor<2xf32, #x.y<">">>) -> (i32, !t.list<int, [1]>) loc(#loc)
    %c1_i32 = "a.use"(%0#1, %0#0) : (!t.list<int, [1]>, i32) -> i32
    "cf.cond_br"(%arg1, %c1_i32)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i1, i32) -> ()
  ^bb1(%1: i32):  // pred: ^bb0
    "a.late"(%2) : (i32) -> ()
    "a.regions"() ({
      %2 = "a.inner"() : () -> f32
      "a.end"(%2) : (f32) -> ()
    }, {
    }, {
    ^bb0:
    }) : () -> ()
    "cf.br"()[^bb2] : () -> ()
  ^bb2:  // 2 preds: ^bb0, ^bb1
    %2 = "a.call"() {callee = @f::@g} : () -> i32
    %3 = "a.function"() : () -> ((i32) -> i32)
    "func.return"(%3) : ((i32) -> i32) -> ()
  }) {old} : () -> ()
}) : () -> ()

{-#
  dialect_resources: { builtin: { r: "0x04000000" } }
#-}
"""


def test_written_text() -> None:
    assert (
        text_of(parse(TEXT))
        == r""""builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<2xf32, #x.y<">">>, i1) -> ((i32) -> i32), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2xf32, #x.y<">">>, %arg1: i1):
    %0:2 = "a.two"(%arg0) {map = affine_map<(d0) -> (d0)>, set = affine_set<(d0) : (d0 >= 0)>, unit, "odd name" = "\"}"} """
        + (
            r""": (tensor<2xf32, #x.y<">">>) -> (i32, !t.list<int, [1]>)
    %1 = "a.use"(%0#1, %0#0) : (!t.list<int, [1]>, i32) -> i32
    "cf.cond_br"(%arg1, %1)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i1, i32) -> ()
  ^bb1(%arg2: i32):
    "a.late"(%later6) : (i32) -> ()
    "a.regions"() ({
      %2 = "a.inner"() : () -> f32
      "a.end"(%2) : (f32) -> ()
    }, {
    }, {
    ^bb3:
    }) : () -> ()
    "cf.br"()[^bb2] : () -> ()
  ^bb2:
    %later6 = "a.call"() {callee = @f::@g} : () -> i32
    %3 = "a.function"() : () -> ((i32) -> i32)
    "func.return"(%3) : ((i32) -> i32) -> ()
  }) {old} : () -> ()
}) : () -> ()

{-#
  dialect_resources: { builtin: { r: "0x04000000" } }
#-}
"""
        )
    )


def test_round_trip() -> None:
    module = parse(TEXT)
    written = text_of(module)
    assert text_of(parse(written)) == written
    copied = copy_of(module)
    assert text_of(copied) == written
    assert not set(walk(copied.operation)) & set(walk(module.operation))


def test_attribute() -> None:
    function = list(walk(parse(TEXT).operation))[1]
    assert attribute(function, "sym_name") == '"main"'
    assert attribute(function, "old") == attribute(function, "absent") == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module {}", "line 1, column 1: an operation is expected, in MLIR's generic form"),
        ('"func.func"() : () -> ()', "line 1, column 1: the outermost operation is func.func, not builtin.module"),
        ('"builtin.module"() ({\n  "a.b"(%3) : (i32) -> ()\n}) : () -> ()', "line 2, column 9: %3 is not defined"),
        ('"builtin.module"() ({\n"a.b"()[^bb1] : () -> ()}) : () -> ()', "^bb1 is no block of the region that ends here"),
        ('"builtin.module"() ({\n"a.b"() : (i32) -> ()', "line 2, column 11: a.b has more or fewer operands than types"),
        ('"builtin.module"() ({\n%0 = "a.b"() : () -> ()', "line 2, column 6: a.b has more names than results"),
        ('"builtin.module"() ({\n}) : () -> ()\n#map = 1', "line 3, column 1: text after the module"),
        ('"builtin.module"() ({\n' + '"a.b"() ({' * MOST_REGIONS, f"more than {MOST_REGIONS} regions are inside one another"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        parse(text)


def test_deepest_nesting() -> None:
    inner = MOST_REGIONS - 1
    text = '"builtin.module"() ({' + '"a.b"() ({' * inner + "}) : () -> ()" * inner + "}) : () -> ()"
    assert text_of(copy_of(parse(text))).count("a.b") == inner


@given(
    st.integers(0, len(TEXT)),
    st.integers(0, 20),
    st.sampled_from(["", '"', "{", "}", ">", "%x", "^bb0", " ", "->", "\\"]),
)
def test_damaged_text(at: int, length: int, new: str) -> None:
    text = TEXT[:at] + new + TEXT[at + length :]
    try:
        module = parse(text)
    except ParseError as error:
        assert re.match(r"line \d+, column \d+: ", str(error))  # noqa: PT017
    else:
        assert text_of(parse(text_of(module))) == text_of(module)
