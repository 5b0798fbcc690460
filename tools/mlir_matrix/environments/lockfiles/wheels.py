"""Lock files of wheels: for an environment and an interpreter, every distribution with its version and hashes.

The format is pip's requirements format, so pip can install it: ``pip install --require-hashes --no-deps -r
toolchains/locks/mlir-cp311-linux-x86_64.txt``. Comments state the pins and the sizes: bytes to download, bytes on disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import printable
from mlir_matrix.catalog.yaml_reader import read_text
from mlir_matrix.environments.machine import HOST, Architecture
from mlir_matrix.environments.package import Archive, folder_name

#: Names and versions become folder names, which have at most 255 bytes.
_PIN = r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,90})==(?P<version>[A-Za-z0-9.+!]{1,90})"
_LINE = re.compile(_PIN + r"(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)")
_SIZES = re.compile(r"# size=([0-9]{1,13}) installed=([0-9]{1,13})$")
_PINS = "# Pins:"
#: Last part of the name of every lock file of wheels.
PLATFORM = f"-{HOST.platform}.txt"
#: Number of first lines that may hold the pins.
_HEADER = 5


@dataclass(frozen=True, kw_only=True, order=True)
class WheelPackage:
    """One locked distribution. Any archive with one of the hashes is accepted (builds for several platforms)."""

    name: str
    version: str
    hashes: tuple[str, ...]
    #: Bytes to download and bytes on disk, if known.
    size: int | None = field(default=None, compare=False)
    installed: int | None = field(default=None, compare=False)
    #: ``FILE:LINE`` of the lock file.
    position: str = field(default="", compare=False)

    needs = ()

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def requirement(self) -> str:
        """Return the line for pip."""
        return f"{self.name}=={self.version}" + "".join(f" --hash=sha256:{value}" for value in self.hashes)

    @property
    def release(self) -> str:
        return self.version

    @property
    def identity(self) -> list[str]:
        return [self.name, self.version, *self.hashes]

    @property
    def archives(self) -> tuple[Archive, ...]:
        return (Archive(label=self.label, hashes=self.hashes, size=self.size),)

    def folder_for(self, tag: str) -> str:
        return folder_name(self.name, f"{self.version}-{tag}", *sorted(self.hashes))


def locked_text(path: Path) -> str:
    """Read a lock file, LOCKS/NAME. Raise CatalogError if it is a link out of the catalog."""
    # LOCKS is ROOT/toolchains/locks.
    root = os.path.realpath(path.parents[2])
    if os.path.commonpath((os.path.realpath(path), root)) != root:
        raise CatalogError(f"{path}: is a symbolic link that leaves the catalog; replace it by the file itself")
    return read_text(path, str(path))


def lock_file(
    locks: Path, environment: str, tag: str, pins: Mapping[str, str] | None = None, architecture: Architecture = HOST
) -> Path:
    """Return the path of a lock file; ``pins``: those that are not the default."""
    changed = ",".join(f"{name}={version}" for name, version in sorted((pins or {}).items()))
    return locks / f"{environment}{'@' if changed else ''}{changed}-{tag}-{architecture.platform}.txt"


def find_lock(folders: Iterable[Path], environment: str, tag: str, pins: Mapping[str, str]) -> Path | None:
    """Find the lock file that pins exactly these distributions: first the environment's, then any other.

    The first catalog has priority, because further catalogs may add environments but not change any.
    """
    wanted = _words(pins)
    for folder in folders:
        own = lock_file(folder, environment, tag)
        # A file that states no pins is accepted, too; read_lock checks it.
        if own.is_file() and read_pins(own) in (wanted, None):
            return own
    for folder in folders:
        for path in lock_files(folder, tag):
            if read_pins(path) == wanted:
                return path
    return None


def locks_elsewhere(folders: Iterable[Path], pins: Mapping[str, str]) -> list[str]:
    """Return the names of the lock files for other architectures that pin exactly these distributions."""
    wanted, paths = _words(pins), (path for folder in folders for path in folder.glob("*-cp*-linux-*.txt"))
    return sorted({path.name for path in paths if not path.name.endswith(PLATFORM) and read_pins(path) == wanted})


def lock_files(folder: Path, tag: str) -> list[Path]:
    """Return the lock files in a folder for a wheel tag."""
    # Opening a pipe would block.
    return [path for path in sorted(folder.glob(f"*-{tag}{PLATFORM}")) if path.is_file()]


def read_pins(path: Path) -> str | None:
    """Return the pins that a lock file states, or None."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in islice(file, _HEADER):
                if line.startswith(_PINS):
                    return line.removeprefix(_PINS).strip()
    except OSError:
        pass
    return None


def _words(pins: Mapping[str, str]) -> str:
    return " ".join(f"{name}=={version}" for name, version in sorted(pins.items()))


def read_lock(path: Path, pins: Mapping[str, str] | None = None) -> tuple[WheelPackage, ...]:
    """Read the packages of a lock file in its order; check that they have the pins that it states, else ``pins``.

    Raise CatalogError.
    """
    lines = locked_text(path).splitlines()
    packages: dict[str, WheelPackage] = {}
    for number, line in enumerate(lines, 1):
        if text := line.split("#", 1)[0].rstrip():
            package = _package(text, line.rstrip(), f"{path}:{number}")
            key = canonicalize_name(package.name)
            if key in packages:
                raise CatalogError(f"{path}:{number}:1: duplicate package '{package.name}'")
            packages[key] = package
    stated = [(number, line) for number, line in enumerate(lines[:_HEADER], 1) if line.startswith(_PINS)]
    for number, line in stated[:1]:
        for word in re.finditer(r"\S+", line.removeprefix(_PINS)):
            _check_pin(word.group(), packages, f"{path}:{number}:{len(_PINS) + word.start() + 1}")
    for name, version in (pins or {}).items() if not stated else ():
        _check_pin(f"{name}=={version}", packages, f"{path}:1:1")
    return tuple(packages.values())


def _package(text: str, line: str, where: str) -> WheelPackage:
    match = _LINE.fullmatch(text)
    if match is None:
        raise CatalogError(f"{where}:1: expected «name==version --hash=sha256:…», got '{printable(text, 80)}'")
    known = _SIZES.search(line)
    if known is None and (column := line.find("# size=") + 1):
        raise CatalogError(
            f"{where}:{column}: expected «# size=BYTES installed=BYTES», got '{printable(line[column - 1 :], 80)}'"
        )
    size, installed = map(int, known.groups()) if known else (None, None)
    hashes = tuple(re.findall(r"sha256:([0-9a-f]{64})", match["hashes"]))
    return WheelPackage(
        name=match["name"],
        version=match["version"],
        hashes=hashes,
        size=size,
        installed=installed,
        position=where,
    )


def _check_pin(pinned: str, packages: Mapping[str, WheelPackage], where: str) -> None:
    pin = re.fullmatch(_PIN, pinned)
    if pin is None:
        raise CatalogError(f"{where}: expected «name==version», got '{printable(pinned, 80)}'")
    package = packages.get(canonicalize_name(pin["name"]))
    if package is None or not is_version(package.version, pin["version"]):
        found = f"has {package.name}=={package.version}" if package else f"does not have {pin['name']}"
        raise CatalogError(f"{where}: {pinned} is pinned, but this lock file {found}")


def is_version(version: str, pinned: str) -> bool:
    """Compare as pip's ``==``: a local version (``+cpu``) matches, and final zeros do not count."""
    try:
        found, wanted = Version(version), Version(pinned)
    except InvalidVersion:
        return version == pinned
    return wanted in (found, Version(found.public))


def write_lock(path: Path, packages: Iterable[WheelPackage], *, made_by: str, pins: Mapping[str, str]) -> None:
    """Write a lock file, sorted, with the command that makes it and its pins."""
    lines = [f"# Made by: {made_by}", f"{_PINS} {_words(pins)}"]
    for each in sorted(packages):
        known = each.size is not None and each.installed is not None
        lines.append(each.requirement + (f"  # size={each.size} installed={each.installed}" if known else ""))
    write_text(path, "\n".join(lines) + "\n")
