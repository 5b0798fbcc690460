"""``matrix toolchain lock``: write lock files."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import click

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.text import counted, megabytes
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.fetch.pip import solve
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lockfiles.wheels import lock_file, write_lock
from mlir_matrix.environments.package import Provider, distributions, filled, provider_of
from mlir_matrix.environments.selection import Selection
from mlir_matrix.environments.session import Session
from mlir_matrix.toolchains.names import selections


@verb(
    "lock",
    "matrix toolchain lock",
    "matrix toolchain lock mlir torch --python cp311",
    "matrix toolchain lock llvm@19.1.7 --format json",
    "matrix toolchain lock iree --pin iree=3.8.0",
)
@click.argument("names", nargs=-1, metavar="[ENVIRONMENT|COMPONENT[@RELEASE]|SUITE|GLOB]...")
@click.option(
    "--python",
    "tags",
    multiple=True,
    type=click.Choice(SUPPORTED),
    help="Lock for this Python version. Default: all. Repeatable.",
)
@options.output_format("text", "json")
@options.session(options.pin)
def lock_command(names: tuple[str, ...], tags: tuple[str, ...], form: str, current: Session) -> int:
    """Write the lock files of environments and releases.

    Without arguments, lock all environments. A lock file lists every package with version, size and SHA-256. An environment has
    one lock file for each Python version that all its packages support. A release of Debian packages has one lock file, which
    includes the C library.
    """
    complete, locked = True, []

    def tell(path: Path, packages: int, fetch: int, disk: int | None = None) -> None:
        shown = {"file": str(_shown(path)), "packages": packages, "bytes": {"fetch": fetch, "disk": disk}}
        locked.append(shown)
        if form == "text":
            size = f"{megabytes(fetch)} to fetch" + (f", {megabytes(disk)} on disk" if disk is not None else "")
            click.echo(f"{shown['file']}: {counted(packages, 'package')}, {size}")

    for thing in selections(current, names or sorted(current.catalog.environments)):
        # An environment's lock file is of wheels: its releases of Debian packages have their own.
        for entry, release in thing.releases if thing.component else ():
            if provider_of(entry.document, release) is Provider.DEB:
                complete &= _lock_packages(current, entry, release, tell)
        if thing.environment:
            complete &= _lock_environment(current, thing, tags or SUPPORTED, tell, named=bool(names))
    summary = {"locks": len(locked)}
    show(form, {"schema": "mlir-matrix/locked/v1", "summary": summary, "complete": complete, "locks": locked}, [])
    return 0 if complete else 3


def _shown(path: Path) -> Path:
    """Return a path relative to the working directory if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _lock_packages(current: Session, entry: Entry[Component], release: Release, tell: Callable[..., None]) -> bool:
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
        release=release.version or named,
    )
    try:
        packages = solve_packages(asked, state=current.home.cache / "apt")
    except InfrastructureError as error:
        warn(f"{entry.name} {named} is not locked: {error}")
        return False
    found = DebianRelease(
        component=entry.name,
        release=named,
        packages=packages,
        programs=filled(document.programs, named),
        in_place=document.in_place,
        finish=document.finish or "",
    )
    path = debian_lock_file(entry.root / "toolchains" / "locks", entry.name, named)
    write_debian_lock(path, found, made=datetime.datetime.now(tz=datetime.UTC).date())
    tell(path, len(packages), found.size, found.installed)
    return True


def _lock_environment(
    current: Session, thing: Selection, tags: tuple[str, ...], tell: Callable[..., None], *, named: bool
) -> bool:
    """Lock the wheels of an environment; return whether that worked for at least one Python version."""
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
            warn(f"{entry.name} is not locked for {tag}: {error}")
            continue
        done += 1
        write_lock(path, packages, made_by=made_by, pins=pins)
        tell(path, len(packages), sum(package.size or 0 for package in packages))
    return done > 0 or not named
