"""What a person names when it comes to toolchains: an environment, a release of a component, or what tests need.

And what that is made of: everything that any lock names, and its artifacts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.pins import PINS_MARK, find_release
from mlir_matrix.catalog.releases import spellings
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lockfiles.debian import debian_lock_files, read_debian_lock
from mlir_matrix.environments.lockfiles.wheels import PLATFORM, WheelPackage, read_lock
from mlir_matrix.environments.package import Installed, Provider, Releases, provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, resolve
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.events import Listener, ignore
from mlir_matrix.names import did_you_mean, name_glob, printable
from mlir_matrix.paths import Home
from mlir_matrix.session import Session

if TYPE_CHECKING:
    from mlir_matrix.environments.fetch.artifacts import Artifacts


@dataclass(frozen=True, kw_only=True)
class Thing:
    """Something that can be locked and fetched: releases that make an environment, or a prefix alone."""

    name: str
    releases: Releases
    #: The environment that it is, or by whose lock its wheels are found; empty where there are none.
    environment: str = ""
    #: The component where one of its releases is meant, and not an environment.
    component: str = ""
    #: One of many that a pattern names: where it has no lock, the others are meant.
    optional: bool = False

    def resolve(self, session: Session, *, sealed: bool = False) -> ResolvedEnvironment | UnavailableEnvironment:
        """What it is on this machine; ``sealed``: with nothing in it that is this machine's."""
        needs = session.pins.needs(self.environment, [entry.name for entry, _ in self.releases])
        changed = self.changed(session)
        found = resolve(
            self.environment or self.name,
            releases=self.releases,
            lock_folders=session.lock_folders,
            pins=",".join(f"{name}={release}" for name, release in changed.items()),
            needs=session.with_entries(needs),
            sealed=sealed,
        )
        return replace(found, name=self.name)

    def changed(self, session: Session) -> dict[str, str]:
        """Those of its releases that are not the default ones."""
        usual = session.catalog.default_pins(self.environment)
        return {entry.name: release.release for entry, release in self.releases if release.release != usual[entry.name]}


def things(session: Session, names: Iterable[str]) -> Iterator[Thing]:
    """What names stand for, in their order. Raises UsageError for what is nothing."""
    for name in names:
        yield from _things(session, name)


def _things(session: Session, name: str) -> Iterator[Thing]:
    catalog = session.catalog
    base, mark, wanted = name.partition(PINS_MARK)
    if base in catalog.environments and (not mark or "=" in wanted):
        # As a person names it, or as plans do: with its pins.
        reference = name if mark else session.pins.reference(base)
        yield Thing(name=reference, releases=session.releases(reference), environment=base)
    elif base in catalog.components and "/" not in name:
        entry = catalog.components[base]
        if mark and not name_glob(wanted).literal:
            pattern = name_glob(wanted)
            many = [each for each in entry.document.releases if any(map(pattern.matches, spellings(each.release)))]
            if not many:
                find_release(entry, wanted)
            yield from (replace(of_release(session, entry, release), optional=True) for release in many)
        else:
            release = find_release(entry, wanted) if wanted else session.pins.release(base)
            yield of_release(session, entry, release)
    else:
        yield from _needed(session, name)


def _needed(session: Session, name: str) -> Iterator[Thing]:
    """What the tests of a suite or glob need."""
    from mlir_matrix.expand.select import choose, is_suite  # who names a release need not wait for this

    catalog = session.catalog
    base = name.partition(PINS_MARK)[0]
    if is_suite(base) and base not in catalog.suites:
        known = [*catalog.environments, *catalog.components, *catalog.suites]
        raise UsageError(f"there is no environment, component or suite '{printable(name)}'{did_you_mean(base, known)}")
    plan = session.plan(choose(catalog, [name], pins=session.pins).tests())
    for reference in dict.fromkeys(action.environment for action in plan.graph.actions.values()):
        yield Thing(name=reference, releases=session.releases(reference), environment=reference.partition(PINS_MARK)[0])


def of_release(session: Session, entry: Entry[Component], release: Release) -> Thing:
    """One release of a component. Wheels come with the smallest environment that has the component."""
    name = f"{entry.name}{PINS_MARK}{release.release}"
    if provider_of(entry.document, release) is not Provider.PYPI:
        return Thing(name=name, releases=[(entry, release)], component=entry.name)
    holders = sorted(
        (len(environment.document.components), holder)
        for holder, environment in session.catalog.environments.items()
        if entry.name in environment.document.components
    )
    if not holders:
        raise UsageError(f"no environment has the component {entry.name}: nothing says what belongs to it")
    chosen = session.pins.override(f"{entry.name}={release.release}")
    found = []
    for _, holder in holders:
        releases = session.with_entries(chosen.releases(holder))
        found.append(Thing(name=name, releases=releases, environment=holder, component=entry.name))
    # Not each has a lock for each release.
    locked = (thing for thing in found if isinstance(thing.resolve(session), ResolvedEnvironment))
    return next(locked, found[0])


def require(session: Session, environment: ResolvedEnvironment, listener: Listener = ignore) -> None:
    """Have an environment here, whole. Raises InfrastructureError with all that went wrong."""
    from mlir_matrix.environments.fetch.artifacts import Artifacts
    from mlir_matrix.environments.install.installer import install_all

    home = session.home
    errors = install_all([environment], home.packages, Artifacts(home.artifacts), listener)
    if errors:
        raise InfrastructureError("; ".join(errors.values()))


def prefix_of(session: Session, component: str) -> tuple[ResolvedEnvironment, Path]:
    """The pinned release of a component that is programs, and the folder of its prefix, whether or not that is here.

    Raises InfrastructureError where this machine cannot have it.
    """
    if component not in session.catalog.components:
        raise InfrastructureError(f"no catalog has a component {component}")
    entry, release = session.catalog.components[component], session.pins.release(component)
    found = of_release(session, entry, release).resolve(session)
    if not isinstance(found, ResolvedEnvironment):
        raise InfrastructureError(found.reason)
    return found, Path(found.roots(session.home.packages)[0])


def locked_units(session: Session) -> dict[str, Installed]:
    """By folder: everything that a lock of the catalog names, for any interpreter, and what would be built here."""
    return {folder: unit for _, folder, unit in locked_things(session)}


def locked_things(session: Session) -> Iterator[tuple[str, str, Installed]]:
    """The same with the names by which it is fetched, empty for what runs build; what several locks have comes with each."""
    for folder in session.lock_folders:
        for path in sorted(folder.glob("*.txt")):
            tag = next((tag for tag in SUPPORTED if path.name.endswith(f"-{tag}{PLATFORM}")), None)
            if tag:
                name = path.name.removesuffix(f"-{tag}{PLATFORM}")
                packages = read_lock(path)
                yield from ((name, package.folder_for(tag), package) for package in packages)
                libraries = c_libraries(session, name.partition(PINS_MARK)[0], packages)
                yield from (("", library.folder, library) for library in libraries)
        for lock in map(read_debian_lock, debian_lock_files(folder)):
            yield f"{lock.component}{PINS_MARK}{lock.release}", lock.folder, lock
    for entry in session.catalog.components.values():
        for release in entry.document.releases:
            if provider_of(entry.document, release) is Provider.SOURCE:
                built = of_release(session, entry, release).resolve(session)
                if isinstance(built, ResolvedEnvironment):
                    found = ((unit.folder_for(built.interpreter.tag), unit) for unit in built.units)
                    # What has no folder is the machine's.
                    yield from ((built.name, folder, unit) for folder, unit in found if folder)


def c_libraries(session: Session, environment: str, packages: Sequence[WheelPackage]) -> list[CLibrary]:
    """Return the C libraries that an environment of these packages builds for the targets that it links kernels of."""
    documents = (entry.document for entry in session.catalog.targets.values())
    linked = (each.triple for each in documents if each.linker_environment == environment and each.tool == "run")
    return [CLibrary.of(triple, packages) for triple in dict.fromkeys(linked)]


def is_downloaded(package: Installed, store: Artifacts) -> bool:
    """Return whether all archives of a package are in the store."""
    return all(map(store.holds, package.archives))


class State(StrEnum):
    """State of an environment or a release, in tables and in JSON."""

    INSTALLED = "installed"
    #: Not installed, but all archives are in the store.
    DOWNLOADED = "downloaded"
    MISSING = "missing"
    #: All of its needs are downloaded, and it is not built of its source yet.
    NOT_BUILT = "not built"
    #: This machine cannot have it.
    UNAVAILABLE = "unavailable"


def state_of(environment: ResolvedEnvironment | UnavailableEnvironment, home: Home) -> State:
    """Return the state of an environment: that of the package that is furthest from being installed."""
    from mlir_matrix.environments.fetch.artifacts import Artifacts

    if not isinstance(environment, ResolvedEnvironment):
        return State.UNAVAILABLE
    missing, store = environment.missing(home.packages), Artifacts(home.artifacts)
    # By hash: a lock need not know sizes.
    if not all(is_downloaded(unit, store) for unit in missing):
        return State.MISSING
    if not all(unit.archives for unit in missing):
        return State.NOT_BUILT
    return State.DOWNLOADED if missing else State.INSTALLED


def bytes_in(folder: Path) -> int:
    """What a folder takes, hard links once; what vanishes meanwhile takes nothing."""
    sizes: dict[tuple[int, int], int] = {}
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                found = os.lstat(f"{root}/{name}")
            except OSError:
                continue
            sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())
