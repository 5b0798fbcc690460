"""``matrix toolchain lock``: write lock files."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, pin_option, session
from mlir_matrix.environments.fetch.pip import solve
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lockfiles.wheels import lock_file, write_lock
from mlir_matrix.environments.package import Provider, distributions, filled, provider_of
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.session import Session
from mlir_matrix.text import counted, megabytes
from mlir_matrix.toolchains.names import Selection, selections


@click.command(
    "lock",
    cls=Verb,
    examples=(
        "matrix toolchain lock",
        "matrix toolchain lock mlir torch --python cp311",
        "matrix toolchain lock llvm@19.1.7",
        "matrix toolchain lock iree --pin iree=3.8.0",
    ),
)
@click.argument("names", nargs=-1, metavar="[ENVIRONMENT|COMPONENT[@RELEASE]]...")
@click.option(
    "--python",
    "tags",
    multiple=True,
    type=click.Choice(SUPPORTED),
    help="Lock for this Python version. Default: all. Repeatable.",
)
@pin_option
@catalog_option
def lock(names: tuple[str, ...], tags: tuple[str, ...], pins: tuple[str, ...], catalogs: tuple[Path, ...]) -> int:
    """Write the lock files of environments and releases.

    Without arguments, lock all environments. A lock file lists every package with version, size and SHA-256. An environment has
    one lock file for each Python version that all its packages support. A release of Debian packages has one lock file, which
    includes the C library.
    """
    current = session(catalogs, pins=pins)
    failed = False
    for thing in selections(current, names or sorted(current.catalog.environments)):
        for entry, release in _by_apt(current, thing):
            failed |= not _say(f"{entry.name} {release.release}", partial(_lock_packages, current, entry, release))
        if thing.environment:
            failed |= not _lock_environment(current, thing, tags or SUPPORTED, named=bool(names))
    return 3 if failed else 0


def _say(label: str, make: Callable[[], str]) -> bool:
    """Print what a lock came to; False, and why, where there is none."""
    try:
        click.echo(make())
    except InfrastructureError as error:
        click.echo(f"matrix: {label} is not locked: {error}", err=True)
        return False
    return True


def _shown(path: Path) -> str:
    """As a person can open it from where they are."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _by_apt(current: Session, thing: Selection) -> list[tuple[Entry[Component], Release]]:
    """The releases of Debian packages that are named, not those that an environment happens to have."""
    return (
        [(entry, release) for entry, release in thing.releases if provider_of(entry.document, release) is Provider.DEB]
        if thing.component
        else []
    )


def _lock_packages(current: Session, entry: Entry[Component], release: Release) -> str:
    from mlir_matrix.environments.fetch.apt import Asked
    from mlir_matrix.environments.fetch.apt import solve as solve_packages
    from mlir_matrix.environments.lockfiles.debian import DebianRelease, debian_lock_file, write_debian_lock

    document = entry.document
    named = release.release
    asked = Asked(
        packages=filled(document.packages, named),
        alone=filled(document.alone, named),
        without=filled(document.without, named),
        suites=release.suites,
        release=release.version or release.release,
    )
    found = DebianRelease(
        component=entry.name,
        release=release.release,
        packages=solve_packages(asked, state=current.home.cache / "apt"),
        programs=filled(document.programs, named),
        in_place=document.in_place,
        finish=document.finish or "",
    )
    path = debian_lock_file(entry.root / "toolchains" / "locks", entry.name, release.release)
    write_debian_lock(path, found, made=datetime.datetime.now(tz=datetime.UTC).date())
    size = f"{megabytes(found.size)} to fetch, {megabytes(found.installed)} on disk"
    return f"{_shown(path)}: {counted(len(found.packages), 'package')}, {size}"


def _lock_environment(current: Session, thing: Selection, tags: tuple[str, ...], *, named: bool) -> bool:
    """Lock what of an environment pip provides. One interpreter that it can be had for is enough."""
    entry = current.catalog.environments[thing.environment]
    pins = distributions(thing.releases)
    if not pins:
        return True
    folder = entry.root / "toolchains" / "locks"
    changed = thing.changed(current)
    made_by = " ".join([f"matrix toolchain lock {entry.name}", *(f"--pin {name}={to}" for name, to in changed.items())])
    done = 0
    for tag in tags:
        path = lock_file(folder, entry.name, tag, changed)
        if not named and not path.exists():
            continue
        try:
            packages = solve(pins, tag=tag)
        except InfrastructureError as error:
            click.echo(f"matrix: {entry.name} is not locked for {tag}: {error}", err=True)
            continue
        done += 1
        write_lock(path, packages, made_by=made_by, pins=pins)
        size = sum(package.size or 0 for package in packages)
        click.echo(f"{_shown(path)}: {counted(len(packages), 'package')}, {megabytes(size)} to fetch")
    return done > 0 or not named
