"""Options that several verbs take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from mlir_matrix.session import Session, open_session

F = TypeVar("F", bound=Callable[..., Any])

tests_argument = click.argument("tests", nargs=-1, metavar="[SUITE|GLOB|ID]...")


def catalog_option(function: F) -> F:
    """``--catalog DIR``, repeatable."""
    return click.option(
        "--catalog",
        "catalogs",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="A folder laid out like this repository, whose files join the catalog. Repeatable.",
    )(function)


def cache_option(function: F) -> F:
    """``--cache-dir DIR``."""
    return click.option(
        "--cache-dir", type=click.Path(path_type=Path), metavar="DIR", help="Keep the action cache here instead."
    )(function)


def format_option(*formats: str) -> Callable[[F], F]:
    """``--format``; the first is the default."""
    return click.option(
        "--format", "form", type=click.Choice(formats), default=formats[0], show_default=True, help="How to print it."
    )


def session(
    catalogs: tuple[Path, ...], cache_dir: Path | None = None, swaps: Mapping[str, str] | None = None
) -> Session:
    """Open the session of a verb."""
    return open_session(catalogs=catalogs, cache_dir=cache_dir, swaps=swaps or {})


def repeat_command(test: str, catalogs: tuple[Path, ...]) -> str:
    """The command that runs one test again."""
    extra = "".join(f" --catalog {folder}" for folder in catalogs)
    return f"tools/matrix run{extra} '{test}'"
