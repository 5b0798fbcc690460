"""Read YAML as plain data, with the place of every key and item, from files that may come from a stranger.

The accepted subset of YAML is the one on which all readers agree: one document, a mapping at the top, keys that are
text, scalars that are null, true, false, decimal numbers or text. Anchors, aliases, merge keys and tags are refused (a
small file can stand for gigabytes), and so are scalars that YAML versions read differently. Events are read one by one,
never recursively, so that no file can exhaust stack or memory.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.names import printable

MOST_BYTES = 1 << 20
MOST_LEVELS = 32

#: Control characters, line ends of some programs (NEL, LS, PS), marks that reorder text on the screen, non-characters.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Key = str | int
Scalar = bool | int | float | str | None
#: What a file holds.
Data: TypeAlias = "Scalar | list[Data] | dict[str, Data]"
Place = tuple[int, int]

#: No size, seed or option needs more than 64 bits, and huge integers take quadratic time to convert.
MOST_DIGITS = 18
#: The longest number. On longer texts, some of the expressions below would take quadratic time.
MOST_CHARACTERS = 64

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_OLD_BOOL = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.inf|\.nan", re.IGNORECASE)
_AMBIGUOUS = re.compile(
    r"[-+]?(?:0[0-9_]+(?:\.[0-9_]*)?|0[xX][0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+"
    r"|[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?|[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?)"
)
_MAY_BE_NUMBER = frozenset("0123456789+-.")


def located(file: str, place: Place, problem: str) -> str:
    """Return ``file:line:column: problem``; without line and column where the line is 0."""
    position = f":{place[0]}:{place[1]}" if place[0] else ""
    return f"{printable(file, 4096)}{position}: {problem}"


class SourceError(CatalogError):
    """A file that cannot be read as plain data, with ``file``, ``place`` (line and column from 1) and ``problem``."""

    def __init__(self, file: str, place: Place, problem: str) -> None:
        self.file, self.place, self.problem = file, place, problem
        super().__init__(located(file, place, problem))


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file that was read: its name for messages, its data, and the place of each key and item."""

    file: str
    data: Mapping[str, Data]
    places: Mapping[tuple[Key, ...], Place] = field(repr=False)

    def place(self, *keys: Key) -> Place:
        """Return line and column (from 1) of a key or item, or of the innermost one around it."""
        path = keys
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def position(self, *keys: Key) -> str:
        """Return ``file:line:column`` of a key or item, or of the innermost one around it."""
        line, column = self.place(*keys)
        return f"{self.file}:{line}:{column}"

    def beside(self, name: str) -> str:
        """Return the name, for messages, of another file in the same folder."""
        return f"{self.file.rpartition('/')[0]}/{name}"


def read(path: Path, file: str) -> Source:
    """Read the YAML file at ``path``, called ``file`` in messages. Raises SourceError."""
    return parse(read_text(path, file), file)


def read_text(path: Path, file: str) -> str:
    """Read the text of a regular file: UTF-8, no control characters, at most ``MOST_BYTES``. Raises SourceError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with open(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SourceError(file, (0, 0), "is not a regular file")
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise SourceError(file, (0, 0), f"cannot be read: {error.strerror}") from None
    return decode(data, file)


def decode(data: bytes, file: str) -> str:
    """Decode text; see :func:`read_text`."""
    if len(data) > MOST_BYTES:
        message = f"is larger than {MOST_BYTES >> 20} MiB, which ends here; split or shorten the file"
        before = data[:MOST_BYTES].decode(errors="replace")
        raise SourceError(file, place_in(before, len(before)), message)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        problem = f"is not UTF-8: byte 0x{error.object[error.start]:02x}"
        raise SourceError(file, place_in(before, len(before)), problem) from None
    if found := _FORBIDDEN.search(text):
        problem = f"holds the control character U+{ord(found[0]):04X}"
        raise SourceError(file, place_in(text, found.start()), problem)
    return text


def place_in(text: str, offset: int) -> Place:
    """Return line and column (from 1) of an offset in a text."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def parse(text: str, file: str) -> Source:
    """Read YAML text. Raises SourceError with the place of the error."""
    reader = _Reader(file)
    try:
        data = reader.document(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        context = f" ({error.context})" if error.context else ""
        raise SourceError(file, place, f"broken YAML: {error.problem}{context}") from None
    except yaml.YAMLError as error:
        raise SourceError(file, (1, 1), f"broken YAML: {printable(str(error))}") from None
    return Source(file=file, data=data, places=reader.places)


@dataclass
class _Level:
    """A mapping or sequence that is being read; ``key`` is the key whose value is next."""

    path: tuple[Key, ...]
    content: dict[str, Data] | list[Data]
    key: str | None = None


class _Reader:
    """Builds data and places from the parser's events."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[tuple[Key, ...], Place] = {}
        self.levels: list[_Level] = []
        self.root: dict[str, Data] | None = None

    def document(self, events: Iterator[yaml.Event]) -> dict[str, Data]:
        """Return the only document of a stream."""
        started = False
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.levels.pop()
            elif isinstance(event, yaml.AliasEvent):
                raise self._error(
                    event, f"'*{printable(str(event.anchor))}': aliases are refused; write the value again"
                )
            elif isinstance(event, yaml.DocumentStartEvent):
                if started:
                    raise self._error(event, "a second document begins here; a file holds one")
                started = True
        if self.root is None:
            raise SourceError(self.file, (1, 1), "the file is empty")
        return self.root

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        self._no_properties(event)
        if len(self.levels) >= MOST_LEVELS:
            raise self._error(event, f"nested more than {MOST_LEVELS} levels deep")
        content: dict[str, Data] | list[Data] = {} if isinstance(event, yaml.MappingStartEvent) else []
        path: tuple[Key, ...] = ()
        if self.levels:
            path = self._add(self.levels[-1], content, event)
        elif isinstance(content, dict):
            self.root = content
        else:
            raise self._error(event, "expected keys with values (key: value), got a list")
        self.levels.append(_Level(path, content))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._no_properties(event)
        if self.levels:
            self._add(self.levels[-1], self._value(event), event)
        elif event.value:
            raise self._error(event, f"expected keys with values (key: value), got '{printable(event.value, 40)}'")

    def _value(self, event: yaml.ScalarEvent) -> Scalar:
        text: str = event.value
        if event.implicit[0]:
            try:
                return plain_scalar(text)
            except ScalarError as problem:
                raise self._error(event, str(problem)) from None
        if event.style == '"' and (found := _FORBIDDEN.search(text)):
            raise self._error(event, f"holds the control character U+{ord(found[0]):04X}")
        return text

    def _add(self, level: _Level, value: Data, event: yaml.NodeEvent) -> tuple[Key, ...]:
        """Add a key or a value to a level and return its path. A value in a mapping has the place of its key."""
        content = level.content
        if isinstance(content, list):
            path: tuple[Key, ...] = (*level.path, len(content))
            content.append(value)
        elif level.key is not None:
            content[level.key] = value
            path, level.key = (*level.path, level.key), None
            return path
        else:
            key = self._key(value, event)
            path = (*level.path, key)
            if key in content:
                line, column = self.places[path]
                raise self._error(event, f"the key '{printable(key)}' is a duplicate; first at {line}:{column}")
            level.key = key
        self.places[path] = _place(event)
        return path

    def _key(self, key: Data, event: yaml.NodeEvent) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(event, f"a key must be text, not a {'mapping' if isinstance(key, dict) else 'list'}")
        if not isinstance(key, str):
            shown = printable(event.value, 40)
            raise self._error(event, f'a key must be text; write "{shown}"' if shown else "a key must not be empty")
        if key == "<<":
            raise self._error(event, "merge keys (<<) are refused; write the keys out")
        return key

    def _no_properties(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.anchor is not None:
            name = printable(event.anchor, 40)
            raise self._error(event, f"'&{name}': anchors are refused; write the value where it is used")
        if event.tag is not None:
            tag = printable(event.tag.replace("tag:yaml.org,2002:", "!!"), 40)
            raise self._error(event, f"'{tag}': tags are refused; write the value alone")

    def _error(self, event: yaml.Event, problem: str) -> SourceError:
        return SourceError(self.file, _place(event), problem)


def _place(event: yaml.Event) -> Place:
    mark = event.start_mark
    assert mark is not None
    return mark.line + 1, mark.column + 1


class ScalarError(ValueError):
    """A plain scalar that YAML readers disagree on, or that is too large."""


def plain_scalar(text: str) -> Scalar:
    """Return the value of a plain scalar. Raises ScalarError with a sentence for messages."""
    if text in _NULL:
        return None
    if text[0] in _MAY_BE_NUMBER:
        return _number_or_text(text)
    if text in _BOOL:
        return _BOOL[text]
    if (meant := _OLD_BOOL.get(text.lower())) is not None:
        fix = _write(meant, text)
        raise ScalarError(f"unquoted {text} is {meant} to some YAML readers and text to others; {fix}")
    return text


def _number_or_text(text: str) -> int | float | str:
    if len(text) > MOST_CHARACTERS:
        if _FLOAT.fullmatch(text):
            raise ScalarError(f"a number of {len(text)} characters is too long")
        return text
    if _INT.fullmatch(text):
        if len(text.lstrip("+-")) > MOST_DIGITS:
            raise ScalarError(f"a number of {len(text)} digits is too large; {MOST_DIGITS} at most")
        return int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if not math.isfinite(value):
            raise ScalarError("the number is too large")
        return value
    if _SPECIAL.fullmatch(text):
        raise ScalarError(f"{text} is refused; a number must be finite")
    if _AMBIGUOUS.fullmatch(text):
        fix = _write("a plain decimal number", text)
        raise ScalarError(f"unquoted {text} is a number to some YAML readers and text to others; {fix}")
    return text


def _write(value: str, text: str) -> str:
    return f'write {value}, or "{text}" for the text'
