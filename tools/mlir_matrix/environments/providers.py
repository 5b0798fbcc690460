"""Find the package of each release that is programs, by its provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import PATCHER, Component, Release
from mlir_matrix.environments.host import find_tool
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lockfiles.debian import DebianRelease, debian_lock_file, read_debian_lock
from mlir_matrix.environments.lockfiles.wheels import WheelPackage, find_lock, read_lock
from mlir_matrix.environments.package import (
    Package,
    Provider,
    Releases,
    distributions,
    filled,
    provider_of,
    unlocked,
)
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
        """Return the packages of all releases that are not wheels. Raise Unavailable."""
        return tuple(
            self._package(entry, release)
            for entry, release in releases
            if provider_of(entry.document, release) is not Provider.PYPI
        )

    def _package(self, entry: Entry[Component], release: Release) -> Package:
        provider = provider_of(entry.document, release)
        if provider is Provider.DEB:
            return self._debian(entry, release)
        if provider is Provider.HOST:
            names = filled(release.programs or entry.document.programs, release.release)
            found = find_tool(entry.name, release.release, names)
            if isinstance(found, str):
                raise Unavailable(found)
            return found
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
            raise Unavailable(f"no component '{PATCHER}', which patches programs for their prefix")
        wanted = distributions([self._needs[PATCHER]])
        for tag in SUPPORTED:
            path = find_lock(self._folders, PATCHER, tag, wanted)
            if path is not None:
                return read_lock(path, wanted)[0]
        raise Unavailable(unlocked(PATCHER, wanted))

    def _source(self, entry: Entry[Component], release: Release) -> SourceBuild:
        if entry.document.build is None:
            raise Unavailable(f"{entry.name}@{release.release} cannot be built: its component file has no 'build'")
        if entry.name in self._under_way:
            raise Unavailable(f"circular needs: {' needs '.join([*self._under_way, entry.name])}")
        self._under_way.append(entry.name)
        needs = {}
        for name in entry.document.build.needs:
            if name not in self._needs:
                raise Unavailable(f"{entry.name} needs {name}, which is not a component")
            owner, needed = self._needs[name]
            if provider_of(owner.document, needed) not in (Provider.DEB, Provider.SOURCE):
                raise Unavailable(f"{entry.name} needs {name} {needed.release}, which has no prefix")
            needs[name] = (self._package(owner, needed), needed.release)
        self._under_way.pop()
        return source_build(entry, release, needs)
