"""Locks: for an environment and an interpreter, every package with its version and hash.

The file is pip's own requirements format, so that it can be installed by hand:
``pip install --require-hashes --no-deps -r toolchains/locks/mlir-cp311-linux-x86_64.txt``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.catalog.source import read_text
from mlir_matrix.errors import CatalogError
from mlir_matrix.names import printable

_LINE = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.+!]+)(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
)


@dataclass(frozen=True, kw_only=True, order=True)
class Package:
    """One locked distribution; any of the hashes will do (a build for each platform that carries the same code)."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """The line that pip reads."""
        return f"{self.name}=={self.version}" + "".join(f" --hash=sha256:{value}" for value in self.hashes)

    def folder(self, tag: str) -> str:
        """The name of the folder it is installed in."""
        return f"{self.name}-{self.version}-{tag}-{self.hashes[0][:12]}"


def lock_file(locks: Path, environment: str, tag: str) -> Path:
    """Where the lock of an environment for a wheel tag stands."""
    return locks / f"{environment}-{tag}-linux-x86_64.txt"


def read_lock(path: Path) -> tuple[Package, ...]:
    """The packages of a lock, in its order. Raises CatalogError: it may come from a stranger like all files of a catalog."""
    # LOCKS is ROOT/toolchains/locks.
    root = os.path.realpath(path.parents[2])
    if os.path.commonpath((os.path.realpath(path), root)) != root:
        raise CatalogError(f"{path}: is a symbolic link that leaves the catalog; put the file itself here")
    packages = []
    for number, line in enumerate(read_text(path, str(path)).splitlines(), 1):
        text = line.split("#", 1)[0].rstrip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            shown = printable(text, 80)
            raise CatalogError(f"{path}:{number}:1: expected «name==version --hash=sha256:…», got '{shown}'")
        hashes = tuple(re.findall(r"sha256:([0-9a-f]{64})", match["hashes"]))
        packages.append(Package(name=match["name"], version=match["version"], hashes=hashes))
    return tuple(packages)


def write_lock(path: Path, packages: Iterable[Package], *, environment: str) -> None:
    """Write a lock, sorted, with a line that says how to make it again."""
    lines = [f"# Made by: matrix toolchain lock {environment}", *(package.requirement for package in sorted(packages))]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
