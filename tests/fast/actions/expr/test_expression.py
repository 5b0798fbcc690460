"""The expression language lets through what its grammar lists, and nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.expr.expression import (
    Binary,
    Call,
    ExpressionError,
    ExpressionInterpreter,
    Function,
    Grammar,
    Negate,
    Node,
    Word,
    parse,
)

GRAMMAR = Grammar(
    about="test",
    operators=frozenset({"+", "-", "*"}),
    functions={"twice": Function(1, 1), "least": Function(2, 3), "unit": Function(1, 1, words=("a", "b"))},
)


class Floats(ExpressionInterpreter[float]):
    """Evaluates the grammar above; ``unit(a)`` is 1, ``unit(b)`` 2."""

    def binary(self, node: Binary, left: float, right: float) -> float:
        return {"+": left + right, "-": left - right, "*": left * right}[node.operator]

    def call(self, node: Call, arguments: list[float]) -> float:
        if isinstance(node.arguments[0], Word):
            return {"a": 1.0, "b": 2.0}[node.arguments[0].word]
        return 2 * arguments[0] if node.function == "twice" else min(arguments)


def value(text: str) -> float:
    return Floats(text, {"K": 3, "N": 5}).value(parse(text, GRAMMAR, ["K", "N"]))


def error(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text, GRAMMAR, ["K", "N"])
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * K", 7.0),
        ("-(K - N) * 2", 4.0),
        ("  twice(K)\n  + unit(b)\n", 8.0),
        ("least(4, N, K)", 3.0),
        ("1e3 - 0x10", 984.0),
        ("2 - 3 - 4", -5.0),
    ],
)
def test_means_what_python_means(text: str, expected: float) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("1 + M", 5, "unknown name M"),
        ("  1 + kk", 7, "unknown name kk"),
        ("'é' * NN", 1, "not a number"),
        ("ä + NN", 1, "unknown name ä"),
        ("K * (ü)", 6, "unknown name ü"),
        ("twise(3)", 1, "unknown function twise (perhaps you meant twice)"),
        ("K + k", 5, "unknown name k (perhaps you meant K)"),
        ("twice", 1, "twice is a function: write twice("),
        ("twice()", 1, "twice takes 1 argument"),
        ("least(1)", 1, "least takes 2 to 3 arguments"),
        ("twice(x=1)", 1, "twice takes 1 argument"),
        ("twice(*K)", 7, "Starred is not part of the language"),
        ("unit(c)", 6, "unit takes one of a, b, not c"),
        ("unit(K)", 6, "unit takes one of a, b, not K"),
        ("K / N", 1, "the operator / is not part of the language of a test"),
        ("K @ N", 1, "the operator MatMult"),
        ("+K", 1, "UnaryOp"),
        ("K if N else 1", 1, "IfExp"),
        ("K < N", 1, "Compare"),
        ("K.real", 1, "an attribute"),
        ("K[0]", 1, "an index"),
        ("().__class__.__base__", 1, "an attribute"),
        ("__import__('os')", 1, "unknown function __import__"),
        ("(lambda: 1)()", 1, "only functions of the language"),
        ("[1 for _ in K]", 1, "ListComp"),
        ("f'{K}'", 1, "JoinedStr"),
        ("True", 1, "'True' is not a number"),
        ("1j", 1, "'1j' is not a number"),
        ("1e999", 1, "does not fit a double"),
        ("1" + "0" * 400, 1, "does not fit a double"),
        ("K # + N", 3, "comments"),
    ],
)
def test_names_what_is_wrong_and_where(text: str, column: int, words: str) -> None:
    found = error(text)
    assert words in str(found)
    assert found.column == column


@pytest.mark.parametrize("text", ["1 +", "1 2", "1; 2", "x := 3", "1)+(2", "K = 3", "import os", "1 + 1\x00"])
def test_what_python_cannot_parse_is_refused_where_python_says(text: str) -> None:
    found = error(text)
    assert "not an expression" in str(found)
    assert 1 <= found.column <= len(text) + 1


@pytest.mark.parametrize(
    "text",
    ["-" * 999 + "1", "(" * 300 + "1" + ")" * 300, "+".join(["1"] * 400), "1" * 1001, "twice(" * 90 + "1" + ")" * 90],
)
def test_refuses_what_is_too_large_for_anyone_to_mean(text: str) -> None:
    assert isinstance(error(text), ValueError)


def test_a_line_break_cannot_hide_part_of_a_formula() -> None:
    assert value("1\n+ 2") == 3.0
    assert "comments" in str(error("1 # one\n+ 2"))


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_with_a_column_in_it(text: str) -> None:
    try:
        parse(text, GRAMMAR, ["K"])
        column = 1
    except ExpressionError as found:
        column = found.column
    assert 1 <= column <= len(text) + 1


def expressions() -> st.SearchStrategy[str]:
    leaves = st.one_of(st.integers(0, 99).map(str), st.sampled_from(["K", "N"]), st.floats(0, 1e6).map(repr))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: "({} {} {})".format(*parts)),
            inner.map(lambda part: f"-({part})"),
        ),
        max_leaves=12,
    )


@given(expressions())
def test_agrees_with_python_on_arithmetic(text: str) -> None:
    expected = eval(text, {"__builtins__": {}}, {"K": 3.0, "N": 5.0})
    assert value(text) == expected or math.isnan(expected)


@given(expressions(), st.text(alphabet=" \t\n", max_size=4))
def test_margins_only_move_columns(text: str, margin: str) -> None:
    def columns(node: Node) -> list[int]:
        parts = {Negate: ("operand",), Binary: ("left", "right")}.get(type(node), ())
        return [node.column] + [column for part in parts for column in columns(getattr(node, part))]

    moved = columns(parse(margin + text, GRAMMAR, ["K", "N"]))
    assert moved == [column + len(margin) for column in columns(parse(text, GRAMMAR, ["K", "N"]))]
