"""``matrix toolchain which``: print the path of a tool."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.pins import find_release, release_of
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, pin_option, session
from mlir_matrix.environments.package import Provider, provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.names import did_you_mean, printable
from mlir_matrix.session import Session
from mlir_matrix.toolchains.names import of_release


@click.command(
    "which",
    cls=Verb,
    examples=("matrix toolchain which mlir-opt@19", "$(matrix toolchain which llc@22) --version"),
)
@click.argument("tool", metavar="TOOL[@RELEASE]")
@pin_option
@catalog_option
def which(tool: str, pins: tuple[str, ...], catalogs: tuple[Path, ...]) -> None:
    """Print the path of TOOL from the pinned release or from RELEASE, to run it by hand."""
    current = session(catalogs, pins=pins)
    name, mark, wanted = tool.partition("@")
    if mark and not wanted:
        raise UsageError(f"'{printable(tool)}': expected TOOL@RELEASE, e.g. {printable(name)}@19")
    holders = [entry for entry in current.catalog.components.values() if name in entry.document.tools]
    if not holders:
        known = {known for entry in current.catalog.components.values() for known in entry.document.tools}
        raise UsageError(f"no component has a tool '{printable(name)}'{did_you_mean(name, known)}")
    places = _places(current, holders, name, wanted)
    for entry, release in places:
        environment = of_release(current, entry, release).resolve(current)
        if not isinstance(environment, ResolvedEnvironment):
            raise InfrastructureError(environment.reason)
        if environment.missing(current.home.packages):
            what = f"{entry.name} {release.release}"
            if provider_of(entry.document, release) is Provider.SOURCE:
                what += ", which is built from its source,"
            advice = f"matrix toolchain fetch {entry.name}@{release.release}"
            raise InfrastructureError(f"{what} is not here; {advice}")
        found = next(_programs(current, environment, name), None)
        if found is not None:
            click.echo(str(found))
            return
    shown = ", ".join(f"{entry.name} {release.release}" for entry, release in places)
    raise UsageError(f"{shown} has no program {printable(name)}")


def _places(
    current: Session, holders: Sequence[Entry[Component]], name: str, wanted: str
) -> list[tuple[Entry[Component], Release]]:
    """The releases where a tool may be. Several components may have it, not each of them the release that is asked for."""
    pinned = [entry for entry in holders if entry.name in current.pins.overrides]
    places, trouble = [], []
    # What a person pins is meant, and not another component that has the tool as well.
    for entry in holders if wanted else pinned or holders:
        try:
            places += [(entry, release) for release in _meant(current, entry, name, wanted)]
        except UsageError as error:
            trouble.append(error)
    if not places:
        raise trouble[0]
    return places


def _meant(current: Session, entry: Entry[Component], name: str, wanted: str) -> list[Release]:
    """The release that is asked for, else the pinned one and those that environments keep to.

    Of the machine's own programs each release names its own (``python3.11``): there it is the one that has this name. Of
    a component whose programs come as packages or are built, a release that is a wheel has none.
    """
    if wanted:
        return [find_release(entry, wanted)]
    if entry.name in current.pins.overrides:
        return [release_of(entry, current.pins.overrides[entry.name])]
    pinned = current.catalog.default_pins("")[entry.name]
    named = [each for each in entry.document.releases if name in each.programs]
    if named and provider_of(entry.document, release_of(entry, pinned)) is Provider.HOST:
        return named
    own = [pins[entry.name] for pins in _own_pins(current) if entry.name in pins]
    found = [release_of(entry, each) for each in dict.fromkeys([pinned, *own])]
    wheels = [each for each in found if entry.document.programs and provider_of(entry.document, each) is Provider.PYPI]
    return [each for each in found if each not in wheels] or found


def _own_pins(current: Session) -> Iterator[dict[str, str]]:
    """Pins of environments that keep to releases of their own."""
    for known in current.catalog.known_good:
        yield from (dict(pins) for pins in known.document.environments.values())


def _programs(current: Session, environment: ResolvedEnvironment, name: str) -> Iterator[Path]:
    for root in environment.roots(current.home.packages):
        script = Path(root, ".matrix", "bin", name)
        if script.is_file():
            yield script
    for site in environment.sites(current.home.packages):
        for path in sorted(Path(site).glob(f"**/{name}")):
            if path.is_file() and os.access(path, os.X_OK):
                yield path
    for program in environment.host_programs():
        found, _, path_there = program.partition("=")
        if found.partition("@")[0] == name:
            yield Path(path_there)
