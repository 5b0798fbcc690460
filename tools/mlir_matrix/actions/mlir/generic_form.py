"""Read operations in MLIR's generic form: the signature of ``@main``, attributes, types of operands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mlir_matrix.actions.contract import ActionFailed

_NAME = '"main"'
#: Where a function of the module itself begins and where its body, its only region, ends.
_OPENING, _CLOSING = '  "func.func"() ', "  }) "
_ATTRIBUTE = re.compile(r"([\w.$]+) = (.*)", re.DOTALL)
#: What bounds a type; a string, whose brackets mean nothing, and an arrow are taken whole.
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|->|[(){}<>\[\],]')
#: The first line of an operation, and a place in a file.
_BEGUN = re.compile(r'\s*(?:%[^="\n]+ = )?"([\w.$-]+)"\(')
_PLACE = re.compile(r'"([^"\n]+)":(\d+:\d+)')
_TYPE = re.compile(r"tensor<((?:(?:\d+|\?)x)*)([a-z][a-z0-9]*)>")


@dataclass(frozen=True)
class Written:
    """A type as it is written; a tensor's shape has None for what is open."""

    text: str

    @property
    def tensor(self) -> tuple[list[int | None], str] | None:
        """Shape and element type; None for what is no ranked tensor."""
        found = _TYPE.fullmatch(self.text)
        if found is None:
            return None
        return [None if size == "?" else int(size) for size in found[1].split("x")[:-1]], found[2]

    def __str__(self) -> str:
        return self.text


def signature(generic: str) -> tuple[Sequence[Written], Sequence[Written]]:
    """Return the types of @main's arguments and results, from a module in generic form."""
    for attributes in _functions(generic):
        if attributes.get("sym_name") == _NAME:
            return _function_type(attributes["function_type"])
    raise ActionFailed("the file has no func.func @main")


def operation(text: str) -> tuple[dict[str, str], list[str]]:
    """Return attributes and types of operands from what follows an operation's name: ``(%0) <{…}> ({…}) {…} : (T) -> T``."""
    rest = _group(text)[1].lstrip()
    found = _attributes(rest[1:]) if rest.startswith("<{") else {}
    if rest.startswith("<{"):
        rest = rest[len(_until(rest[1:], ">")) + 2 :].lstrip()
    if rest.startswith("("):
        rest = _group(rest)[1].lstrip()
    found |= _attributes(rest)
    rest = rest[len(_until(rest[1:], "}")) + 2 :].lstrip() if rest.startswith("{") else rest
    return found, list(split(_group(rest.removeprefix(": "))[0])) if rest.startswith(": (") else []


class LocatedOperation(NamedTuple):
    """An operation of a module in generic form with locations."""

    name: str
    #: The types of its operands and results, and of the arguments of its blocks, as text.
    types: str
    #: File, ``LINE:COLUMN``; empty if it has no place in a file.
    file: str
    place: str
    #: How many operations it is inside of.
    depth: int


def operations(located: str) -> list[LocatedOperation]:
    """Return all operations of a module in generic form with locations, without aliases, in the order of their first lines."""
    found: list[LocatedOperation] = []
    #: Those whose regions are open: the number in ``found``, and the lines of their blocks.
    opened: list[tuple[int, list[str]]] = []
    for line in located.split("\n"):
        begun = _BEGUN.match(line)
        if begun:
            found.append(_ended(begun[1], line, [], len(opened)))
            if line.endswith("({"):
                opened.append((len(found) - 1, []))
        elif opened and line.lstrip().startswith("^"):
            opened[-1][1].append(line)
        elif opened and line.lstrip().startswith("})"):
            number, blocks = opened.pop()
            found[number] = _ended(found[number].name, line, blocks, len(opened))
    return found


def _ended(name: str, line: str, blocks: Sequence[str], depth: int) -> LocatedOperation:
    """Return an operation from its last line, which ends ``: (T) -> T loc(…)``."""
    rest, _, location = line.rpartition(" loc(")
    place = _PLACE.search(location)
    types = "\n".join([rest.rpartition(" : (")[2], *blocks])
    file, position = (place[1], place[2]) if place else ("", "")
    return LocatedOperation(name, types, file, position, depth)


def custom_signature(text: str) -> tuple[list[str], list[str]]:
    """Return the types of arguments and results from what follows a function's name in the custom form: ``(%a: T) -> T {``."""
    inside, rest = _group(text)
    arguments = [each.partition(": ")[2] if each.startswith("%") else each for each in split(inside)]
    rest = rest.lstrip()
    results: list[str] = []
    if rest.startswith("->"):
        rest = rest.removeprefix("->").lstrip()
        listed = _group(rest)[0] if rest.startswith("(") else _until(rest, "{").removesuffix("attributes ")
        results = list(split(listed))
    return [_until(each, "{").strip() for each in arguments], [_until(each, "{").strip() for each in results]


def _functions(generic: str) -> Iterator[dict[str, str]]:
    """Yield the attributes of the module's own functions, as written. Inner operations are indented further."""
    opened = None
    for line in generic.split("\n"):
        if line.startswith(_OPENING):
            opened = line.removeprefix(_OPENING)
        elif opened is not None and line.startswith(_CLOSING):
            # From 17 on what is the operation's own stands before the body; until then all attributes follow it.
            yield _attributes(opened[1:] if opened.startswith("<{") else line.removeprefix(_CLOSING))
            opened = None


def _attributes(text: str) -> dict[str, str]:
    """Read ``{NAME = VALUE, …}`` from the start of a text, without names in quotes or without values."""
    inside = _until(text[1:], "}") if text.startswith("{") else ""
    matches = map(_ATTRIBUTE.fullmatch, split(inside))
    return {found[1]: found[2] for found in matches if found}


def _function_type(text: str) -> tuple[list[Written], list[Written]]:
    """Read ``(A, B) -> C`` or ``(A, B) -> (C, D)`` from the start of a text."""
    inputs, rest = _group(text)
    rest = rest.lstrip().removeprefix("->").lstrip()
    if rest.startswith("("):
        return _types(inputs), _types(_group(rest)[0])
    return _types(inputs), _types(rest)


def _group(text: str) -> tuple[str, str]:
    """Return the text in the first parentheses, and the text after them."""
    inside = _until(text[1:], ")")
    return inside, text[len(inside) + 2 :]


def _until(text: str, ends: str) -> str:
    """Return the text up to the first of some characters outside of brackets and quotes; ``->`` closes nothing."""
    depth = 0
    for found in _MARK.finditer(text):
        mark = found[0]
        if depth == 0 and mark in ends:
            return text[: found.start()]
        if mark in "(<[{":
            depth += 1
        elif mark in ")>]}":
            depth -= 1
            if depth < 0:
                return text[: found.start()]
    return text


def _types(text: str) -> list[Written]:
    return [Written(each) for each in split(text)]


def split(text: str) -> Iterator[str]:
    """Split a text at commas outside of brackets and quotes."""
    rest = text.strip()
    while rest:
        one = _until(rest, ",")
        yield one.strip()
        rest = rest[len(one) + 1 :].strip()
