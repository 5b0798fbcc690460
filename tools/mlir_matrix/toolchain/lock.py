"""Write the lock files of environments and of releases of Debian packages."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.cli.output import warn
from mlir_matrix.environments.fetch.pip import solve
from mlir_matrix.environments.lockfiles.wheels import lock_file, write_lock
from mlir_matrix.environments.machine import HOST, Architecture
from mlir_matrix.environments.package import distributions, filled
from mlir_matrix.environments.selection import Lockable
from mlir_matrix.environments.session import Session


def lock_packages(
    current: Session, entry: Entry[Component], release: Release, tell: Callable[..., None], architecture: Architecture
) -> bool:
    """Lock a release of Debian packages; return whether that worked."""
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
        architecture=architecture,
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
    owner = entry.added.get(named, entry)
    path = debian_lock_file(owner.root / "toolchains" / "locks", entry.name, named, architecture)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    write_debian_lock(path, found, made=today, platform=architecture.platform)
    tell(path, len(packages), found.size, found.installed)
    return True


def lock_environment(
    current: Session,
    thing: Lockable,
    tags: tuple[str, ...],
    tell: Callable[..., None],
    architecture: Architecture,
    *,
    named: bool,
) -> bool:
    """Lock the wheels of an environment; return whether that worked for at least one Python version."""
    entry = current.catalog.environments[thing.environment]
    pins = distributions(thing.releases)
    if not pins:
        return True
    # The catalog that adds a release has the lock files with it.
    adding = (component.added[it.release].root for component, it in thing.releases if it.release in component.added)
    folder = next(adding, entry.root) / "toolchains" / "locks"
    changed = thing.changed(current)
    made_by = " ".join([f"matrix toolchain lock {entry.name}", *(f"--pin {name}={to}" for name, to in changed.items())])
    made_by += "" if architecture == HOST else f" --platform {architecture.platform}"
    done = 0
    for tag in tags:
        path = lock_file(folder, entry.name, tag, changed, architecture)
        if not named and not path.exists():
            continue
        try:
            packages = solve(pins, current.home, tag=tag, architecture=architecture)
        except InfrastructureError as error:
            warn(f"{entry.name} is not locked for {tag}: {error}")
            continue
        done += 1
        write_lock(path, packages, made_by=made_by, pins=pins)
        tell(path, len(packages), sum(package.size or 0 for package in packages))
    return done > 0 or not named
