"""``matrix toolchain which``: print the path of a tool."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.pins import find_release, release_of
from mlir_matrix.cli import options
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.package import Provider, provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import of_release
from mlir_matrix.environments.session import Session


@verb("which", "matrix toolchain which mlir-opt@19", "$(matrix toolchain which llc@22) --version")
@click.argument("tool", metavar="TOOL[@RELEASE]")
@options.session(options.pin)
def which_command(tool: str, current: Session) -> None:
    """Print the path of TOOL from the pinned release or from RELEASE, to run it by hand."""
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
            built = ", which is built from source," if provider_of(entry.document, release) is Provider.SOURCE else ""
            reference = f"{entry.name}@{release.release}"
            raise InfrastructureError(
                f"{entry.name} {release.release}{built} is not installed; matrix toolchain fetch {reference}"
            )
        found = next(_programs(current, environment, name), None)
        if found is not None:
            click.echo(str(found))
            return
    shown = ", ".join(f"{entry.name} {release.release}" for entry, release in places)
    raise UsageError(f"{shown} has no program {printable(name)}")


def _places(
    current: Session, holders: Sequence[Entry[Component]], name: str, wanted: str
) -> list[tuple[Entry[Component], Release]]:
    """Return the releases that may have a tool. Several components may have it, but not each has the wanted release."""
    pinned = [entry for entry in holders if entry.name in current.pins.overrides]
    places, errors = [], []
    # A pin selects its component.
    for entry in holders if wanted else pinned or holders:
        try:
            places += [(entry, release) for release in _releases(current, entry, name, wanted)]
        except UsageError as error:
            errors.append(error)
    if not places:
        raise errors[0]
    return places


def _releases(current: Session, entry: Entry[Component], name: str, wanted: str) -> list[Release]:
    """Return the wanted release, else the pinned one and those that environments pin.

    Each release of a host program names its own programs (``python3.11``): the one with this name is returned. Of a component
    whose programs are packages or built, wheels are left out: they have no programs.
    """
    if wanted:
        return [find_release(entry, wanted)]
    if entry.name in current.pins.overrides:
        return [release_of(entry, current.pins.overrides[entry.name])]
    pinned = current.catalog.default_pins("")[entry.name]
    named = [each for each in entry.document.releases if name in each.programs]
    if named and provider_of(entry.document, release_of(entry, pinned)) is Provider.HOST:
        return named
    own = [
        dict(pins)[entry.name]
        for known in current.catalog.known_good
        for pins in known.document.environments.values()
        if entry.name in pins
    ]
    found = [release_of(entry, each) for each in dict.fromkeys([pinned, *own])]
    wheels = [each for each in found if entry.document.programs and provider_of(entry.document, each) is Provider.PYPI]
    return [each for each in found if each not in wheels] or found


def _programs(current: Session, environment: ResolvedEnvironment, name: str) -> Iterator[Path]:
    for root in environment.roots(current.home.packages):
        script = Path(root, ".matrix", "bin", name)
        if script.is_file():
            yield script
    for site in environment.sites(current.home.packages):
        found = sorted(Path(site).glob(f"**/{name}"))
        yield from (path for path in found if path.is_file() and os.access(path, os.X_OK))
    for program in environment.host_programs():
        label, _, path = program.partition("=")
        if label.partition("@")[0] == name:
            yield Path(path)
