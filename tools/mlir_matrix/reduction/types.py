"""Shapes and element types of types as they are written, and attributes that give a value of such a type."""

from __future__ import annotations

import math
import re

from mlir_matrix.actions.mlir.sizes import sizes_of

_SHAPED = re.compile(r"(?:tensor|memref|vector)<(?:(?:\d+|\?)x)*([^,<>]+)[,>]|!torch\.vtensor<\[[\d,?]*\],([^,<>]+)>")
_FLOAT = re.compile(r"b?f\d\w*|tf32")
_INTEGER = re.compile(r"[su]?i\d+|index")
#: Element types that every part of a toolchain knows.
PLAIN = frozenset({"f32", "i32", "i1", "index"})


def element_of(text: str) -> str:
    """Return the type of the elements of a tensor, a memref or a vector; any other type is its own."""
    found = _SHAPED.match(text)
    return (found[1] or found[2]) if found else text


def is_tensor(text: str) -> bool:
    return text.startswith(("tensor<", "!torch.vtensor<["))


def kind_of(text: str) -> str:
    """Return what a type is, without sizes and elements: "tensor", "!torch.vtensor"; empty for a scalar."""
    return text.partition("<")[0] if "<" in text else ""


def is_fixed_tensor(text: str) -> bool:
    """Return True for a tensor of numbers, all of whose sizes are known: an input can have that type."""
    element = element_of(text)
    return is_tensor(text) and "?" not in text and (is_float(element) or is_integer(element))


def is_float(text: str) -> bool:
    return _FLOAT.fullmatch(text) is not None


def is_integer(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None


def cost_of(text: str) -> int:
    """Return how many elements a type has; those of types that are not plain count twice."""
    elements = math.prod(sizes_of(text))
    return elements if element_of(text) in PLAIN else 2 * elements
