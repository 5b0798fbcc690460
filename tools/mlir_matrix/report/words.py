"""Numbers with their nouns and units. Imports nothing, so that verbs that print a line or two need not wait for more."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``1 test``, ``2 tests``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def megabytes(size: int) -> str:
    """A number of bytes for people: ``118 MB``, ``0.4 MB``."""
    if size == 0:
        return "–"
    value = size / 1e6
    return f"{value:.0f} MB" if value >= 10 else f"{value:.1f} MB"
