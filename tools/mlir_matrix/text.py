"""Numbers with their nouns and units, options. Imports nothing of ours, so that verbs that print a line need not wait for more."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, noun: str) -> str:
    """``1 test``, ``2 tests``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def harmless(text: str) -> str:
    """Return text of others as a terminal may have it: control characters escaped, all but line breaks and tabs."""
    if text.isprintable():
        return text
    shown = (c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    return "".join(shown)


def catalog_options(folders: Iterable[object]) -> list[str]:
    """The words of a command line that name these catalogs."""
    return [word for folder in folders for word in ("--catalog", str(folder))]


def megabytes(size: int) -> str:
    """A number of bytes for people: ``118 MB``, ``0.4 MB``."""
    if size == 0:
        return "–"
    value = size / 1e6
    return f"{value:.0f} MB" if value >= 10 else f"{value:.1f} MB"
