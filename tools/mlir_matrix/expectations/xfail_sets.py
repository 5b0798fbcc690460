"""Read the sets of tests that an upstream project expects to fail from its Python file, without running it.

Statements count in their order: assignments of sets (``=``, ``|=``, ``-=``, ``&=``), and ``if`` on a version. A set is a literal
of texts, a name, ``A | B``, ``A - B``, ``A & B``, or such a method. In a condition, ``torch_version_for_comparison()`` is the
release of the component ``torch`` with which the tests ran. What cannot be read, such as a set that another
file defines, is an error only for the sets that use it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import check_known, printable

Names = AbstractSet[str]
_SETS: Mapping[type[ast.operator], Callable[[Names, Names], Names]] = {
    ast.BitOr: operator.or_, ast.Sub: operator.sub, ast.BitAnd: operator.and_,
}  # fmt: skip
#: A set that can change changes for all of its names.
_CHANGES: Mapping[type[ast.operator], Callable[[Any, Names], Names]] = {
    ast.BitOr: operator.ior, ast.Sub: operator.isub, ast.BitAnd: operator.iand,
}  # fmt: skip
_METHODS: Mapping[str, Callable[[Names, Names], Names]] = {
    "union": operator.or_, "difference": operator.sub, "intersection": operator.and_,
}  # fmt: skip
_VERSIONS: Mapping[type[ast.cmpop], Callable[[Version, Version], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_COMPONENT = re.compile(r"(\w+)_version_for_comparison\(\)")


class _UnreadableError(Exception):
    """An expression without a value here, and its line."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(f"{getattr(node, 'lineno', 0)}: {why}")


def read_sets(path: Path, wanted: Iterable[str], releases: Mapping[str, str]) -> dict[str, Names]:
    """Return the wanted sets by name; ``releases`` has those of components. Raise UsageError."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}:{getattr(error, 'lineno', None) or 1}: not a Python file: {error}") from None
    sets = _Sets(releases)
    sets.run(tree.body)
    found: dict[str, Names] = {}
    for name in wanted:
        check_known("set", [name], sets.values, f"{path}: ")
        value = sets.values[name]
        if isinstance(value, _UnreadableError):
            raise UsageError(f"{path}:{value}, so set {name} is unknown")
        found[name] = value
    return found


class _Sets:
    """The sets of a file by name; an error for those whose value is unknown."""

    def __init__(self, releases: Mapping[str, str]) -> None:
        self.values: dict[str, Names | _UnreadableError] = {}
        self._releases = releases

    def run(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    self._assign(name, value)
                case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value) if type(op) in _CHANGES:
                    try:
                        self.values[name] = _CHANGES[type(op)](self._value(target), self._value(value))
                    except _UnreadableError as error:
                        self._forget(statement, error)
                case ast.If(test=test, body=body, orelse=other):
                    try:
                        self.run(body if self._holds(test) else other)
                    except _UnreadableError as error:
                        self._forget(statement, error)
                case _:
                    self._forget(statement, _UnreadableError(statement, "a statement that is not read"))

    def _assign(self, name: str, value: ast.expr) -> None:
        try:
            self.values[name] = self._value(value)
        except _UnreadableError as error:
            self.values[name] = error

    def _forget(self, statement: ast.stmt, error: _UnreadableError) -> None:
        """Record that sets to which a statement assigns, or whose methods it calls, have no known value."""
        for node in ast.walk(statement):
            match node:
                case ast.Name(id=name, ctx=ast.Store()):
                    self._forget_set(name, error)
                case ast.Attribute(value=ast.Name(id=name)) if name in self.values:
                    self._forget_set(name, error)

    def _forget_set(self, name: str, error: _UnreadableError) -> None:
        """Record that a set has no known value, under any of its names."""
        forgotten = self.values.get(name)
        for other, value in self.values.items():
            if value is forgotten:
                self.values[other] = error
        self.values[name] = error

    def _value(self, node: ast.expr) -> Names:
        match node:
            case ast.Set(elts=elements):
                return set(map(_text, elements))
            case ast.Call(func=ast.Name(id="set" | "frozenset" as kind), args=arguments, keywords=[]) if (
                len(arguments) < 2
            ):
                elements = getattr(arguments[0], "elts", [arguments[0]]) if arguments else []
                names = set(map(_text, elements))
                return names if kind == "set" else frozenset(names)
            case ast.Name(id=name):
                known = self.values.get(name)
                if known is None:
                    raise _UnreadableError(node, f"'{name}' is not defined in this file")
                if isinstance(known, _UnreadableError):
                    raise known
                return known
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SETS:
                return _SETS[type(op)](self._value(left), self._value(right))
            case ast.Call(func=ast.Attribute(value=left, attr=method), args=[right]) if method in _METHODS:
                return _METHODS[method](self._value(left), self._value(right))
        raise _UnreadableError(node, f"not a set of names: {printable(ast.unparse(node), 60)}")

    def _holds(self, node: ast.expr) -> bool:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _VERSIONS:
                return _VERSIONS[type(op)](self._version(left), self._version(right))
        raise _UnreadableError(node, f"not a comparison of versions: {printable(ast.unparse(node), 60)}")

    def _version(self, node: ast.expr) -> Version:
        text: Any = None
        if component := _COMPONENT.fullmatch(ast.unparse(node)):
            text = self._releases.get(component[1])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            text = node.args[0].value
        try:
            # As upstream: without the local part, such as +cpu.
            return Version(Version(str(text)).public)
        except InvalidVersion:
            raise _UnreadableError(node, f"not a version: {printable(ast.unparse(node), 60)}") from None


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise _UnreadableError(node, f"not a name in quotes: {printable(ast.unparse(node), 60)}")
