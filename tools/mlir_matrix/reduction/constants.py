"""Numbers of constants as they are written, and the elements of ``dense<…>``."""

from __future__ import annotations

import math
import re
import struct

from mlir_matrix.actions.mlir.sizes import sizes_of
from mlir_matrix.reduction.types import element_of, is_float, is_integer, kind_of

_DENSE = re.compile(r"dense<(.*)> : (.+)", re.DOTALL)
_SCALAR = re.compile(r"(\S+) : (\S+)")
#: How Python's struct calls element types.
_CODES = {"f64": "d", "f32": "f", "f16": "e", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "index": "q"}
#: Most elements that are read from a list.
MOST_ELEMENTS = 100_000


def number_of(text: str, element: str) -> float | None:
    """Return a number from its text, which may give the bits of a float; None for what is no number here."""
    if text in ("true", "false"):
        return int(text == "true")
    try:
        if not is_float(element):
            return int(text, 0)
        if not text.startswith("0x"):
            return float(text)
        bits = bytes.fromhex(text[2:] + "0000" * (element == "bf16"))
        value: float = struct.unpack(">" + _CODES["f32" if element == "bf16" else element], bits)[0]
    except (ValueError, KeyError, struct.error):
        return None
    return value


def number_text(number: float, element: str) -> str:
    """Return the shortest text of a number that MLIR reads; empty if the type has no such number."""
    if element == "i1":
        return "true" if number else "false"
    if is_integer(element):
        return str(int(number)) if math.isfinite(number) else ""
    if not is_float(element):
        return ""
    if math.isfinite(number):
        mantissa, mark, exponent = repr(float(number)).partition("e")
        return (mantissa if "." in mantissa else f"{mantissa}.0") + mark + exponent
    code = _CODES.get("f32" if element == "bf16" else element)
    if code is None:
        return ""
    bits = struct.pack(">" + code, number).hex().upper()
    return "0x" + (bits[:4] if element == "bf16" else bits)


def constant_text(text: str, number: float) -> str:
    """Return the attribute for a number of a type, or a tensor or vector full of it; empty if there is none."""
    element = element_of(text)
    written = number_text(number, element)
    if not written:
        return ""
    if element == text:
        return written if element == "i1" else f"{written} : {text}"
    if kind_of(text) == "!torch.vtensor":
        text = f"tensor<{''.join(f'{size}x' for size in sizes_of(text))}{element}>"
    # What has a layout, or a size that is not known, has no constants.
    is_plain = kind_of(text) in ("tensor", "vector") and "?" not in text and "," not in text
    return f"dense<{written}> : {text}" if is_plain else ""


def elements_of(text: str) -> tuple[list[float], str] | None:
    """Return the numbers of a constant, one if all are the same, and its type; None for what is no constant of numbers."""
    if text in ("true", "false"):
        return [int(text == "true")], "i1"
    found = _DENSE.fullmatch(text) or _SCALAR.fullmatch(text)
    if found is None:
        return None
    body, type_ = found[1], found[2]
    element = element_of(type_)
    if body.startswith('"0x'):
        return _unpacked(bytes.fromhex(body[3:-1]), type_)
    words = [] if "(" in body else re.findall(r"[^\[\],\s]+", body)
    numbers = [number_of(word, element) for word in words[:MOST_ELEMENTS]]
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(words):
        return None
    return known, type_


def _unpacked(data: bytes, type_: str) -> tuple[list[float], str] | None:
    """Return numbers from the bytes of ``dense<"0x…">``."""
    code = _CODES.get(element_of(type_))
    count = math.prod(sizes_of(type_))
    if code is None or count > MOST_ELEMENTS or len(data) != count * struct.calcsize("<" + code):
        return None
    return list(struct.unpack(f"<{count}{code}", data)), type_


def dense_text(numbers: list[float], type_: str) -> str:
    """Return ``dense<…> : TYPE`` with all elements in the order of rows, or with one that all have."""
    words = [number_text(number, element_of(type_)) for number in numbers]
    if len(set(words)) == 1:
        return f"dense<{words[0]}> : {type_}"
    for size in reversed(sizes_of(type_)):
        words = [f"[{', '.join(words[start : start + size])}]" for start in range(0, len(words), size)]
    return f"dense<{words[0]}> : {type_}"


def cut_to(numbers: list[float], old: list[int], new: list[int]) -> list[float]:
    """Return the first elements of each row, for smaller sizes of as many dimensions."""
    if not old or len(numbers) == 1:
        return numbers
    row = len(numbers) // old[0]
    rows = [numbers[start : start + row] for start in range(0, new[0] * row, row)]
    return [each for one in rows for each in cut_to(one, old[1:], new[1:])]
