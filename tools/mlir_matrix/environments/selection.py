"""Select environments, releases and the packages of all lock files, for the verbs that lock and fetch them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import PINS_MARK, split_pins
from mlir_matrix.catalog.catalog import Entry, is_linked
from mlir_matrix.catalog.models.toolchains import PATCHER, Component, Release
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lockfiles.debian import debian_lock_files, read_debian_lock
from mlir_matrix.environments.lockfiles.wheels import PLATFORM, WheelPackage, read_lock
from mlir_matrix.environments.package import Installed, Provider, Releases, provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, find_patcher, resolve
from mlir_matrix.environments.session import Session


@dataclass(frozen=True, kw_only=True)
class Lockable:
    """The releases of an environment, or a prefix alone, to lock or to fetch."""

    name: str
    releases: Releases
    #: The environment, or the one whose lock file has its wheels; empty if there are none.
    environment: str = ""
    #: The component, if the name is one of its releases.
    component: str = ""
    #: True if a pattern selected it. Then it is ignored if it has no lock file.
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
            builds=session.builds,
            sealed=sealed,
        )
        return replace(found, name=self.name)

    def changed(self, session: Session) -> dict[str, str]:
        """Return its releases that are not the default."""
        usual = session.catalog.default_pins(self.environment)
        return {entry.name: release.release for entry, release in self.releases if release.release != usual[entry.name]}


def of_release(session: Session, entry: Entry[Component], release: Release) -> Lockable:
    """Select one release of a component; wheels come with the smallest environment that has the component."""
    name = f"{entry.name}{PINS_MARK}{release.release}"
    if provider_of(entry.document, release) is not Provider.PYPI:
        return Lockable(name=name, releases=[(entry, release)], component=entry.name)
    holders = sorted(
        (len(environment.document.components), holder)
        for holder, environment in session.catalog.environments.items()
        if entry.name in environment.document.components
    )
    if not holders:
        raise UsageError(f"no environment has the component {entry.name}; add one to toolchains/environments")
    chosen = session.pins.override(f"{entry.name}={release.release}")
    found = [
        Lockable(
            name=name, releases=session.with_entries(chosen.releases(holder)), environment=holder, component=entry.name
        )
        for _, holder in holders
    ]
    # Prefer an environment that has a lock file for this release.
    return next((each for each in found if isinstance(each.resolve(session), ResolvedEnvironment)), found[0])


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
    patcher = _patcher(session)
    if patcher is not None:
        # It runs on every interpreter, also on those that its lock files do not name.
        yield from ((PATCHER, patcher.folder_for(tag), patcher) for tag in SUPPORTED)
    for folder in session.lock_folders:
        for path in sorted(folder.glob(f"*{PLATFORM}")):
            name, _, tag = path.name.removesuffix(PLATFORM).rpartition("-")
            if tag in SUPPORTED:
                packages = read_lock(path)
                yield from ((name, package.folder_for(tag), package) for package in packages)
                libraries = c_libraries(session, split_pins(name)[0], packages)
                yield from (("", library.folder, library) for library in libraries)
        for lock in map(read_debian_lock, debian_lock_files(folder)):
            prefix = replace(lock, patcher=patcher) if lock.in_place else lock
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
