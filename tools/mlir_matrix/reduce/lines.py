"""Reduce IR that the release cannot read as a tree, because its parser or verifier fails: line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lines:
    """A text, and what was done to it."""

    text: str
    edit: str


def reduce_lines(text: str, first: Callable[[Iterable[Lines]], Lines | None]) -> Lines:
    """Return the text without the lines that the behaviour does not need: halves of it, quarters, down to single lines.

    ``first`` returns the first candidate, in their order, that shows the behaviour; None if none does, or time is up.
    """
    current = Lines(text, "")
    before = None
    while before is not current:
        before = current
        size = max(1, text.count("\n") // 2)
        while size:
            found = first(_texts(current.text.splitlines(), size))
            if found is None:
                size //= 2
            else:
                current = found
    return current


def _texts(lines: Sequence[str], size: int) -> Iterator[Lines]:
    for kept in shortened(lines, size):
        yield Lines("\n".join(kept) + "\n", f"{size} lines fewer")


def shortened(items: Sequence[str], size: int) -> Iterator[list[str]]:
    """Yield items without so many in a row, the last ones first, as what comes later is used less; never none."""
    for start in range(max(0, len(items) - size), -1, -size):
        kept = [*items[:start], *items[start + size :]]
        if kept:
            yield kept
