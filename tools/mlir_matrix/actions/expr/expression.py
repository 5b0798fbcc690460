"""Parse and check expressions: the part of Python's syntax that a grammar lists.

Formulas of inputs and tolerances are both written in it. Text comes from YAML of unknown origin, so
nothing is ever given to ``eval``: Python's parser makes a tree, the tree is checked node by node and becomes our own,
bounded in size and depth, and an :class:`ExpressionInterpreter` walks it. Standard library only: the loader uses it too.
"""

from __future__ import annotations

import ast
import difflib
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

V = TypeVar("V")

LONGEST_TEXT = 1000
MOST_NODES = 300
DEEPEST = 40


class ExpressionError(ValueError):
    """An expression that is wrong, with the column (from 1, in characters) where it goes wrong."""

    def __init__(self, message: str, *, text: str = "", column: int = 1) -> None:
        self.message, self.text, self.column = message, text, column
        shown = f"{text[:120]!r}, " if text else ""
        super().__init__(f"{shown}column {column}: {message}")


@dataclass(frozen=True, slots=True)
class Node:
    """Any part of an expression; ``column`` is where it begins in the text."""

    column: int


@dataclass(frozen=True, slots=True)
class Number(Node):
    value: float


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Word(Node):
    """An argument that is a word of the function's own, not a value: ``f32`` in ``eps(f32)``."""

    word: str


@dataclass(frozen=True, slots=True)
class Negate(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call(Node):
    """``ordinal`` counts the calls of the expression from 0 in the order of the text. Each call has a separate random stream."""

    function: str
    arguments: tuple[Node, ...]
    ordinal: int


@dataclass(frozen=True, slots=True)
class Function:
    """How a function may be called: with how many arguments, or with one of ``words``."""

    least: int
    most: int
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grammar:
    """What an expression may consist of. ``about`` names the kind of expression in messages: ``formula``."""

    about: str
    operators: frozenset[str]
    functions: Mapping[str, Function] = field(hash=False)


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}


def nearest(name: str, known: Collection[str]) -> str:
    """Return `` (perhaps you meant K)`` or the list of known names, to follow «unknown …»."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    close = close or [other for other in sorted(known) if other.lower() == name.lower()]
    if close:
        return f" (perhaps you meant {close[0]})"
    return f" (known: {', '.join(sorted(known))})" if known else ""


def parse(text: str, grammar: Grammar, names: Collection[str]) -> Node:
    """Return the checked tree of a text whose names are all in ``names``. Raise ExpressionError."""
    return _Checker(text, grammar, names).parse()


class _Checker:
    """Converts Python's tree to ours, and refuses all that the grammar does not list."""

    def __init__(self, text: str, grammar: Grammar, names: Collection[str]) -> None:
        self._text, self._grammar, self._names = text, grammar, names
        self._nodes = 0
        self._calls = 0
        #: The parser counts columns in bytes of UTF-8, from where the text without its margin begins.
        self._body = text.strip().replace("\n", " ").replace("\r", " ").replace("\t", " ").replace("\f", " ")
        self._margin = len(text) - len(text.lstrip())

    def parse(self) -> Node:
        if not self._body:
            raise self._error(f"the {self._grammar.about} is empty", 1)
        if len(self._text) > LONGEST_TEXT:
            raise self._error(f"longer than {LONGEST_TEXT} characters", LONGEST_TEXT)
        if "#" in self._body:
            raise self._error("comments do not belong here", self._margin + self._body.index("#") + 1)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(self._body, mode="eval")
        except SyntaxError as error:
            # A SyntaxError counts characters, not bytes, and may point beyond the end.
            column = self._margin + min(error.offset or 1, len(self._body) + 1)
            raise self._error(f"not an expression: {error.msg}", column) from None
        except (ValueError, MemoryError, RecursionError) as error:
            raise self._error(f"not an expression: {type(error).__name__}", 1) from None
        return self._node(tree.body, 0)

    def _error(self, message: str, column: int) -> ExpressionError:
        return ExpressionError(message, text=self._text, column=column)

    def _column(self, node: ast.expr) -> int:
        before = self._body.encode("utf-8", "surrogatepass")[: node.col_offset]
        return self._margin + len(before.decode("utf-8", "surrogatepass")) + 1

    def _node(self, node: ast.expr, depth: int) -> Node:
        column = self._column(node)
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MOST_NODES:
            raise self._error(f"nested deeper than {DEEPEST} or of more than {MOST_NODES} parts", column)
        match node:
            case ast.Constant():
                return Number(column, self._number(node, column))
            case ast.Name(id=name):
                return Name(column, self._known(name, column))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Negate(column, self._node(operand, depth + 1))
            case ast.BinOp():
                return self._binary(node, column, depth)
            case ast.Call():
                return self._call(node, column, depth)
        raise self._error(f"{_describe(node)} is not part of the language of a {self._grammar.about}", column)

    def _number(self, node: ast.Constant, column: int) -> float:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._error(f"{str(value)[:40]!r} is not a number", column)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._error("the number does not fit a double", column)
        return number

    def _known(self, name: str, column: int) -> str:
        if name in self._names:
            return name
        if name in self._grammar.functions:
            raise self._error(f"{name} is a function: write {name}(…)", column)
        raise self._error(f"unknown name {name}{nearest(name, self._names)}", column)

    def _binary(self, node: ast.BinOp, column: int, depth: int) -> Node:
        operator = _OPERATORS.get(type(node.op), type(node.op).__name__)
        if operator not in self._grammar.operators:
            raise self._error(f"the operator {operator} is not part of the language of a {self._grammar.about}", column)
        left = self._node(node.left, depth + 1)
        return Binary(column, operator, left, self._node(node.right, depth + 1))

    def _call(self, node: ast.Call, column: int, depth: int) -> Node:
        if not isinstance(node.func, ast.Name):
            raise self._error("only functions of the language can be called, by their name", column)
        name = node.func.id
        function = self._grammar.functions.get(name)
        if function is None:
            raise self._error(f"unknown function {name}{nearest(name, self._grammar.functions)}", column)
        if node.keywords or not function.least <= len(node.args) <= function.most:
            raise self._error(f"{name} takes {_count(function)}", column)
        ordinal, self._calls = self._calls, self._calls + 1
        if function.words:
            return Call(column, name, (self._word(node.args[0], name, function.words),), ordinal)
        return Call(column, name, tuple(self._node(argument, depth + 1) for argument in node.args), ordinal)

    def _word(self, node: ast.expr, function: str, words: Sequence[str]) -> Word:
        column = self._column(node)
        if not isinstance(node, ast.Name) or node.id not in words:
            given = node.id if isinstance(node, ast.Name) else _describe(node)
            raise self._error(f"{function} takes one of {', '.join(words)}, not {given}", column)
        return Word(column, node.id)


def _count(function: Function) -> str:
    if function.words:
        return f"one of {', '.join(function.words)}"
    if function.least == function.most:
        return f"{function.least or 'no'} argument{'' if function.least == 1 else 's'}"
    return f"{function.least} to {function.most} arguments"


def _describe(node: ast.expr) -> str:
    names: dict[type[ast.expr], str] = {ast.Attribute: "an attribute", ast.Subscript: "an index"}
    return names.get(type(node), type(node).__name__)


class ExpressionInterpreter(ABC, Generic[V]):
    """Give a tree over named dimensions a value; methods get the node, for its column, and the values of its parts."""

    def __init__(self, text: str, dims: Mapping[str, int]) -> None:
        self._text, self._dims = text, dims

    def value(self, node: Node) -> V:
        """Return the value of a node; None stands for one that is not known."""
        match node:
            case Number(value=number):
                return cast(V, number)
            case Name(name=name):
                return cast(V, float(self._dims[name]))
            case Negate():
                operand: Any = self.value(node.operand)
                return cast(V, None if operand is None else -operand)
            case Binary():
                return self.binary(node, self.value(node.left), self.value(node.right))
            case Call():
                return self.call(node, [self.value(part) for part in node.arguments if not isinstance(part, Word)])
        raise TypeError(f"a {type(node).__name__} has no value")

    def error(self, node: Node, message: str) -> ExpressionError:
        """Return the error at a node."""
        return ExpressionError(message, text=self._text, column=node.column)

    @abstractmethod
    def binary(self, node: Binary, left: V, right: V) -> V: ...

    @abstractmethod
    def call(self, node: Call, arguments: list[V]) -> V: ...
