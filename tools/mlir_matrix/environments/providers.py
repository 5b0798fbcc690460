"""From a release that is programs to the unit that brings them, by its provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import PATCHER, Component, Release
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lockfiles.wheels import find_lock, read_lock
from mlir_matrix.environments.package import Unit
from mlir_matrix.environments.resolve import Releases, distributions, provider_of, unlocked


class Unavailable(Exception):
    """A release that this machine cannot have; the message says what would serve."""


class Providers:
    """Finds units; what releases are built with is looked for among ``needs``."""

    def __init__(self, lock_folders: Sequence[Path], needs: Releases) -> None:
        self._folders = lock_folders
        self._needs = {entry.name: (entry, release) for entry, release in needs}
        self._under_way: list[str] = []

    def units(self, releases: Releases) -> tuple[Unit, ...]:
        """The units of all releases that are not wheels. Raises Unavailable."""
        return tuple(
            self._unit(entry, release) for entry, release in releases if provider_of(entry.document, release) != "pypi"
        )

    def _unit(self, entry: Entry[Component], release: Release) -> Unit:
        provider = provider_of(entry.document, release)
        if provider == "deb":
            return self._deb(entry, release)
        if provider == "host":
            return _host(entry, release)
        return self._source(entry, release)

    def _deb(self, entry: Entry[Component], release: Release) -> Unit:
        from mlir_matrix.environments.lockfiles.debian import deb_lock_file, read_deb_lock

        for folder in self._folders:
            path = deb_lock_file(folder, entry.name, release.release)
            if path.is_file():
                lock = read_deb_lock(path)
                return replace(lock, patcher=self._patcher()) if lock.in_place else lock
        raise Unavailable(unlocked(f"{entry.name}@{release.release}"))

    def _patcher(self) -> Unit:
        """What patches prefixes for their place: a wheel, the same for every interpreter."""
        if PATCHER not in self._needs:
            raise Unavailable(f"the component {PATCHER} is missing, which patches prefixes for their place")
        wanted = distributions([self._needs[PATCHER]])
        for tag in SUPPORTED:
            path = find_lock(self._folders, PATCHER, tag, wanted)
            if path is not None:
                return read_lock(path, wanted)[0]
        raise Unavailable(unlocked(PATCHER, wanted))

    def _source(self, entry: Entry[Component], release: Release) -> Unit:
        from mlir_matrix.environments.source.build import source_build

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
            needs[name] = (self._unit(owner, needed), needed.release)
        self._under_way.pop()
        return source_build(entry, release, needs)


def _host(entry: Entry[Component], release: Release) -> Unit:
    from mlir_matrix.environments.host import find_tool

    found = find_tool(entry.name, release.release, filled(release.programs or entry.document.programs, release.release))
    if isinstance(found, str):
        raise Unavailable(found)
    return found


def filled(texts: Sequence[str], release: str) -> tuple[str, ...]:
    """Texts of a component's file for one release: ``{major}`` and ``{minor}`` are its first numbers."""
    major, minor, *_ = (*release.split("."), "")
    return tuple(text.replace("{major}", major).replace("{minor}", minor) for text in texts)
