"""``matrix toolchain list``: what there is, and what of it is here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.toolchain_models import Component, Release
from mlir_matrix.cli.common import Verb, catalog_option, format_option, pin_option, session
from mlir_matrix.environments.artifacts import Artifacts
from mlir_matrix.environments.cost import cost_of
from mlir_matrix.environments.resolve import ResolvedEnvironment, provider_of
from mlir_matrix.errors import UsageError
from mlir_matrix.names import did_you_mean, printable
from mlir_matrix.report.layout import columns, print_lines, stdout_console
from mlir_matrix.report.words import megabytes
from mlir_matrix.session import Session
from mlir_matrix.toolchain import artifacts_of, is_kept, of_release


@click.command(
    "list",
    cls=Verb,
    short_help="Components and their releases.",
    examples=("matrix toolchain list", "matrix toolchain list llvm iree --format json"),
)
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@pin_option
@format_option("table", "json")
@catalog_option
def list_releases(components: tuple[str, ...], pins: tuple[str, ...], form: str, catalogs: tuple[Path, ...]) -> None:
    """Every release of COMPONENTS (default: all): where it comes from, what it was made of, and whether it is here.

    A star marks the pinned one. Rolling releases vanish from where they come from: what was fetched stays.
    """
    current = session(catalogs, pins=pins)
    for name in components:
        if name not in current.catalog.components:
            raise UsageError(
                f"there is no component '{printable(name)}'{did_you_mean(name, current.catalog.components)}"
            )
    rows = [
        _row(current, entry, release)
        for name, entry in current.catalog.components.items()
        if not components or name in components
        for release in entry.document.releases
    ]
    if form == "json":
        click.echo(json.dumps({"schema": "mlir-matrix/toolchain/v1", "releases": rows}, indent=1))
        return
    header = ("component", "release", "", "from", "source", "durability", "to fetch", "on disk", "here")
    lines = [
        (
            escape(row["component"]),
            escape(row["release"]),
            "*" if row["pinned"] else "",
            escape(", ".join(row["suites"]) or row["provider"]),
            escape(row["commit"] or ""),
            row["durability"],
            megabytes(row["bytes"]["fetch"]) if row["locked"] else "",
            megabytes(row["bytes"]["disk"]) if row["locked"] else "",
            row["here"],
        )
        for row in rows
    ]
    print_lines(stdout_console(), columns(header, lines, right=(6, 7)))


def _row(current: Session, entry: Entry[Component], release: Release) -> dict[str, Any]:
    row: dict[str, Any] = {
        "component": entry.name,
        "release": release.release,
        "provider": provider_of(entry.document, release),
        "suites": list(release.suites),
        "commit": release.commit,
        "durability": release.durability,
        "pinned": current.pins.release(entry.name).release == release.release,
        "locked": False,
        "here": "not locked",
        "bytes": {"fetch": 0, "disk": 0},
    }
    try:
        environment = of_release(current, entry, release).resolve(current)
    except UsageError:
        return row
    if isinstance(environment, ResolvedEnvironment):
        cost, store = cost_of([environment], current.home), Artifacts(current.home.artifacts)
        # By hash: a lock need not know sizes.
        kept = [is_kept(unit, store) for unit in environment.units if artifacts_of(unit)]
        here = "yes" if cost.here else "fetched" if kept and all(kept) else "no"
        row |= {"locked": True, "here": here, "bytes": {"fetch": cost.fetch, "disk": cost.disk}}
    return row
