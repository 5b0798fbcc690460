"""The change of known-good files that ``matrix toolchain roll`` proposes: a patch in which comments and order stay."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from mlir_matrix.catalog.load import KNOWN_GOOD
from mlir_matrix.catalog.models.toolchains import Passed
from mlir_matrix.catalog.yaml_reader import ScalarError, plain_scalar
from mlir_matrix.judge.roll import by_root
from mlir_matrix.session import Session


def patches(session: Session, pins: Mapping[str, str], passed: Passed) -> Iterator[tuple[Path, str]]:
    """For each catalog whose known-good file changes its folder, and the change as ``git apply`` takes it there."""
    catalog = session.catalog
    known = {entry.root: entry.folder / KNOWN_GOOD for entry in catalog.known_good}
    suite_root = catalog.suites[passed.suite].root
    shown = f"toolchains/{KNOWN_GOOD}"
    for root, ours in by_root(catalog, pins).items():
        path = known.get(root)
        # As it is: whatever ends its lines, the patch must fit.
        text = path.read_bytes().decode() if path else ""
        # A catalog that others join must load without them, and knows none of their suites.
        told = passed if suite_root in (root, catalog.roots[0]) else None
        changed = edited(text or "pins: {}\n", ours, told)
        lines = difflib.unified_diff(_lines(text), _lines(changed), f"a/{shown}" if path else "/dev/null", f"b/{shown}")
        yield root, "".join(lines)


def _lines(text: str) -> list[str]:
    *lines, rest = text.split("\n")
    return [f"{line}\n" for line in lines] + ([f"{rest}\n\\ No newline at end of file\n"] if rest else [])


@dataclass(frozen=True, order=True)
class _Edit:
    """New text for the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str


def edited(text: str, pins: Mapping[str, str], passed: Passed | None) -> str:
    """A known-good file with other pins, and with what a suite passed under them in the place of what it passed before."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None, "it was loaded"
    document = _values(root)
    edits = [*_passed_edits(text, document.get("passed"), passed)] if passed else []
    edits += _pin_edits(text, document["pins"], pins)
    # From the end on, so that places stay true; of those at one place the last one goes in first.
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _pin_edits(text: str, node: yaml.Node, pins: Mapping[str, str]) -> Iterator[_Edit]:
    there = _values(node)
    new = {name: f"{name}: {_plain(release)}" for name, release in sorted(pins.items()) if name not in there}
    if not there:
        yield _added(text, node, None, ", ".join(new.values()))
        return
    for name in there.keys() & pins.keys():
        yield _replaced(there[name], _plain(pins[name]))
    for name in reversed(new):
        before = [there[each] for each in there if each < name] or list(there.values())
        yield _added(text, node, before[-1], new[name])


def _passed_edits(text: str, node: yaml.Node | None, passed: Passed) -> Iterator[_Edit]:
    words = {
        "suite": _plain(passed.suite), "as_expected": str(passed.as_expected), "total": str(passed.total),
        # In quotes, since YAML has a type of its own for dates.
        "date": f'"{passed.date}"', "outcomes": _plain(passed.outcomes),
    }  # fmt: skip
    if node is None:
        new = "" if text.endswith("\n") else "\n"
        yield _Edit(len(text), len(text), f"{new}passed:\n  - {_entry(words, '     ')}\n")
        return
    entries = [_values(entry) for entry in node.value]
    for entry in entries:
        if entry["suite"].value == passed.suite:
            yield from (_replaced(entry[key], word) for key, word in words.items())
            return
    indent = " " * (node.start_mark.column + 3)
    item = _entry(words, indent)
    yield _added(text, node, node.value[-1] if entries else None, item if _brackets(node) else f"- {item}")


def _entry(words: Mapping[str, str], indent: str) -> str:
    *head, last = (f"{key}: {word}" for key, word in words.items())
    return f"{{{', '.join(head)},\n{indent}{last}}}"


def _added(text: str, parent: yaml.Node, before: yaml.Node | None, item: str) -> _Edit:
    """Something more in a mapping or list, after another, as that is written: in brackets, or on lines of its own."""
    if before is None:
        place = parent.end_mark.index - 1
        return _Edit(place, place, item)
    place = _end(before)
    if _brackets(parent):
        return _Edit(place, place, f", {item}")
    line_end = text.find("\n", place)
    place = len(text) if line_end < 0 else line_end
    return _Edit(place, place, f"\n{' ' * parent.start_mark.column}{item}")


def _end(node: yaml.Node) -> int:
    """Where the last word of a node ends: that of a block would be where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not _brackets(node):
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _brackets(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _replaced(node: yaml.Node, word: str) -> _Edit:
    return _Edit(node.start_mark.index, node.end_mark.index, word)


def _values(node: yaml.Node) -> dict[str, yaml.Node]:
    return {key.value: value for key, value in node.value}


def _plain(value: str) -> str:
    """As YAML takes it for text: what would be a number, or is nothing to every reader, is quoted."""
    try:
        return value if plain_scalar(value) == value else f'"{value}"'
    except ScalarError:
        return f'"{value}"'
