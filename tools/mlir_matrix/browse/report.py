"""The text of ``matrix list`` and ``matrix show``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.markup import escape

from mlir_matrix.base.layout import columns
from mlir_matrix.base.text import counted, shortened
from mlir_matrix.browse.documents import ListedEntry, NamingEntry, ShownEntry
from mlir_matrix.browse.references import KINDS

#: Characters of a description in a line.
_WIDTH = 72


def count_lines(counts: Mapping[str, int]) -> list[str]:
    """Return how many entries each kind has."""
    rows = [[plural, str(counts.get(kind, 0))] for plural, kind in KINDS.items()]
    return [*columns(("kind", "entries"), rows, right=(1,)), "", "one line each: matrix list KIND [GLOB]"]


def listing_lines(entries: Sequence[ListedEntry]) -> list[str]:
    """Return a line an entry; its kind comes first where there are several."""
    several = len({entry["kind"] for entry in entries}) > 1
    rows = [
        [entry["kind"] if several else "", escape(entry["name"]), escape(_first_sentence(entry["description"]))]
        for entry in entries
    ]
    return columns(("kind", "name", "description"), rows)


def entry_lines(entry: ShownEntry) -> Iterator[str]:
    """Yield the file of an entry, and where it is used."""
    yield f"[bold]{entry['kind']} {escape(entry['name'])}[/]  {escape(entry['file'])}"
    yield ""
    for line in entry["text"].rstrip().splitlines():
        yield f"  {escape(line)}".rstrip()
    yield ""
    if not entry["used_by"] and not entry["suites"]:
        yield f"no file of the catalogs names this {entry['kind']}"
    for kind in KINDS.values():
        uses = [use for use in entry["used_by"] if use["kind"] == kind]
        if uses:
            yield from _uses(kind, uses)
    if entry["suites"]:
        suites = (f"{escape(suite)} ({counted(count, 'test')})" for suite, count in entry["suites"].items())
        yield f"in suites: {', '.join(suites)}"


def _uses(kind: str, uses: Sequence[NamingEntry]) -> Iterator[str]:
    yield f"used by {counted(len(uses), kind)}"
    yield from (f"  {line}" for line in columns(("", ""), [[escape(use["name"]), use["position"]] for use in uses])[1:])


def _first_sentence(description: str) -> str:
    text = " ".join(description.split())
    return shortened(text.split(". ")[0].rstrip("."), _WIDTH)
