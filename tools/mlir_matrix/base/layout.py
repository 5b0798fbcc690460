"""Lay out text: columns without frames, and lines that a log can be searched in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mlir_matrix.base.text import counted, harmless

#: How many reasons to show; the others are counted.
_REASONS = 12


def report_console(*, stderr: bool = False) -> Console:
    """Return the console for reports. It prints colours only on a terminal."""
    return Console(highlight=False, emoji=False, stderr=stderr)


def print_lines(lines: Iterable[str | Text], *, stderr: bool = False) -> None:
    """Print lines of markup. A terminal wraps long lines between words. A log does not, and no ``Text`` is wrapped."""
    console = report_console(stderr=stderr)
    for line in map(_harmless, lines):
        console.print(line, soft_wrap=not console.is_terminal or isinstance(line, Text))


def _harmless(line: str | Text) -> str | Text:
    """Return a line without control characters, which rich would print: it may contain text from programs under test."""
    if isinstance(line, str):
        return harmless(line)
    line.plain = harmless(line.plain)
    return line


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Return a table as lines of markup; ``right`` are the columns of numbers.

    A column without any entry is left out. The last cell of a line is not padded.
    """
    used = [at for at in range(len(headings)) if any(row[at] for row in rows)]
    table = [[f"[bold]{headings[at]}[/]" if headings[at] else "" for at in used]]
    table += [[row[at] for at in used] for row in rows]
    sizes = [[cell_len(Text.from_markup(cell).plain) for cell in row] for row in table]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    numbers = {place for place, at in enumerate(used) if at in set(right)}
    lines = []
    for row, size in zip(table, sizes, strict=True):
        padded = []
        for place, cell in enumerate(row):
            gap = " " * (widths[place] - size[place])
            padded.append(gap + cell if place in numbers else cell + gap)
        lines.append("  ".join(padded).rstrip())
    return lines


def section(heading: str, entries: Iterable[str], most: int | None = None) -> list[str]:
    """Return a heading and at most ``most`` entries below it, as lines of markup; nothing without entries."""
    all_of = list(entries)
    shown = all_of[:most]
    rest = [f"  … and {len(all_of) - len(shown)} more"] if len(all_of) > len(shown) else []
    return ["", heading, *(f"  {entry}" for entry in shown), *rest] if all_of else []


def not_run(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Return why tests do not run, as lines of markup; ``reasons`` has (outcome, reason) of each test."""
    counts = Counter(reasons)
    shown = counts.most_common(_REASONS)
    entries = [f"{number} {word}: {escape(reason)}" for (word, reason), number in shown]
    if len(counts) > _REASONS:
        rest = counts.total() - sum(number for _, number in shown)
        entries.append(f"{rest} more, for {counted(len(counts) - _REASONS, 'more reason')}")
    return section("[bold]not run[/]", entries)
