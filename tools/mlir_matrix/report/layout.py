"""How text is laid out on stdout: columns without frames, lines that a log can be searched in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mlir_matrix.text import counted, megabytes
from mlir_matrix.toolchains.names import State

#: More reasons than this are counted.
_REASONS = 12


def stdout_console() -> Console:
    """The console that reports are printed on; colours only where somebody sees them."""
    return Console(highlight=False, emoji=False)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines of markup; the long ones are broken between words on a terminal and kept whole in a log."""
    for line in lines:
        console.print(line, soft_wrap=not console.is_terminal)


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Lines of markup in which the cells stand below each other; ``right`` are the columns of numbers.

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


def state_words(state: str, to_fetch: int = 0, reason: str = "") -> str:
    """The state of an environment or a release as markup, with the bytes or the reason that belong to it."""
    if state == State.INSTALLED:
        return f"[green]{state}[/]"
    if state == State.UNAVAILABLE:
        return f"[yellow]{state}{f': {escape(reason)}' if reason else ''}[/]"
    return f"{megabytes(to_fetch)} {state}" if state == State.MISSING and to_fetch else state


def not_run(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of markup that say why tests do not run, from an (outcome, reason) for each of them."""
    counts = Counter(reasons)
    if not counts:
        return []
    lines = ["", "[bold]not run[/]"]
    shown = counts.most_common(_REASONS)
    lines += [f"  {number} {word}: {escape(reason)}" for (word, reason), number in shown]
    if len(counts) > _REASONS:
        rest = sum(counts.values()) - sum(number for _, number in shown)
        lines.append(f"  {rest} more, for {counted(len(counts) - _REASONS, 'more reason')}")
    return lines
