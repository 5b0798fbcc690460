"""Publish a site: the data of a history, and the pages that show it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mlir_matrix import __version__
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.paths import Home, find_home
from mlir_matrix.base.text import at, milliseconds
from mlir_matrix.environments.scratch import temporary_folder
from mlir_matrix.environments.session import Session
from mlir_matrix.history.checked import Checked
from mlir_matrix.history.chosen_runs import ALL_RUNS
from mlir_matrix.history.columns import Columns
from mlir_matrix.history.opening import DAY_NS
from mlir_matrix.history.results_files import add_run, read_run
from mlir_matrix.history.sides import sides_of
from mlir_matrix.history.store import Store
from mlir_matrix.history.today import Morning
from mlir_matrix.site.catalog_part import catalog_documents
from mlir_matrix.site.changes import slower_since
from mlir_matrix.site.data import Damaged, put_data
from mlir_matrix.site.documents import SiteManifest
from mlir_matrix.site.evidence import MOST_TESTS, evidence_of
from mlir_matrix.site.kind_graph import kind_graph
from mlir_matrix.site.pages import render_pages, static_files
from mlir_matrix.site.publish import SiteState, publishing


class Published(NamedTuple):
    """What a site shows."""

    tests: int
    runs: int
    causes: int
    """New causes, and those that were there before."""
    added: int
    """Runs that the build before did not have."""


def publish_results(
    out: Path, files: Sequence[Path], since: str, now: str, *, session: Session | None = None
) -> Published:
    """Write the site of the runs of results documents; without ``since``, of what is new in the day of the last one.

    Raise UsageError, InfrastructureError.
    """
    runs = [read_run(file) for file in files]
    if not since:
        last = max(milliseconds(run.started) for run in runs)
        since = min(at(last * 10**6 - DAY_NS), now)
    return publish_runs(out, runs, since, now, session=session)


def publish_runs(
    out: Path,
    runs: Sequence[Checked],
    since: str,
    now: str,
    *,
    home: Home | None = None,
    session: Session | None = None,
) -> Published:
    """Write the site of some runs, as :func:`publish_site` does of a database. Raise UsageError, InfrastructureError."""
    with temporary_folder(home or find_home()) as folder:
        store = Store(f"sqlite:///{folder}/history.sqlite")
        for run in runs:
            add_run(store, run, now)
        try:
            identity = " ".join(run.id for run in runs)
            return publish_site(out, store, since, now, identity=identity, home=home, session=session)
        finally:
            store.close()


def publish_site(
    out: Path,
    store: Store,
    since: str,
    now: str,
    *,
    identity: str = "",
    home: Home | None = None,
    session: Session | None = None,
) -> Published:
    """Write the site of a history into a folder. Raise UsageError, InfrastructureError.

    Arguments:
        out: An empty or new folder, or a site, to which later runs are added.
        store: The database.
        since: What is new since this time comes first.
        now: The time of the build.
        identity: What tells the database from others, instead of its name.
        home: The folders that have IR and the files of failures; by default those of this user.
        session: The catalog, for routes, bounds and the picture of kinds; None if there is none.
    """
    with publishing(out) as publication, store.reading() as connection:
        # The place of a file says nothing to others.
        name = store.name if store.is_server else Path(store.name).name
        morning = Morning(store, connection, ALL_RUNS, since, now)
        columns = Columns(store, connection)
        runs = [run["id"] for _, run in columns.runs().values()]
        database = digest_bytes((identity or store.name).encode(errors="surrogateescape"))
        known = _known(publication.before, database, runs)
        try:
            data = put_data(publication, columns, now, known=known)
        except Damaged:
            known = 0
            data = put_data(publication, columns, now, known=0)
        # The question to the database reads the whole history.
        slower = slower_since(data.trends, data.series, data.runs, since)
        today = morning.document(name, slower=slower)
        sides = sides_of(connection, data.failing, MOST_TESTS)
        for test, evidence in evidence_of(sides, data.series, home or find_home(), publication).items():
            publication.put(f"evidence/{test}", evidence)
        of_catalog = catalog_documents(session, data.results)
        best = of_catalog.pop("best", None)
        for document, content in of_catalog.items():
            publication.put(document, content)
        static = {file: publication.put_static(file, content) for file, content in static_files().items()}
        manifest: SiteManifest = {
            "schema": "mlir-matrix/site/v1", "version": __version__, "built": now, "series": data.series, "runs": data.runs,
            "files": publication.files,
        }  # fmt: skip
        path = publication.put_manifest(manifest)
        pages = render_pages(
            today,
            manifest,
            path,
            static,
            failing={each.test for each in data.failing},
            trends=data.trends,
            best=best,
            catalog=of_catalog.get("catalog"),
            kinds=kind_graph(session.catalog, "catalog.html") if session else "",
            unconnected=of_catalog["support/workload"]["unconnected"],
        )
        for page, text in pages.items():
            publication.page(page, text)
        publication.finish(__version__, database, runs)
    return Published(len(data.tests), len(runs), len(today["new"]) + len(today["still"]), len(runs) - known)


def _known(before: SiteState | None, database: str, runs: list[str]) -> int:
    """Return how many runs the build before has; 0 unless all others are later runs of the same database."""
    if before is None or (before["version"], before["database"]) != (__version__, database):
        return 0
    known = before["runs"]
    return len(known) if runs[: len(known)] == known else 0
