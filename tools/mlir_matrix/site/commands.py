"""``matrix report html``: write the pages that show what runs found."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.text import at, counted, now
from mlir_matrix.cli import options
from mlir_matrix.cli.output import warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.history.opening import DAY_NS, open_chosen, read_since, with_library

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session


@verb(
    "html",
    "matrix report html --out site",
    "matrix report html --out site results.json",
    "matrix report html --out /srv/www/matrix --history postgresql://lab@history.example/matrix --since 12h",
)
@click.argument("results", nargs=-1, metavar="[RESULTS]...", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="An empty or new folder, or a site."
)
@click.option(
    "--history", "url", metavar="URL", help="The database: postgresql://… or sqlite:///FILE, as for matrix history."
)
@click.option(
    "--since", metavar="DATE|DURATION", callback=read_since, help="What is new since then comes first. Default: a day."
)
@options.closed_session(*options.releases)
def html_command(
    results: tuple[Path, ...], out: Path, url: str | None, since: str, closed: options.SessionOptions
) -> None:
    """Write static pages of what runs found: what is new, all tests, trends, and each test over time.

    Without RESULTS, files of run --results, the site shows the history. A later call adds the runs since.
    """
    if results and url:
        raise UsageError("RESULTS and --history: give one of them; add files to a history with matrix history import")
    begin = time.monotonic()
    with with_library("matrix report html", "site"):
        from mlir_matrix.site.site import publish_results, publish_site
    session = _catalog(closed)
    if results:
        published = publish_results(out, results, since, now(), session=session)
    else:
        store = open_chosen(os.environ.get("MATRIX_HISTORY_URL", "") if url is None else url)
        published = publish_site(out, store, since or at(time.time_ns() - DAY_NS), now(), session=session)
    tests, runs, causes = (
        counted(number, noun) for number, noun in zip(published, ("test", "run", "cause"), strict=False)
    )
    click.echo(f"{out / 'index.html'}: {tests}, {runs}, {causes} of failures, {time.monotonic() - begin:.1f} s")


def _catalog(closed: options.SessionOptions) -> Session | None:
    """Open the catalog. Without one that can be read, the pages have what runs found."""
    try:
        return replace(closed, stale_goldens=True).open()
    except CatalogError as error:
        warn(f"the pages have no routes, bounds and parts: {error}")
        return None
