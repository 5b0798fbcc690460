"""Collect the problems of a catalog's files, and turn pydantic's errors into one sentence for each position in a file.

pydantic reports every branch of a union at every level. Here errors are grouped by their path in the data, a deeper
error hides those around it, and the annotation gives the expected types.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.names import NAME_PATTERN, did_you_mean, printable, why_not_a_name
from mlir_matrix.catalog.models import base
from mlir_matrix.catalog.yaml_reader import Data, Key, Place, located

Path = tuple[Key, ...]
#: A type in words: one of them, several of them.
Words = tuple[str, str]

_TYPE_WORDS: tuple[tuple[object, Words], ...] = (
    (base.Name, ("a name", "names")),
    (base.Glob, ("a pattern for tests", "patterns for tests")),
    (base.NameGlob, ("a pattern for names", "patterns for names")),
    (base.Text, ("text", "texts")),
    (bool, ("true or false", "values true or false")),
    (int, ("a whole number", "whole numbers")),
    (float, ("a number", "numbers")),
    (str, ("text", "texts")),
)


def sentences(model: type[BaseModel], data: Mapping[str, Data], error: ValidationError) -> list[tuple[Path, str]]:
    """Return the path and a sentence for each thing that is wrong."""
    grouped: dict[Path, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False, include_context=True):
        grouped.setdefault(_path(data, detail), []).append(detail)
    around = {path[:length] for path in grouped for length in range(len(path))}
    found = []
    for path, details in grouped.items():
        serious = [detail for detail in details if not _follows(detail, within=path in around)]
        if serious:
            found.append((path, _sentence(model, path, serious)))
    return found


def _follows(detail: ErrorDetails, *, within: bool) -> bool:
    """Return whether an error only follows from others: another branch of a union, a list short of its wrong items."""
    if detail["type"] == "too_short":
        return bool(len(detail["input"]) >= detail["ctx"]["min_length"])
    return within and detail["type"] not in ("missing", "extra_forbidden")


def _path(data: Data | Mapping[str, Data], detail: ErrorDetails) -> Path:
    """Return the position of an error in the data: its location without the names of union branches."""
    path: list[Key] = []
    for part in detail["loc"]:
        if isinstance(part, str) and isinstance(data, dict):
            if part in data:
                path.append(part)
                data = data[part]
            elif detail["type"] == "missing" and part == detail["loc"][-1]:
                path.append(part)
        elif isinstance(part, int) and isinstance(data, list) and part < len(data):
            path.append(part)
            data = data[part]
    return tuple(path)


def _sentence(model: type[BaseModel], path: Path, details: Sequence[ErrorDetails]) -> str:
    """Return one sentence for all errors at one path, the most specific one."""
    by_type = {detail["type"]: detail for detail in details}
    value, expected = details[0]["input"], _types_at(model, path)
    # As in ``entry.linalg[0]``.
    parts = (f"[{part}]" if isinstance(part, int) else f".{printable(part, 40)}" for part in path)
    subject = f"'{''.join(parts).removeprefix('.')}'"
    if "missing" in by_type:
        return f"the key '{path[-1]}' is missing; it takes {describe(expected)[0]}"
    if "extra_forbidden" in by_type or (details[0]["loc"][-1] == "[key]" and "literal_error" in by_type):
        return _unknown_key(model, path)
    for kind, detail in sorted(by_type.items()):
        if kind == "string_pattern_mismatch":
            return _bad_pattern(str(detail["input"]), detail["ctx"]["pattern"])
        if kind.endswith("too_short"):
            return f"{subject} must not be empty"
        if kind.endswith("too_long"):
            return f"{subject} is too long: {len(detail['input'])}, {detail['ctx']['max_length']} at most"
    if "literal_error" in by_type and isinstance(value, str):
        choices = _choices(expected)
        meant = did_you_mean(value, choices, listed=False)
        return f"{subject}: '{printable(value)}' is none of {', '.join(choices)}{meant}"
    if any(kind.endswith(("_type", "_error")) and kind != "value_error" for kind in by_type):
        return _wrong_type(subject, expected, value)
    text = str(details[0]["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{subject}: {printable(text, 400)}"


def _unknown_key(model: type[BaseModel], path: Path) -> str:
    known: list[str] = []
    for found in _types_at(model, path[:-1]):
        if get_origin(found) is dict:
            known += _choices(_flat(get_args(found)[0]))
        elif isinstance(found, type) and issubclass(found, BaseModel):
            known += _keys(found)
    return f"unknown key '{printable(str(path[-1]))}'{did_you_mean(str(path[-1]), known)}"


def _bad_pattern(text: str, pattern: str) -> str:
    return why_not_a_name(text) if pattern == NAME_PATTERN else f"'{printable(text)}' is not {base.RULES[pattern]}"


def _wrong_type(subject: str, expected: list[object], value: object) -> str:
    sentence = f"{subject}: expected {describe(expected)[0] or 'something else'}, got {got(value)}"
    bare = [_bare(found) for found in expected]
    if isinstance(value, (bool, int, float)) and all(found is str for found in bare):
        sentence += "; put it in quotes"
    elif isinstance(value, str) and any(get_origin(found) is tuple for found in bare):
        sentence += f"; write [{printable(value, 40)}]"
    return sentence


def _bare(annotation: object) -> object:
    """Return an annotation without ``Annotated`` around it."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def got(value: object) -> str:
    """Describe a value of a YAML file."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text '{printable(value, 40)}'"
    return "a list" if isinstance(value, list) else "keys with values"


def describe(expected: list[object]) -> Words:
    """Describe the types that would be right: one value of them, several values."""
    found: dict[Words, None] = {}
    for annotation in expected:
        words = _words(annotation)
        if len(expected) > 2 and get_origin(annotation) is tuple and _flat(get_args(annotation)[0]) == expected[:-1]:
            words = "a list of these", "lists of these"
        found[words] = None
    if ("a number", "numbers") in found:
        found.pop(("a whole number", "whole numbers"), None)
    return _either([one for one, _ in found]), _either([many for _, many in found])


def _either(choices: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(choices[:-1]), *choices[-1:])))


def _words(annotation: object) -> Words:
    for known, words in _TYPE_WORDS:
        if annotation == known:
            return words
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe(_flat(arguments[0]))
    if origin is Literal:
        return (f"one of {', '.join(map(str, arguments))}",) * 2
    if origin is tuple:
        items = describe(_flat(arguments[0]))[1]
        return f"a list of {items}", f"lists of {items}"
    if origin is dict:
        return f"keys, each with {describe(_flat(arguments[1]))[0]}", "keys with values"
    assert isinstance(annotation, type)
    keys = ", ".join(_keys(annotation))
    return f"the keys {keys}", f"groups of the keys {keys}"


def _choices(expected: Iterable[object]) -> list[str]:
    return [str(choice) for found in expected if get_origin(found) is Literal for choice in get_args(found)]


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _types_at(model: type[BaseModel], path: Path) -> list[object]:
    """Return the alternatives that the models allow at a path of the data."""
    expected: list[object] = [model]
    for part in path:
        expected = [inner for found in expected for inner in _inside(_bare(found), part)]
    return expected


def _inside(annotation: object, part: Key) -> list[object]:
    """Return the alternatives for an item or a key's value of an annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (tuple, dict):
        return _flat(arguments[0 if origin is tuple else 1])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        hints = get_type_hints(annotation, include_extras=True)
        for name, field in annotation.model_fields.items():
            if part == (field.alias or name):
                return _flat(hints[name])
    return []


def _flat(annotation: object) -> list[object]:
    """Return an annotation's alternatives, unions opened, None left out."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [found for argument in get_args(annotation) for found in _flat(argument)]
    return [] if annotation is type(None) else [annotation]


#: Problems shown in one error; the rest are counted.
MOST_SHOWN = 20


class Problems:
    """The problems found so far."""

    def __init__(self) -> None:
        self.found: set[tuple[str, Place, str]] = set()
        #: Entries that cannot be used, by section and name: those over a limit, and machines that are wrong. They are left out;
        #: the rest of the catalog can be used.
        self.over: dict[tuple[str, str], str] = {}

    def add(self, file: str, message: str, place: Place = (0, 0)) -> None:
        """Add a problem with a file or folder, at a line and column (from 1) where they are known."""
        self.found.add((file, place, message))

    def leave_out(self, section: str, name: str, file: str, message: str, place: Place = (0, 0)) -> None:
        """Leave out an entry because of a problem with it."""
        self.over.setdefault((section, name), f"{located(file, place, message)}; it is left out")

    def leave_out_if_any(self, section: str, name: str, problems: Problems) -> None:
        """Leave out an entry that has problems of its own."""
        if problems.found:
            whole = "; ".join(located(*problem) for problem in sorted(problems.found))
            self.over.setdefault((section, name), f"{whole}; it is left out")

    def raise_if_any(self) -> None:
        """Raise one CatalogError, a line per problem, sorted by place."""
        if not self.found:
            return
        lines = [located(*problem) for problem in sorted(self.found)]
        if len(lines) > MOST_SHOWN:
            lines[MOST_SHOWN:] = [f"… and {len(lines) - MOST_SHOWN} more"]
        raise CatalogError("\n".join(lines))
