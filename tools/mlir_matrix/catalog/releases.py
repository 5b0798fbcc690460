"""Compare releases of components, match them with ranges, and find the one that ``llvm=19`` names.

A release's name begins with its number: ``19.1.7``, ``20261001``, ``24.0.0+torch-mlir.20261001``. Only the number is
compared; the order of releases that share one is that of the component's file.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

Number = tuple[int, ...]

_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_PART = re.compile(r"(>=|<=|==|!=|>|<)?\s*([0-9]{1,20}(?:\.[0-9]{1,20})*)")
_COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


class RangeError(ValueError):
    """A range that cannot be read."""


@lru_cache(maxsize=4096)
def number(release: str) -> Number:
    """Return the number of a release: ``(19, 1, 7)``; empty where its name begins with no number."""
    found = _NUMBER.match(release)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


@dataclass(frozen=True)
class Range:
    """``>=18,<22``: releases for which every part holds, at the precision that it gives: ``<=18`` holds for 18.1.8."""

    text: str
    parts: tuple[tuple[str, Number], ...]

    def __contains__(self, release: str) -> bool:
        given = number(release)
        return all(_COMPARE[word](_cut(given, len(bound)), bound) for word, bound in self.parts)


def _cut(given: Number, length: int) -> Number:
    return (*given[:length], *(0,) * (length - len(given)))


@lru_cache(maxsize=4096)
def parse_range(text: str) -> Range:
    """Read a range. Raises RangeError."""
    parts = []
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise RangeError(f"'{part.strip()}' is no range of releases; write a range like '>=18,<22' or '19.1'")
        parts.append((found[1] or "==", number(found[2])))
    return Range(text, tuple(parts))


def find(releases: Sequence[str], wanted: str) -> str | None:
    """Return the release of that name, else the last one whose name begins with it (``19`` finds ``19.1.7``)."""
    if wanted in releases:
        return wanted
    matching = [name for name in releases if name.startswith(wanted) and name[len(wanted)] in ".+~-"]
    return matching[-1] if matching else None


def spellings(release: str) -> Iterator[str]:
    """Return a release's name, and its short forms: ``19``, ``19.1``."""
    yield release
    numbers = release.partition("+")[0].split(".")
    yield from (".".join(numbers[:length]) for length in range(1, len(numbers) + 1))


def nearest_release(releases: Iterable[str], missing: str) -> str | None:
    """Return the release whose number is nearest to that of another; of two equally near, the newer one."""
    given = number(missing)

    def distance(name: str) -> tuple[list[int], list[int]]:
        other = number(name)
        width = max(len(given), len(other))
        pairs = zip(_cut(given, width), _cut(other, width), strict=True)
        return [abs(a - b) for a, b in pairs], [-part for part in other]

    return min(releases, key=distance, default=None)
