"""Open the databases of ``matrix history``, with all runs of this machine in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import unwritable
from mlir_matrix.base.paths import find_home
from mlir_matrix.base.text import now
from mlir_matrix.cli.options import Option
from mlir_matrix.cli.output import warn
from mlir_matrix.history.spool import Spool

if TYPE_CHECKING:
    from mlir_matrix.history.questions import Questions
    from mlir_matrix.history.store import Store

database = Option(
    "url", "--database", metavar="URL", default=lambda: os.environ.get("MATRIX_HISTORY_URL", ""), show_default=False,
    help="The database: postgresql://… or sqlite:///FILE. Default: MATRIX_HISTORY_URL, else this machine's own.",
)  # fmt: skip
patterns = click.argument("tests", nargs=-1, metavar="[PATTERN]...")


def open_local() -> Store:
    """Open this machine's own database, and add new runs to it. Raise UsageError, InfrastructureError."""
    state = find_home().state
    folder = state / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(f"{folder} cannot be made", error) from None
    file, spool = folder / "history.sqlite", Spool(state)
    made = open_store(f"sqlite:///{file}")
    from mlir_matrix.history.transfer import ingest

    if not file.exists():
        spool.forget()
    ingest(spool, made, now(), warn)
    return made


def open_store(url: str) -> Store:
    """Open a database. Raise UsageError."""
    try:
        from mlir_matrix.history.store import Store

        return Store(url)
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        raise UsageError(f"matrix history needs {library}: pip install 'mlir-matrix[history]'") from None


def open_chosen(url: str) -> Store:
    """Open the database of a question; a server gets the new runs of this machine. Raise UsageError, InfrastructureError."""
    local = open_local()
    if not url:
        return local
    from mlir_matrix.history.transfer import push

    chosen = open_store(url)
    push(local, chosen, now())
    return chosen


@contextmanager
def asked(url: str) -> Iterator[tuple[str, Questions]]:
    """Return the name of a database, and who asks it."""
    store = open_chosen(url)
    from mlir_matrix.history.questions import Questions

    with store.reading() as connection:
        yield store.name, Questions(store, connection)
