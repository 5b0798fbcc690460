"""``matrix toolchain list``: list releases, where they come from, and their states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from rich.markup import escape

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.layout import columns
from mlir_matrix.base.names import select_known
from mlir_matrix.base.text import megabytes
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.package import provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import c_libraries, of_release
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.state import State, cost_of, state_of
from mlir_matrix.report.plan_table import state_words


@verb("list", "matrix toolchain list", "matrix toolchain list 'llvm*' iree --format json")
@click.argument("components", nargs=-1, metavar="[COMPONENT|GLOB]...")
@options.output_format("table", "json")
@options.session(options.pin)
def list_command(components: tuple[str, ...], form: str, current: Session) -> None:
    """List every release of components: its source, durability, size and state.

    Without arguments, list all components. A star marks the pinned release. A rolling release vanishes from its source; a
    downloaded one stays usable.
    """
    known = current.catalog.components
    components = tuple(select_known("component", components, known))
    rows = [
        _row(current, entry, release)
        for name, entry in known.items()
        if not components or name in components
        for release in entry.document.releases
    ]
    libraries = _c_libraries(current, components)
    states = dict(sorted(Counter(row["state"] for row in rows).items()))
    summary = {"releases": len(rows), "by_state": states, "c_libraries": len(libraries)}
    document = {"schema": "mlir-matrix/toolchain/v1", "summary": summary, "releases": rows, "c_libraries": libraries}
    show(form, document, _lines(rows, libraries), markup=True)


def _lines(rows: Sequence[Mapping[str, Any]], libraries: Sequence[Mapping[str, str]]) -> Iterator[str]:
    header = ("component", "release", "", "from", "source", "durability", "archives", "on disk", "state")
    cells = [
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
    yield from columns(header, cells, right=(6, 7))
    if libraries:
        built = [(library["target"], state_words(library["state"])) for library in libraries]
        yield from ("", *columns(("C library", "state"), built))


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
