"""Define packages, of which environments consist: wheels, Debian releases, source builds and host tools.

A package is a value. ``installer`` installs it, and ``installed.integrity`` checks its installed files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from mlir_matrix.base.digest import digest_value
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.environments.machine import HOST

#: The releases of an environment, each with its component.
Releases = Sequence[tuple[Entry[Component], Release]]


class Provider(StrEnum):
    """Where a release comes from, as component files name it."""

    PYPI = "pypi"
    DEB = "deb"
    SOURCE = "source"
    HOST = "host"


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A file to download. A file with any of these SHA-256 ``hashes`` is accepted."""

    label: str
    hashes: tuple[str, ...]
    #: Bytes of the file with the first hash, if the lock file states them.
    size: int | None = None


class Installed(Protocol):
    """A folder among the packages whose files can be verified."""

    @property
    def label(self) -> str:
        """Return name and version, for messages."""

    @property
    def archives(self) -> tuple[Archive, ...]:
        """Return the files to download; none for C libraries, source builds and host tools."""


class Package(Installed, Protocol):
    """One part of an environment."""

    @property
    def release(self) -> str:
        """Return the release of the component, or the version of the distribution."""

    @property
    def size(self) -> int | None:
        """Return the bytes to download, or None if unknown."""

    @property
    def installed(self) -> int | None:
        """Return the bytes on disk, or None if unknown."""

    @property
    def identity(self) -> list[str]:
        """Return the package's part of an environment's digest."""

    @property
    def needs(self) -> tuple[Package, ...]:
        """Return the packages that must be installed before this one."""

    def folder_for(self, tag: str) -> str:
        """Return the folder name for an interpreter's wheel tag; empty for host tools."""


def folder_name(name: str, version: str, *parts: object) -> str:
    """Return the folder name of a package. ``parts``: everything else that determines its files, such as its hashes.

    Another catalog may lock the same name with other archives. 128 bits of a digest keep the two packages apart.
    """
    return f"{name}-{version}-{digest_value([name, version, *parts])[:32]}"


def is_missing(package: Package, packages: Path, tag: str) -> bool:
    """Return whether a package has a folder that does not exist yet."""
    name = package.folder_for(tag)
    return bool(name) and not (packages / name).is_dir()


def with_needs(packages: Iterable[Package]) -> Iterator[Package]:
    """Yield packages, each once and after its needs."""
    seen: set[tuple[str, ...]] = set()

    def walk(package: Package) -> Iterator[Package]:
        for need in package.needs:
            yield from walk(need)
        if (key := (package.label, *package.identity)) not in seen:
            seen.add(key)
            yield package

    for package in packages:
        yield from walk(package)


def provider_of(component: Component, release: Release) -> Provider:
    return Provider(release.provider or component.provider)


def distributions(releases: Releases) -> dict[str, str]:
    """Return the requirements for pip: distribution to version."""
    pins: dict[str, str] = {}
    for entry, release in releases:
        if provider_of(entry.document, release) is Provider.PYPI:
            pins |= release.distributions or {entry.document.distribution or entry.name: release.release}
    return pins


def filled(texts: Sequence[str], release: str) -> tuple[str, ...]:
    """Replace ``{major}`` and ``{minor}`` by the first two numbers of a release."""
    major, minor, *_ = (*release.split("."), "")
    return tuple(text.replace("{major}", major).replace("{minor}", minor) for text in texts)


def unlocked(what: str, wanted: Mapping[str, str] | None = None, pins: str = "", others: Sequence[str] = ()) -> str:
    """Return the error for a missing lock file.

    ``wanted``: distributions, ``pins``: those that are not the default, ``others``: lock files for other architectures.
    """
    shown = " ".join(f"{name} {version}" for name, version in (wanted or {}).items())
    subject = f"environment {what} ({shown})" if shown else what
    options = "".join(f" --pin {pin}" for pin in pins.split(",") if pin)
    lacks = (
        f"is locked for another architecture ({', '.join(others)}), not for {HOST.name}"
        if others
        else "has no lock file"
    )
    return f"{subject} {lacks}; make one with: matrix toolchain lock {what}{options}"
