"""Open the database that a command line names: this machine's own, or another one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.paths import find_home
from mlir_matrix.base.text import at, now
from mlir_matrix.cli import options
from mlir_matrix.cli.options import Option
from mlir_matrix.cli.output import warn

if TYPE_CHECKING:
    from mlir_matrix.history.store import Store

database = Option(
    "url", "--database", metavar="URL", default=lambda: os.environ.get("MATRIX_HISTORY_URL", ""), show_default=False,
    help="The database: postgresql://… or sqlite:///FILE. Default: MATRIX_HISTORY_URL, else this machine's own.",
)  # fmt: skip
_DURATION = re.compile(r"([1-9]\d{0,4})([dh])", re.ASCII)
DAY_NS = 86_400 * 10**9
_UNITS_NS = {"d": DAY_NS, "h": DAY_NS // 24}


def read_since(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return the time that an option names: a date, or how many days or hours ago. Raise UsageError."""
    # A number alone may be meant as a year.
    duration = _DURATION.fullmatch(value or "")
    if duration:
        return at(time.time_ns() - int(duration[1]) * _UNITS_NS[duration[2]])
    try:
        return options.read_date(context, parameter, value)
    except UsageError as error:
        raise UsageError(f"{error}, or a number of days or hours, e.g. 7d or 12h") from None


def open_local() -> Store:
    """Open this machine's own database, and add new runs to it. Raise UsageError, InfrastructureError."""
    with with_library():
        from mlir_matrix.history.transfer import open_own
    return open_own(find_home().state, now(), warn)


def open_store(url: str) -> Store:
    """Open a database. Raise UsageError."""
    with with_library():
        from mlir_matrix.history.store import Store

        return Store(url)


@contextmanager
def with_library(what: str = "matrix history", extra: str = "history") -> Iterator[None]:
    """Raise UsageError, which names the extra, if a library that something needs is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        raise UsageError(f"{what} needs {library}: pip install 'mlir-matrix[{extra}]'") from None


def open_chosen(url: str) -> Store:
    """Open the database of a question; a server gets the new runs of this machine. Raise UsageError, InfrastructureError."""
    local = open_local()
    if not url:
        return local
    from mlir_matrix.history.transfer import push

    chosen = open_store(url)
    push(local, chosen, now())
    return chosen
