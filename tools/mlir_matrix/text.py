"""Format numbers, sizes and options. Imports nothing of ours, because every verb needs it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def counted(number: int, noun: str) -> str:
    """``1 test``, ``2 tests``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def harmless(text: str) -> str:
    """Escape control characters, except line breaks and tabs, so that a terminal ignores them."""
    if text.isprintable():
        return text
    shown = (c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    return "".join(shown)


def shortened(text: str, longest: int) -> str:
    """Cut a text between words, where it is too long."""
    return text if len(text) <= longest else f"{text[:longest].rpartition(' ')[0] or text[:longest]} …"


def abridged(text: str, longest: int = 50) -> str:
    """Cut the middle of a name that is too long; both ends tell most. 50: what Buildbot takes as the name of a step."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[: half - 1]}…{text[-half:]}"


def catalog_options(folders: Iterable[object]) -> list[str]:
    """Return the options that add these catalogs."""
    return [word for folder in folders for word in ("--catalog", str(folder))]


def megabytes(size: int) -> str:
    """Format a number of bytes: ``118 MB``, ``0.4 MB``."""
    if size == 0:
        return "–"
    value = size / 1e6
    return f"{value:.0f} MB" if value >= 10 else f"{value:.1f} MB"


def size_in_bytes(text: str) -> int:
    """Return the bytes of a size, for example ``500M`` or ``10G``. Raise ValueError."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)([kmgt]?)b?", text.strip().lower(), re.ASCII)
    if found is None:
        raise ValueError(f"{harmless(text)!r} is no size; expected bytes, or a number with K, M, G or T, e.g. 10G")
    return int(float(found[1]) * _UNITS[found[2]])
