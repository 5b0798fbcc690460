"""Change bounds of tolerance layers, as a patch for ``git apply`` and ``patch -p1``.

A bound keeps its form, which shows the reason for it. Only its first factor changes; a bound without a number gets one. Files are
edited as text, so that comments and layout stay.
"""

from __future__ import annotations

import ast
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from mlir_matrix.base.text import Edit, apply

#: The beginning of the sentence that a calibration adds to a rationale. A later calibration replaces it.
CALIBRATED = "Calibrated over "
_WIDTH = 118


@dataclass(frozen=True, kw_only=True)
class LayerProposal:
    """The change of a layer, given by its index in the file: bounds by key, and a sentence for its rationale."""

    index: int
    bounds: Mapping[str, str]
    sentence: str


def scaled(bound: float | str, factor: float) -> tuple[str, float]:
    """Return a bound times ``factor`` in the same form, its first number rounded up, and the exact factor."""
    text = str(bound).strip()
    tree = ast.parse(text.replace("\n", " "), mode="eval").body
    first = tree
    while isinstance(first, ast.BinOp) and isinstance(first.op, (ast.Mult, ast.Div)):
        first = first.left
    if isinstance(first, ast.Constant) and isinstance(first.value, (int, float)) and first.value:
        # Columns count bytes, but only brackets come before the first factor.
        assert first.end_col_offset is not None
        number = rounded_up(first.value * factor)
        return text[: first.col_offset] + number + text[first.end_col_offset :], float(number) / first.value
    number = rounded_up(factor)
    is_sum = isinstance(tree, ast.UnaryOp) or (isinstance(tree, ast.BinOp) and isinstance(tree.op, (ast.Add, ast.Sub)))
    return f"{number} * {f'({text})' if is_sum else text}", float(number)


def rounded_up(value: float) -> str:
    """Round a number, 0 or more, up to two digits: ``0.9``, ``12``, ``130``, ``4.1e-07``."""
    if value == 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # 1e-9: ignore the last bits of a double.
    return f"{math.ceil(value / unit - 1e-9) * unit:.6g}"


def edited(text: str, proposals: Sequence[LayerProposal]) -> str:
    """Return the text of a tolerance file with other bounds."""
    layers = _value(yaml.compose(text, Loader=yaml.SafeLoader), "layers").value
    edits: list[Edit] = []
    for proposal in proposals:
        layer = layers[proposal.index]
        for key, bound in proposal.bounds.items():
            node = _value(layer, key)
            assert isinstance(node, yaml.ScalarNode)
            quote = node.style or ""
            edits.append((node.start_mark.index, node.end_mark.index, f"{quote}{bound}{quote}"))
        edits.append(_rationale(text, _value(layer, "rationale"), proposal.sentence))
    return apply(text, edits)


def value_of(mapping: yaml.Node | None, key: str) -> yaml.Node | None:
    """Return the value of a key of a mapping; None without such a key."""
    pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _value(mapping: yaml.Node | None, key: str) -> yaml.Node:
    found = value_of(mapping, key)
    assert found is not None
    return found


def _rationale(text: str, node: yaml.Node, sentence: str) -> Edit:
    """Return the edit that ends a rationale with a sentence, in place of that of an earlier calibration."""
    assert isinstance(node, yaml.ScalarNode)
    start, end = node.start_mark.index, node.end_mark.index
    if node.style not in ("|", ">"):
        kept = node.value.partition(CALIBRATED)[0].rstrip()
        return start, end, json.dumps(f"{kept} {sentence}".strip(), ensure_ascii=False)
    header, *lines = text[start:end].rstrip().split("\n")
    indent = next(line[: len(line) - len(line.lstrip())] for line in lines if line.strip())
    earlier = next((at for at, line in enumerate(lines) if line.strip().startswith(CALIBRATED)), len(lines))
    added = textwrap.wrap(
        sentence, width=_WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    body = "\n".join([header, *lines[:earlier], *added])
    return start, start + len(text[start:end].rstrip()), body
