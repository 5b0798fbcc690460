"""What a plain (unquoted) YAML scalar means: null, true, false, a decimal number, or text.

What YAML 1.1, YAML 1.2 and people read differently (``off``, ``017``, ``1_000``, ``12:30``) is refused with the way to
write it, because a file that means one thing to us and another to someone's editor is worse than either.
"""

from __future__ import annotations

import math
import re

#: Integers beyond 64 bits are no size, seed or option of anything here, and huge ones take quadratic time to convert.
MOST_DIGITS = 18
#: No number is longer; keeps the expressions below away from long texts, on which some would take quadratic time.
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


class ScalarError(ValueError):
    """A plain scalar that has no single meaning, or none that can be kept."""


def plain_scalar(text: str) -> bool | int | float | str | None:
    """The value of a plain scalar. Raises ScalarError with a sentence for people."""
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
