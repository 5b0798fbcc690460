"""Select environments and releases by their names on a command line; list the packages of all lock files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener, ignore
from mlir_matrix.base.names import did_you_mean, is_glob, name_glob, printable, select_known
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import PATCHER, Component, Release
from mlir_matrix.catalog.pins import PINS_MARK, find_release
from mlir_matrix.catalog.releases import spellings
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lockfiles.debian import debian_lock_files, read_debian_lock
from mlir_matrix.environments.lockfiles.wheels import PLATFORM, WheelPackage, read_lock
from mlir_matrix.environments.package import Installed, Provider, Releases, provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, find_patcher, resolve
from mlir_matrix.expand.routes import is_linked
from mlir_matrix.session import Session

if TYPE_CHECKING:
    from mlir_matrix.environments.fetch.artifacts import Artifacts


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Something that can be locked and fetched: the releases of an environment, or a prefix alone."""

    name: str
    releases: Releases
    #: The environment, or the one whose lock file has its wheels; empty if there are none.
    environment: str = ""
    #: The component, if the name is one of its releases.
    component: str = ""
    #: Selected by a pattern: ignored if it has no lock file.
    optional: bool = False

    def resolve(self, session: Session, *, sealed: bool = False) -> ResolvedEnvironment | UnavailableEnvironment:
        """Resolve it on this machine; ``sealed``: without interpreter and programs of the host."""
        needs = session.pins.needs(self.environment, [entry.name for entry, _ in self.releases])
        found = resolve(
            self.environment or self.name,
            releases=self.releases,
            lock_folders=session.lock_folders,
            pins=",".join(f"{name}={release}" for name, release in self.changed(session).items()),
            needs=session.with_entries(needs),
            sealed=sealed,
        )
        return replace(found, name=self.name)

    def changed(self, session: Session) -> dict[str, str]:
        """Return its releases that are not the default."""
        usual = session.catalog.default_pins(self.environment)
        return {entry.name: release.release for entry, release in self.releases if release.release != usual[entry.name]}


def selections(session: Session, names: Iterable[str]) -> Iterator[Selection]:
    """Yield what names select, in their order. Raise UsageError for an unknown name."""
    for name in names:
        yield from _selected(session, name)


def _selected(session: Session, name: str) -> Iterator[Selection]:
    catalog = session.catalog
    base, mark, wanted = name.partition(PINS_MARK)
    if is_glob(base) and "/" not in base:
        environments = catalog.environments if not mark or "=" in wanted else ()
        known = dict.fromkeys((*environments, *(() if "=" in wanted else catalog.components)))
        for each in select_known("environment or component", [base], known):
            yield from _selected(session, f"{each}{mark}{wanted}")
    elif base in catalog.environments and (not mark or "=" in wanted):
        yield _environment(session, name if mark else session.pins.reference(base))
    elif base in catalog.components and "/" not in name:
        entry = catalog.components[base]
        if mark and not (pattern := name_glob(wanted)).literal:
            many = [each for each in entry.document.releases if any(map(pattern.matches, spellings(each.release)))]
            if not many:
                find_release(entry, wanted)
            yield from (replace(of_release(session, entry, release), optional=True) for release in many)
        else:
            yield of_release(session, entry, find_release(entry, wanted) if wanted else session.pins.release(base))
    else:
        from mlir_matrix.expand.select import is_suite  # not needed for releases

        if is_suite(base) and base not in catalog.suites:
            near = did_you_mean(base, [*catalog.environments, *catalog.components, *catalog.suites])
            raise UsageError(f"there is no environment, component or suite '{printable(name)}'{near}")
        yield from (_environment(session, reference) for reference in session.references(name))


def _environment(session: Session, reference: str) -> Selection:
    base = session.pins.meant(reference.partition(PINS_MARK)[0])
    return Selection(name=reference, releases=session.releases(reference), environment=base)


def of_release(session: Session, entry: Entry[Component], release: Release) -> Selection:
    """Select one release of a component; wheels come with the smallest environment that has the component."""
    name = f"{entry.name}{PINS_MARK}{release.release}"
    if provider_of(entry.document, release) is not Provider.PYPI:
        return Selection(name=name, releases=[(entry, release)], component=entry.name)
    holders = sorted(
        (len(environment.document.components), holder)
        for holder, environment in session.catalog.environments.items()
        if entry.name in environment.document.components
    )
    if not holders:
        raise UsageError(f"no environment has the component {entry.name}; add one to toolchains/environments")
    chosen = session.pins.override(f"{entry.name}={release.release}")
    found = [
        Selection(
            name=name, releases=session.with_entries(chosen.releases(holder)), environment=holder, component=entry.name
        )
        for _, holder in holders
    ]
    # Not every environment has a lock file for every release.
    return next((each for each in found if isinstance(each.resolve(session), ResolvedEnvironment)), found[0])


def require(session: Session, environment: ResolvedEnvironment, listener: Listener = ignore) -> None:
    """Install an environment. Raise InfrastructureError with all errors."""
    from mlir_matrix.environments.fetch.artifacts import Artifacts
    from mlir_matrix.environments.install.installer import install_all

    home = session.home
    errors = install_all([environment], home.packages, Artifacts(home.artifacts), listener)
    if errors:
        raise InfrastructureError("; ".join(errors.values()))


def prefix_of(session: Session, component: str) -> tuple[ResolvedEnvironment, Path]:
    """Return the pinned release of a component and its prefix, installed or not. Raise InfrastructureError."""
    if component not in session.catalog.components:
        raise InfrastructureError(f"no catalog has a component {component}")
    entry, release = session.catalog.components[component], session.pins.release(component)
    found = of_release(session, entry, release).resolve(session)
    if not isinstance(found, ResolvedEnvironment):
        raise InfrastructureError(found.reason)
    return found, Path(found.roots(session.home.packages)[0])


def locked_units(session: Session) -> dict[str, Installed]:
    """Return by folder all packages of lock files, for any interpreter, source builds and C libraries of targets."""
    return {folder: package for _, folder, package in locked_packages(session)}


def locked_packages(session: Session) -> Iterator[tuple[str, str, Installed]]:
    """Yield name, folder and package, once per lock file; ``toolchain fetch`` takes the name, which C libraries lack."""
    for folder in session.lock_folders:
        for path in sorted(folder.glob(f"*{PLATFORM}")):
            name, _, tag = path.name.removesuffix(PLATFORM).rpartition("-")
            if tag in SUPPORTED:
                packages = read_lock(path)
                yield from ((name, package.folder_for(tag), package) for package in packages)
                libraries = c_libraries(session, name.partition(PINS_MARK)[0], packages)
                yield from (("", library.folder, library) for library in libraries)
        for lock in map(read_debian_lock, debian_lock_files(folder)):
            prefix = replace(lock, patcher=_patcher(session)) if lock.in_place else lock
            yield f"{lock.component}{PINS_MARK}{lock.release}", prefix.folder, prefix
    for entry in session.catalog.components.values():
        for release in entry.document.releases:
            if provider_of(entry.document, release) is Provider.SOURCE:
                built = of_release(session, entry, release).resolve(session)
                if isinstance(built, ResolvedEnvironment):
                    yield from ((built.name, name, package) for name, package in built.folders.items())


def _patcher(session: Session) -> WheelPackage | None:
    if PATCHER not in session.catalog.components:
        return None
    return find_patcher(session.with_entries({PATCHER: session.pins.release(PATCHER)}), session.lock_folders[:1])


def c_libraries(session: Session, environment: str, packages: Sequence[WheelPackage]) -> list[CLibrary]:
    """Return the C libraries that these packages build for the targets that an environment links kernels of."""
    users = (
        entry for entry in session.catalog.targets.values() if is_linked(entry) and entry.document.tool != "run_jit"
    )
    linked = (each.document.triple for each in users if each.document.linker_environment == environment)
    return [CLibrary.of(triple, packages) for triple in dict.fromkeys(linked) if triple]


def is_downloaded(package: Installed, store: Artifacts) -> bool:
    return all(map(store.holds, package.archives))


class State(StrEnum):
    """State of an environment or a release, in tables and in JSON."""

    INSTALLED = "installed"
    #: Not installed, but all archives are in the store.
    DOWNLOADED = "downloaded"
    MISSING = "missing"
    #: A source build whose needs are downloaded.
    NOT_BUILT = "not built"
    #: This machine cannot have it.
    UNAVAILABLE = "unavailable"


def state_of(environment: ResolvedEnvironment | UnavailableEnvironment, home: Home) -> State:
    """Return the state of an environment: that of the package that is furthest from being installed."""
    from mlir_matrix.environments.fetch.artifacts import Artifacts

    if not isinstance(environment, ResolvedEnvironment):
        return State.UNAVAILABLE
    missing, store = environment.missing(home.packages), Artifacts(home.artifacts)
    if not all(is_downloaded(package, store) for package in missing):
        return State.MISSING
    if not all(package.archives for package in missing):
        return State.NOT_BUILT
    return State.DOWNLOADED if missing else State.INSTALLED


def bytes_in(folder: Path) -> int:
    """Return the bytes of the files below a folder, hard links once."""
    sizes: dict[tuple[int, int], int] = {}
    for root, _, files in os.walk(folder):
        for name in files:
            # Another process may have removed it.
            with suppress(OSError):
                found = os.lstat(f"{root}/{name}")
                sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())
