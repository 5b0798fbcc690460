"""Bounds are numbers or expressions, with a value or a sentence that says why not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.expr.expression import ExpressionError
from mlir_matrix.catalog.bounds import EPS, evaluate, substituted

DIMS = {"M": 4, "K": 64}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (0, 0.0),
        (1, 1.0),
        (1e-05, 1e-05),
        ("1e-05", 1e-05),
        ("4 * sqrt(K) * eps(f32)", 32 * 2.0**-23),
        ("max(eps(f16), eps(bf16), M * eps(f64))", 2.0**-7),
        ("min(K, M) ** 0.5 - 1", 1.0),
        ("log2(K) / 3", 2.0),
        ("eps(dtype)", 2.0**-10),
        # The nearest doubles, which the C library's log2 and pow miss, on CPUs with FMA others than on those without.
        ("log2(3242)", 11.66266837551754),
        ("506 ** (1 / 3)", 7.9686271286962365),
    ],
)
def test_bounds_have_values(text: float | str, expected: float) -> None:
    assert evaluate(text, DIMS, "f16") == expected


@pytest.mark.parametrize(
    "dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"]
)
def test_eps_of_the_output_is_0_for_what_is_exact(dtype: str) -> None:
    assert evaluate("eps(dtype)", {}, dtype) == EPS.get(dtype, 0.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sqrt(KK)", "column 6: unknown name KK (perhaps you meant K)"),
        ("sqr(K)", "unknown function sqr (perhaps you meant sqrt)"),
        ("eps(f8)", "eps takes one of f32, f16, bf16, f64, dtype, not f8"),
        ("K // 2", "the operator // is not part of the language of a tolerance"),
        ("1 / (K - 64)", "column 6: division by zero"),
        ("sqrt(M - K)", "column 1: this has no finite value"),
        ("(M - K) ** 0.5", "no finite value"),
        ("9 ** 9 ** 9", "no finite value"),
        ("log2(0)", "no finite value"),
        ("1e308 * 10", "no finite value"),
        ("-K", "a tolerance cannot be -64.0"),
        (-1, "a tolerance cannot be -1.0"),
        (math.inf, "unknown name inf"),
        (math.nan, "unknown name nan"),
    ],
)
def test_bounds_that_are_none_are_refused(text: float | str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, DIMS, "f32")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4 * sqrt(K) * eps(f32)", "4 * sqrt(64) * 1.19e-07"),
        ("(4 + sqrt(K) / 2) * eps(dtype)", "(4 + sqrt(64) / 2) * 0.000977"),
        ("max(K, 2 * M) ** -0.5", "max(64, 2 * 4) ** (-0.5)"),
        (1e-6, "1e-06"),
        (0, "0"),
    ],
)
def test_what_names_stand_for_can_be_read(text: float | str, expected: str) -> None:
    assert substituted(text, DIMS, "f16") == expected


def test_what_is_no_bound_is_not_shown_as_one() -> None:
    with pytest.raises(ExpressionError, match="unknown name L"):
        substituted("L", DIMS, "f32")


def expressions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["K", "M", "3", "0.5"])

    def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(parts, st.sampled_from("+-*/"), parts).map(lambda each: f"({each[0]} {each[1]} {each[2]})"),
            parts.map(lambda part: f"sqrt({part})"),
            st.tuples(parts, parts).map(lambda each: f"max({each[0]}, {each[1]})"),
        )

    return st.recursive(leaves, larger, max_leaves=8)


@given(expressions())
def test_what_is_shown_has_the_same_value(text: str) -> None:
    try:
        expected = evaluate(text, DIMS, "f32")
    except ExpressionError:
        return
    assert evaluate(substituted(text, DIMS, "f32"), {}, "f32") == expected
