"""Print what verbs report: documents, text and warnings."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click


def show(form: str, document: object, lines: Iterable[str], *, markup: bool = False) -> None:
    """Print a document as JSON if ``form`` is ``json``, else print lines; ``lines`` may be a generator, which then stays unused."""
    if form == "json":
        click.echo(json.dumps(document, indent=1))
    elif markup:
        from mlir_matrix.report.layout import print_lines  # imports rich

        print_lines(lines)
    else:
        for line in lines:
            click.echo(line)


def note(text: str) -> None:
    """Print a line to stderr."""
    click.echo(text, err=True)


def warn(*messages: object) -> None:
    """Print messages to stderr, with the program's name."""
    for message in messages:
        note(f"matrix: {message}")
