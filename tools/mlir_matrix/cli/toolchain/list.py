"""``matrix toolchain list``: list releases, where they come from, and their states."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, format_option, pin_option, session
from mlir_matrix.environments.cost import cost_of
from mlir_matrix.environments.package import provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import UsageError
from mlir_matrix.names import did_you_mean, printable
from mlir_matrix.report.layout import columns, print_lines, stdout_console
from mlir_matrix.report.plan_table import state_words
from mlir_matrix.session import Session
from mlir_matrix.text import megabytes
from mlir_matrix.toolchains.names import State, c_libraries, of_release, state_of


@click.command(
    "list",
    cls=Verb,
    examples=("matrix toolchain list", "matrix toolchain list llvm iree --format json"),
)
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@pin_option
@format_option("table", "json")
@catalog_option
def list_releases(components: tuple[str, ...], pins: tuple[str, ...], form: str, catalogs: tuple[Path, ...]) -> None:
    """List every release of components: its source, durability, size and state.

    Without arguments, list all components. A star marks the pinned release. A rolling release vanishes from its source; a
    downloaded one stays usable.
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
    libraries = _c_libraries(current, components)
    if form == "json":
        document = {"schema": "mlir-matrix/toolchain/v1", "releases": rows, "c_libraries": libraries}
        click.echo(json.dumps(document, indent=1))
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
    if libraries:
        built = [(library["target"], state_words(library["state"])) for library in libraries]
        print_lines(stdout_console(), ["", *columns(("C library", "state"), built)])


def _c_libraries(current: Session, components: Sequence[str]) -> list[dict[str, str]]:
    """Return the C libraries that the pinned releases of ``components`` (default: all) build for targets."""
    rows = []
    for name, entry in current.catalog.environments.items():
        if components and not {*components} & {*entry.document.components}:
            continue
        environment = current.environment(current.pins.reference(name))
        if isinstance(environment, ResolvedEnvironment):
            for library in c_libraries(current, name, environment.packages):
                state = State.INSTALLED if library.find(current.home.packages) else State.NOT_BUILT
                rows.append({"target": library.triple, "folder": library.folder, "state": state})
    return rows


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
