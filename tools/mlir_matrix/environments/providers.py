"""Find the package of each release that is programs, by its provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import PATCHER, Component, Release
from mlir_matrix.environments.host import HostTool, find_tool
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lockfiles.debian import DebianRelease, debian_lock_file, read_debian_lock
from mlir_matrix.environments.lockfiles.wheels import WheelPackage, find_lock, read_lock
from mlir_matrix.environments.package import Package
from mlir_matrix.environments.releases import Releases, distributions, filled, provider_of, unlocked
from mlir_matrix.environments.source.package import SourceBuild, source_build


class Unavailable(Exception):
    """A release that this machine cannot have; the message names what would serve."""


class Providers:
    """Finds packages; ``needs`` are the releases that other releases are built with."""

    def __init__(self, lock_folders: Sequence[Path], needs: Releases) -> None:
        self._folders = lock_folders
        self._needs = {entry.name: (entry, release) for entry, release in needs}
        self._under_way: list[str] = []

    def packages(self, releases: Releases) -> tuple[Package, ...]:
        """Return the packages of all releases that are not wheels. Raises Unavailable."""
        return tuple(
            self._package(entry, release)
            for entry, release in releases
            if provider_of(entry.document, release) != "pypi"
        )

    def _package(self, entry: Entry[Component], release: Release) -> Package:
        provider = provider_of(entry.document, release)
        if provider == "deb":
            return self._debian(entry, release)
        if provider == "host":
            return _host(entry, release)
        return self._source(entry, release)

    def _debian(self, entry: Entry[Component], release: Release) -> DebianRelease:
        for folder in self._folders:
            path = debian_lock_file(folder, entry.name, release.release)
            if path.is_file():
                lock = read_debian_lock(path)
                return replace(lock, patcher=self._patcher()) if lock.in_place else lock
        raise Unavailable(unlocked(f"{entry.name}@{release.release}"))

    def _patcher(self) -> WheelPackage:
        """Return the wheel with the program that patches prefixes; it is the same for every interpreter."""
        if PATCHER not in self._needs:
            raise Unavailable(f"the component {PATCHER} is missing, which patches prefixes for their place")
        wanted = distributions([self._needs[PATCHER]])
        for tag in SUPPORTED:
            path = find_lock(self._folders, PATCHER, tag, wanted)
            if path is not None:
                return read_lock(path, wanted)[0]
        raise Unavailable(unlocked(PATCHER, wanted))

    def _source(self, entry: Entry[Component], release: Release) -> SourceBuild:
        build = entry.document.build
        if build is None:
            raise Unavailable(f"{entry.name}@{release.release} has no 'build': nothing says how it is made")
        if entry.name in self._under_way:
            raise Unavailable(f"{' needs '.join([*self._under_way, entry.name])}: that has no end")
        self._under_way.append(entry.name)
        needs = {}
        for name in build.needs:
            if name not in self._needs:
                raise Unavailable(f"{entry.name} needs {name}, which is no component")
            owner, needed = self._needs[name]
            if provider_of(owner.document, needed) not in ("deb", "source"):
                raise Unavailable(f"{entry.name} needs {name} {needed.release}, which is no prefix")
            needs[name] = (self._package(owner, needed), needed.release)
        self._under_way.pop()
        return source_build(entry, release, needs)


def _host(entry: Entry[Component], release: Release) -> HostTool:
    found = find_tool(entry.name, release.release, filled(release.programs or entry.document.programs, release.release))
    if isinstance(found, str):
        raise Unavailable(found)
    return found
