"""Packages, of which environments consist: wheels, Debian releases, source builds and host tools.

A package is a value. ``install.installer`` installs it and ``install.integrity`` checks what was installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A file to download; a file with any of these SHA-256 ``hashes`` serves."""

    label: str
    hashes: tuple[str, ...]
    #: Bytes of the file with the first hash, if the lock file states them.
    size: int | None = None


class Installed(Protocol):
    """A folder among the packages whose files can be verified."""

    @property
    def label(self) -> str:
        """Name and version, for people."""

    @property
    def archives(self) -> tuple[Archive, ...]:
        """Files to download; none for what is built here and for host tools."""


class Package(Installed, Protocol):
    """One part of an environment."""

    @property
    def release(self) -> str:
        """Release of the component, or version of the distribution."""

    @property
    def size(self) -> int | None:
        """Bytes to download, or None if unknown."""

    @property
    def installed(self) -> int | None:
        """Bytes on disk, or None if unknown."""

    @property
    def identity(self) -> list[str]:
        """Part of the digest of an environment."""

    @property
    def needs(self) -> tuple[Package, ...]:
        """Packages that must be installed before this one."""

    def folder_for(self, tag: str) -> str:
        """Return the folder name for an interpreter's wheel tag; empty for host tools."""


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
