"""Sizes in types as they are written (``tensor<4x?xf32>``), and texts with other sizes in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

#: The sizes of a tensor, a memref or a vector: ``<4x?x``, and those of Torch's tensors: ``vtensor<[4,?],``.
_SIZES = re.compile(r"(?<=<)((?:(?:\d+|\?)x)+)|(?<=tensor<\[)([\d,?]+)(?=\])")
_SIZE = re.compile(r"\d+")
_COMMENT = re.compile(r"//[^\n]*")
#: A number that stands alone: ``250.0``, and no part of ``f32``, ``%c1`` or ``1.0e-05``.
_NUMBER = re.compile(r"(?<![\w.%#$+-])\d+(?:\.0+)?(?:[eE][+]?0+)?(?![\w.])")


def sizes_of(text: str) -> list[int]:
    """Return all known sizes in a text with types."""
    return [int(size) for found in _SIZES.finditer(text) for size in _SIZE.findall(found[0])]


def resized(text: str, new_size: Callable[[int], int]) -> str:
    """Return a text with types in which each known size is another one."""

    def renewed(size: re.Match[str]) -> str:
        return str(new_size(int(size[0])))

    return _SIZES.sub(lambda found: _SIZE.sub(renewed, found[0]), text)


def why_not_resizable(text: str, new_sizes: Mapping[int, int], known: Collection[int]) -> str:
    """Return why a program has more than its types to change for other sizes, as a clause; empty if it has not.

    ``known``: all sizes that types may have. A number elsewhere that is a changed size may be that size, too.
    """
    code = _COMMENT.sub("", text)
    strange = [size for size in sizes_of(code) if size not in known and size != 1]
    if strange:
        return f"the size {strange[0]} of a type is no dimension"
    elsewhere = _NUMBER.findall(_SIZES.sub("", code))
    spelled = [number for number in elsewhere if new_sizes.get(int(float(number)), float(number)) != float(number)]
    return f"the number {spelled[0]} may be a size that changes" if spelled else ""
