"""``matrix toolchain list``: what there is, and what of it is here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.cli.options import Verb, catalog_option, format_option, pin_option, session
from mlir_matrix.environments.cost import cost_of
from mlir_matrix.environments.releases import provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import UsageError
from mlir_matrix.names import did_you_mean, printable
from mlir_matrix.report.layout import columns, print_lines, state_words, stdout_console
from mlir_matrix.session import Session
from mlir_matrix.text import megabytes
from mlir_matrix.toolchains.names import State, of_release, state_of


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
    header = ("component", "release", "", "from", "source", "durability", "archives", "on disk", "state")
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
            state_words(row["state"], row["bytes"]["to_fetch"]),
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
        "state": State.UNAVAILABLE,
        "reason": "",
        "bytes": {"fetch": 0, "to_fetch": 0, "disk": 0},
    }
    try:
        environment = of_release(current, entry, release).resolve(current)
    except UsageError as error:
        return row | {"reason": str(error)}
    if not isinstance(environment, ResolvedEnvironment):
        return row | {"reason": environment.reason}
    cost = cost_of([environment], current.home)
    row |= {"locked": True, "state": state_of(environment, current.home)}
    return row | {"bytes": {"fetch": cost.fetch, "to_fetch": cost.to_fetch, "disk": cost.disk}}
