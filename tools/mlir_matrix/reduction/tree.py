"""Read and write modules in MLIR's generic form, of any dialect and release, as trees of operations.

Types and attributes stay text. Names of values are lost: a value is known by its identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mlir_matrix.base.errors import MatrixError

#: So many regions inside one another are read; Python's own limit of calls is hit at some 400.
MOST_REGIONS = 200


class ParseError(MatrixError):
    """A text is no module in generic form without aliases. The message has the line and the column."""


@dataclass(eq=False, slots=True, kw_only=True)
class Value:
    """A result of an operation or an argument of a block. Its identity is what counts."""

    type: str
    #: Of an argument of @main: the name of the test's input that it gets; empty for all others.
    input: str = ""


@dataclass(eq=False, slots=True, kw_only=True)
class Block:
    """Operations in order, the last of which ends the block in most dialects."""

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(eq=False, slots=True, kw_only=True)
class Operation:
    """An operation with its attributes as text; those without a value, of type unit, have the empty text."""

    name: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)
    #: What stands in ``<{…}>``: attributes that belong to the operation. Releases before 17 have all in ``attributes``.
    properties: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    regions: list[list[Block]] = field(default_factory=list)


@dataclass(eq=False, slots=True, kw_only=True)
class Module:
    """A ``builtin.module`` and what follows it."""

    operation: Operation
    #: ``{-# … #-}``, the elements of resources; empty if there are none.
    resources: str = ""


def attribute(operation: Operation, name: str) -> str:
    """Return an attribute's text from the properties, else from the other attributes; empty if there is none."""
    return operation.properties.get(name, operation.attributes.get(name, ""))


def walk(operation: Operation) -> Iterator[Operation]:
    """Yield an operation and all inside it, in the order of their text."""
    waiting = [operation]
    while waiting:
        one = waiting.pop()
        yield one
        inner = [each for region in one.regions for block in region for each in block.operations]
        waiting.extend(reversed(inner))


def blocks_of(operation: Operation) -> Iterator[Block]:
    """Yield the blocks of an operation's regions, not those inside other operations."""
    for region in operation.regions:
        yield from region


def copy_of(module: Module) -> Module:
    """Return a copy that shares no operation, block or value."""
    values: dict[Value, Value] = {}
    blocks: dict[Block, Block] = {}

    def renewed(value: Value) -> Value:
        if value not in values:
            values[value] = Value(type=value.type, input=value.input)
        return values[value]

    def renewed_block(block: Block) -> Block:
        if block not in blocks:
            blocks[block] = Block()
        return blocks[block]

    def renewed_operation(one: Operation) -> Operation:
        regions = []
        for region in one.regions:
            for block in region:
                copied = renewed_block(block)
                copied.arguments = [renewed(each) for each in block.arguments]
                copied.operations = [renewed_operation(each) for each in block.operations]
            regions.append([blocks[block] for block in region])
        return Operation(
            name=one.name,
            operands=[renewed(each) for each in one.operands],
            results=[renewed(each) for each in one.results],
            successors=[renewed_block(each) for each in one.successors],
            properties=dict(one.properties),
            attributes=dict(one.attributes),
            regions=regions,
        )

    return Module(operation=renewed_operation(module.operation), resources=module.resources)


_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
#: What means nothing between other things: blanks, comments, locations' aliases.
_BLANK = re.compile(r"(?:\s+|//[^\n]*|#loc\d* = [^\n]*)*")
#: Runs of text without a bracket, a comma or a blank; ``->`` and ``>=`` of an affine set close nothing.
_PIECE = re.compile(rf"{_STRING}|->| >= | <= |[^\"(){{}}<>\[\],\s>-]+|.", re.DOTALL)
_VALUE = re.compile(r"%([\w$.-]+(?:#\d+)?)")
_DEFINED = re.compile(r"%([\w$.-]+)(?::(\d+))?\s*(?:,\s*|(=)\s*)")
_OPERATION = re.compile(rf"({_STRING})\s*\(")
_LABEL = re.compile(r"\^([\w$.-]+)")
_NAME = re.compile(rf"({_STRING}|[\w$.-]+)\s*")
_BARE_NAME = re.compile(r"[A-Za-z_][\w$.]*")
_RESOURCES = re.compile(r"\{-#.*#-\}", re.DOTALL)


def parse(text: str) -> Module:
    """Read a module in generic form, without aliases: ``mlir-opt --mlir-print-op-generic --mlir-print-local-scope``.

    Locations are dropped. Raise ParseError if the text is anything else.
    """
    reader = _Reader(text)
    reader.blank()
    outermost = _Scope()
    operation = reader.operation(outermost, 0)
    reader.resolve(outermost, None)
    if operation.name != "builtin.module":
        raise reader.error(f"the outermost operation is {operation.name}, not builtin.module", 0)
    found = _RESOURCES.match(text, reader.at)
    if found:
        reader.at = found.end()
        reader.blank()
    if reader.at != len(text):
        raise reader.error("text after the module; is it in generic form, without aliases?")
    return Module(operation=operation, resources=found[0] if found else "")


class _Scope:
    """The names of a region: those that it defines, and the operands whose names it has not defined yet."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, Block] = {}
        #: An operation, the number of its operand, its name and the position of its text.
        self.open: list[tuple[Operation, int, str, int]] = []


class _Reader:
    """A position in a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def error(self, reason: str, at: int | None = None) -> ParseError:
        position = self.at if at is None else at
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return ParseError(f"line {line}, column {column}: {reason}")

    def blank(self) -> None:
        found = _BLANK.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def take(self, mark: str) -> bool:
        """Read a mark, and the blanks after it, if it stands here."""
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        self.blank()
        return True

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self.error(f"{mark!r} is expected, in MLIR's generic form")

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.error(f"{what} is expected, in MLIR's generic form")
        self.at = found.end()
        return found

    def operation(self, scope: _Scope, depth: int) -> Operation:
        defined: list[tuple[str, int | None]] = []
        while self.text.startswith("%", self.at):
            found = self.match(_DEFINED, "'=' after the names of results")
            defined.append((found[1], int(found[2]) if found[2] else None))
        begin = self.at
        name = self.match(_OPERATION, "an operation")[1]
        operation = Operation(name=name[1:-1])
        self.blank()
        places = self._operands(operation, scope)
        if self.take("["):
            while not self.take("]"):
                label = self.match(_LABEL, "a block")[1]
                operation.successors.append(scope.blocks.setdefault(label, Block()))
                self.blank()
                self.take(",")
        if self.take("<{"):
            operation.properties = self._attributes()
            self.expect(">")
        if self.take("("):
            while not self.take(")"):
                operation.regions.append(self._region(scope, depth + 1))
                self.take(",")
        if self.take("{"):
            operation.attributes = self._attributes()
        self.expect(":")
        self._types(operation, places)
        self._define(operation, defined, scope, begin)
        self._location()
        return operation

    def _operands(self, operation: Operation, scope: _Scope) -> int:
        """Read the names of operands; return how many they are."""
        number = 0
        while not self.take(")"):
            found = self.match(_VALUE, "a value")
            name = found[1]
            known = scope.values.get(name)
            if known is None:
                scope.open.append((operation, number, name, found.start()))
                known = _UNKNOWN
            operation.operands.append(known)
            number += 1
            self.blank()
            self.take(",")
        return number

    def _types(self, operation: Operation, operands: int) -> None:
        begin = self.at
        self.expect("(")
        if len(self.list_until(")")) != operands:
            raise self.error(f"{operation.name} has more or fewer operands than types", begin)
        self.expect("->")
        types = self.list_until(")") if self.take("(") else [self.balanced()]
        operation.results = [Value(type=each) for each in types]

    def _define(self, operation: Operation, defined: list[tuple[str, int | None]], scope: _Scope, begin: int) -> None:
        """Give the results their names."""
        results = iter(operation.results)
        for name, count in defined:
            for number in range(count or 1):
                value = next(results, None)
                if value is None:
                    raise self.error(f"{operation.name} has more names than results", begin)
                scope.values[name if count is None else f"{name}#{number}"] = value
                if number == 0:
                    scope.values.setdefault(name, value)

    def _region(self, outer: _Scope, depth: int) -> list[Block]:
        if depth > MOST_REGIONS:
            raise self.error(f"more than {MOST_REGIONS} regions are inside one another")
        scope = _Scope()
        region: list[Block] = []
        self.expect("{")
        while not self.take("}"):
            if self.text.startswith("^", self.at):
                region.append(self._label(scope))
                continue
            if not region:
                region.append(Block())
            region[-1].operations.append(self.operation(scope, depth))
        missing = [label for label, block in scope.blocks.items() if block not in region]
        if missing:
            raise self.error(f"^{missing[0]} is no block of the region that ends here")
        self.resolve(scope, outer)
        return region

    def _label(self, scope: _Scope) -> Block:
        block = scope.blocks.setdefault(self.match(_LABEL, "a block")[1], Block())
        if self.take("("):
            while not self.take(")"):
                name = self.match(_VALUE, "an argument")[1]
                self.blank()
                self.expect(":")
                value = Value(type=self.balanced())
                scope.values[name] = value
                block.arguments.append(value)
                self._location()
                self.take(",")
        self.expect(":")
        return block

    def resolve(self, scope: _Scope, outer: _Scope | None) -> None:
        """Give operands the values of a region that is read; those that it lacks are looked up in the one around it."""
        for operation, number, name, at in scope.open:
            value = scope.values.get(name)
            if value is None and outer is not None:
                value = outer.values.get(name)
            if value is not None:
                operation.operands[number] = value
            elif outer is not None:
                outer.open.append((operation, number, name, at))
            else:
                raise self.error(f"%{name} is not defined", at)

    def _attributes(self) -> dict[str, str]:
        """Read ``NAME = VALUE, NAME}``."""
        attributes: dict[str, str] = {}
        while not self.take("}"):
            name = self.match(_NAME, "the name of an attribute")[1]
            if name.startswith('"'):
                name = name[1:-1]
            attributes[name] = self.balanced(blanks=True) if self.take("=") else ""
            self.take(",")
        return attributes

    def list_until(self, end: str) -> list[str]:
        """Read types up to a closing mark. A function's type has blanks."""
        types: list[str] = []
        while not self.take(end):
            types.append(self.balanced(blanks=True))
            self.take(",")
        return types

    def _location(self) -> None:
        if self.text.startswith("loc(", self.at):
            self.balanced()

    def balanced(self, *, blanks: bool = False) -> str:
        """Read text up to a comma, a closing mark or, unless they belong to it, a blank, outside of brackets and strings."""
        text, begin, depth, at = self.text, self.at, 0, self.at
        while at < len(text):
            found = _PIECE.match(text, at)
            assert found is not None
            piece = found[0]
            if piece in "([{<":
                depth += 1
            elif depth == 0 and (piece in ")]}>," or (piece.isspace() and not blanks)):
                break
            elif piece in ")]}>":
                depth -= 1
            at = found.end()
        self.at = at
        if at == begin:
            raise self.error("a type or an attribute is expected")
        self.blank()
        return text[begin:at].strip()


def split_list(text: str) -> list[str]:
    """Return the elements of an attribute ``[A, B]``."""
    reader = _Reader(text.removeprefix("["))
    return reader.list_until("]")


#: Stands for an operand that is not resolved yet.
_UNKNOWN = Value(type="")


def text_of(module: Module) -> str:
    """Return a module in generic form, which the release that printed it and later ones read."""
    writer = _Writer()
    writer.operation(module.operation, 0)
    if module.resources:
        writer.lines.append(f"\n{module.resources}")
    return "\n".join(writer.lines) + "\n"


class _Writer:
    """Lines of text, and the names of values and blocks so far. Each name is used once, so none hides another."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._values: dict[Value, str] = {}
        self._blocks: dict[Block, str] = {}
        self._results = 0
        self._arguments = 0

    def _value(self, value: Value) -> str:
        """Return a value's name; one that is used before its definition gets its name here."""
        name = self._values.get(value)
        if name is None:
            name = f"%later{len(self._values)}"
            self._values[value] = name
        return name

    def _block(self, block: Block) -> str:
        return self._blocks.setdefault(block, f"^bb{len(self._blocks)}")

    def _define(self, operation: Operation) -> str:
        if not operation.results:
            return ""
        early = any(each in self._values for each in operation.results)
        if early:
            # Each result by its own name, which an operation before this one has used.
            return ", ".join(map(self._value, operation.results)) + " = "
        name = f"%{self._results}"
        self._results += 1
        if len(operation.results) == 1:
            self._values[operation.results[0]] = name
            return f"{name} = "
        for number, value in enumerate(operation.results):
            self._values[value] = f"{name}#{number}"
        return f"{name}:{len(operation.results)} = "

    def operation(self, one: Operation, depth: int) -> None:
        indent = "  " * depth
        pieces = [indent, self._define(one), f'"{one.name}"(', ", ".join(map(self._value, one.operands)), ")"]
        if one.successors:
            pieces.append(f"[{', '.join(map(self._block, one.successors))}]")
        if one.properties:
            pieces.append(f" <{{{_written(one.properties)}}}>")
        if one.regions:
            pieces.append(" (")
            for number, region in enumerate(one.regions):
                self.lines.append("".join([*pieces, ", {" if number else "{"]))
                self._region(region, depth)
                pieces = [indent, "}"]
            pieces.append(")")
        if one.attributes:
            pieces.append(f" {{{_written(one.attributes)}}}")
        operands = ", ".join(each.type for each in one.operands)
        results = ", ".join(each.type for each in one.results)
        if len(one.results) != 1 or results.startswith("("):
            results = f"({results})"
        pieces.append(f" : ({operands}) -> {results}")
        self.lines.append("".join(pieces))

    def _region(self, region: list[Block], depth: int) -> None:
        for number, block in enumerate(region):
            if number or block.arguments or block in self._blocks or not block.operations:
                for value in block.arguments:
                    self._values.setdefault(value, f"%arg{self._arguments}")
                    self._arguments += 1
                arguments = ", ".join(f"{self._values[each]}: {each.type}" for each in block.arguments)
                label = f"{self._block(block)}({arguments}):" if arguments else f"{self._block(block)}:"
                self.lines.append("  " * depth + label)
            for one in block.operations:
                self.operation(one, depth + 1)


def _written(attributes: dict[str, str]) -> str:
    return ", ".join(
        f"{_attribute_name(name)} = {value}" if value else _attribute_name(name) for name, value in attributes.items()
    )


def _attribute_name(name: str) -> str:
    return name if _BARE_NAME.fullmatch(name) else f'"{name}"'
