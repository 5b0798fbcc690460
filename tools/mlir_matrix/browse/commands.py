"""``matrix list`` and ``matrix show``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import did_you_mean, name_glob, printable
from mlir_matrix.browse.documents import ListedEntry, Listing, NamingEntry, ShownEntries, ShownEntry
from mlir_matrix.browse.references import KINDS, count_by_suite, entries_of, references
from mlir_matrix.browse.report import count_lines, entry_lines, listing_lines
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.load import SECTIONS
from mlir_matrix.catalog.yaml_reader import read_text
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session

_PLURALS = {singular: plural for plural, singular in KINDS.items()}


def _complete_kind(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


@verb(
    "list", "matrix list", "matrix list steps 'linalg-*'", "matrix list '*softmax*'", "matrix list suites --format json"
)
@click.argument("words", nargs=-1, metavar="[KIND] [GLOB]...", shell_complete=_complete_kind)
@options.session()
@options.output_format("text", "json")
def list_command(words: tuple[str, ...], current: Session, form: str) -> int:
    """List the entries of the catalogs: workloads, frameworks, pipelines, targets, steps, kinds, suites, components and others.

    Without arguments, count the entries of each kind. KIND selects one kind; GLOB selects names, in all kinds unless KIND is given.

    Exit code: 0 there is such an entry; 2 there is none.
    """
    kinds, globs = _split(words)
    catalog = current.catalog
    entries = [
        _listed(kind, entry)
        for kind in kinds
        for name, entry in entries_of(catalog, kind).items()
        if not globs or any(name_glob(glob).matches(name) for glob in globs)
    ]
    if not entries:
        known = [name for kind in kinds for name in entries_of(catalog, kind)]
        what = " or ".join(printable(word) for word in (globs or words))
        hint = did_you_mean(globs[0], [*known, *KINDS], listed=False) if globs else ""
        raise UsageError(f"no entry of the catalogs is named {what}{hint}")
    document = Listing(schema="mlir-matrix/listing/v1", summary=_count(entries), entries=entries)
    lines = listing_lines(entries) if words else count_lines(document["summary"])
    show(form, document, lines, markup=True)
    return 0


@verb("show", "matrix show linalg-to-loops", "matrix show mlp", "matrix show torch --format json")
@click.argument("name", metavar="NAME")
@options.session(*options.releases)
@options.output_format("text", "json")
def show_command(name: str, current: Session, form: str) -> int:
    """Show an entry of the catalogs: its file, which entries name it, and which suites test it.

    If entries of several kinds have this name, all are shown. KIND/NAME, such as components/torch, selects one.

    Exit code: 0 there is such an entry; 2 there is none.
    """
    catalog = current.catalog
    kind, _, rest = name.partition("/")
    kind = _PLURALS.get(kind, kind)
    kinds = [kind] if rest and kind in KINDS else list(KINDS)
    wanted = rest if rest and kind in KINDS else name
    found = [(each, entries_of(catalog, each)[wanted]) for each in kinds if wanted in entries_of(catalog, each)]
    if not found:
        known = [known for each in kinds for known in entries_of(catalog, each)]
        raise UsageError(
            f"no entry of the catalogs is named {printable(wanted)}{did_you_mean(wanted, known, listed=False)}"
        )
    uses = list(references(catalog))
    entries = [
        ShownEntry(
            **_listed(each, entry),
            text=_text(each, entry),
            used_by=[
                NamingEntry(kind=KINDS[use.user_kind], name=use.user, position=use.position)
                for use in uses
                if (use.kind, use.name) == (each, wanted)
            ],
            suites=count_by_suite(catalog, each, wanted, current.pins),
        )
        for each, entry in found
    ]
    lines = [line for entry in entries for line in ("", *entry_lines(entry))][1:]
    document = ShownEntries(schema="mlir-matrix/entry/v1", summary=_count(entries), entries=entries)
    show(form, document, lines, markup=True)
    return 0


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the kinds to list, and the globs on names."""
    if not words:
        return list(KINDS), []
    kind = _PLURALS.get(words[0], words[0])
    if kind in KINDS:
        return [kind], words[1:]
    return list(KINDS), words


def _count(entries: Sequence[ListedEntry] | Sequence[ShownEntry]) -> dict[str, int]:
    return dict(Counter(entry["kind"] for entry in entries))


def _listed(kind: str, entry: Entry[Any]) -> ListedEntry:
    return ListedEntry(
        kind=KINDS[kind], name=entry.name, description=entry.document.description, file=entry.source.file
    )


def _text(kind: str, entry: Entry[Any]) -> str:
    """Return the YAML file of an entry; members of a corpus have none of their own."""
    if entry.member:
        return ""
    (section,) = (section for section in SECTIONS if section.field == kind)
    return read_text(entry.folder / (section.file or f"{entry.name}.yaml"), entry.source.file)
