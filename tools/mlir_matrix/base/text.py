"""Format numbers, sizes, times, options and patches. Every verb needs this module, so it imports no other one of ours."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 test``, ``2 tests``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def harmless(text: str) -> str:
    """Escape control characters, except line breaks and tabs, so that a terminal ignores them."""
    if text.isprintable():
        return text
    shown = (c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    return "".join(shown)


def shortened(text: str, longest: int) -> str:
    """Cut a text between words if it is longer than ``longest`` characters."""
    return text if len(text) <= longest else f"{text[:longest].rpartition(' ')[0] or text[:longest]} …"


def abridged(text: str, longest: int = 50) -> str:
    """Cut the middle out of a long name: both ends matter most. Buildbot allows 50 characters for the name of a step."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[: half - 1]}…{text[-half:]}"


def first_few(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are: ``a, b and 3 more``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


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
        raise ValueError(f"{harmless(text)!r} is not a size; expected bytes, or a number with K, M, G or T, e.g. 10G")
    return int(float(found[1]) * _UNITS[found[2]])


def now() -> str:
    """Return the current time, in UTC, to the millisecond."""
    return at(time.time_ns())


def at(time_ns: int) -> str:
    """Return a time in nanoseconds since 1970 as text, in UTC, to the millisecond."""
    seconds, nanoseconds = divmod(time_ns, 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 10**6:03}Z"


def minute(time: str) -> str:
    """Return a time of :func:`at` for people, to the minute."""
    return time[:16].replace("T", " ")


def milliseconds(time: str) -> int:
    """Return the milliseconds from 1970 to a time of :func:`at`. Raise ValueError."""
    from datetime import datetime

    return round(datetime.fromisoformat(time).timestamp() * 1000)


#: A replacement: the positions of its first character and of the one after its last, and the new text.
Edit = tuple[int, int, str]


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Return the edited text. Of several insertions at one position, the last one comes first in the text."""
    # From the end to the beginning, so that positions stay valid.
    for start, end, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
        text = text[:start] + new + text[end:]
    return text


def patch(path: str, before: str | None, after: str) -> str:
    """Return a unified diff for ``git apply`` in the folder that ``path`` is relative to; ``before`` is None for a new file."""
    import difflib

    old = "/dev/null" if before is None else f"a/{path}"
    return "".join(difflib.unified_diff(_lines(before or ""), _lines(after), old, f"b/{path}"))


def _lines(text: str) -> list[str]:
    # Not splitlines: for git, only a line feed ends a line.
    *lines, rest = text.split("\n")
    return [f"{line}\n" for line in lines] + ([f"{rest}\n\\ No newline at end of file\n"] if rest else [])
