"""Edit the text of YAML files of catalogs: add an item like the others, and keep the rest as it is."""

from __future__ import annotations

import yaml

from mlir_matrix.base.text import Edit
from mlir_matrix.catalog.yaml_reader import ScalarError, plain_scalar


def added(text: str, parent: yaml.Node, before: yaml.Node | None, item: str) -> Edit:
    """Return the edit that adds an item after ``before``, in brackets or on its own line, like the others."""
    if before is None:
        place = parent.end_mark.index - 1
        return (place, place, item)
    place = _end(before)
    if brackets(parent):
        return (place, place, f", {item}")
    line_end = text.find("\n", place)
    place = len(text) if line_end < 0 else line_end
    return (place, place, f"\n{' ' * parent.start_mark.column}{item}")


def _end(node: yaml.Node) -> int:
    """Return the end of the last scalar in a node. The end of a block would be the start of the next node."""
    while isinstance(node, yaml.CollectionNode) and not brackets(node):
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def brackets(node: yaml.Node) -> bool:
    """Return whether a mapping or a list is written in one line, in brackets."""
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def replaced(node: yaml.Node, word: str) -> Edit:
    """Return the edit that puts a word, as YAML spells it, in the place of a node."""
    return node.start_mark.index, node.end_mark.index, word


def values_of(text: str) -> dict[str, yaml.Node]:
    """Return the values of a document, which is a mapping, by key."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None, "it was loaded"
    return values(root)


def values(node: yaml.Node) -> dict[str, yaml.Node]:
    """Return the values of a mapping by key."""
    return {key.value: value for key, value in node.value}


def plain(value: str) -> str:
    """Quote a string if YAML would read another value."""
    try:
        return value if plain_scalar(value) == value else f'"{value}"'
    except ScalarError:
        return f'"{value}"'
