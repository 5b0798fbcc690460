"""``matrix history push``: add the runs of this machine to a server."""

from __future__ import annotations

import os

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.text import counted, now
from mlir_matrix.cli.history_store import open_local, open_store
from mlir_matrix.cli.verbs import verb


@verb("push", "matrix history push", "matrix history push --to postgresql://lab@history.example/matrix")
@click.option("--to", "url", metavar="URL", default="", help="The server's database. Default: MATRIX_HISTORY_URL.")
def push_command(url: str) -> None:
    """Add the runs of this machine to a server; those that it has are not added twice.

    Runs stay on this machine, so that nothing is lost while the server is away.
    """
    url = url or os.environ.get("MATRIX_HISTORY_URL", "")
    if not url:
        raise UsageError("no server: give --to postgresql://…, or set MATRIX_HISTORY_URL")
    server = open_store(url)
    from mlir_matrix.history.transfer import push

    added, known = push(open_local(), server, now())
    click.echo(f"{server.name}: {counted(added, 'run')} added" + (f", {known} were there" if known else ""))
