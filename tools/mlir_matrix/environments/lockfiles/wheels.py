"""Locks: for an environment and an interpreter, every package with its version and hash.

The file is pip's own requirements format, so that it can be installed by hand:
``pip install --require-hashes --no-deps -r toolchains/locks/mlir-cp311-linux-x86_64.txt``. Comments say what was pinned
and what each package takes: bytes to fetch, bytes on disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from mlir_matrix.catalog.yaml_reader import read_text
from mlir_matrix.environments.package import Archive, Package
from mlir_matrix.errors import CatalogError
from mlir_matrix.files import write_text
from mlir_matrix.names import printable

#: They become names of folders, which have 255 bytes.
_PIN = r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,100})==(?P<version>[A-Za-z0-9.+!]{1,100})"
_LINE = re.compile(_PIN + r"(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)")
_SIZES = re.compile(r"# size=([0-9]{1,13}) installed=([0-9]{1,13})$")
_PINS = "# Pins:"
#: How the names of all locks end: what they were made for.
PLATFORM = "-linux-x86_64.txt"
#: Lines at the beginning of a lock among which its pins are.
_HEADER = 5


@dataclass(frozen=True, kw_only=True, order=True)
class WheelPackage:
    """One locked distribution; any of the hashes will do (a build for each platform that carries the same code)."""

    name: str
    version: str
    hashes: tuple[str, ...]
    #: Bytes to fetch and bytes on disk, where known.
    size: int | None = field(default=None, compare=False)
    installed: int | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """What people read."""
        return f"{self.name} {self.version}"

    @property
    def requirement(self) -> str:
        """The line that pip reads."""
        return f"{self.name}=={self.version}" + "".join(f" --hash=sha256:{value}" for value in self.hashes)

    def folder(self, tag: str) -> str:
        """The name of the folder it is installed in."""
        return f"{self.name}-{self.version}-{tag}-{self.hashes[0][:12]}"

    @property
    def release(self) -> str:
        return self.version

    @property
    def identity(self) -> list[str]:
        return [self.name, self.version, *self.hashes]

    @property
    def needs(self) -> tuple[Package, ...]:
        return ()

    @property
    def archives(self) -> tuple[Archive, ...]:
        return (Archive(label=self.label, hashes=self.hashes, size=self.size),)

    def folder_for(self, tag: str) -> str:
        return self.folder(tag)


def lock_file(locks: Path, environment: str, tag: str, pins: Mapping[str, str] | None = None) -> Path:
    """Where the lock of an environment for a wheel tag stands; ``pins`` where they are not the default ones."""
    changed = ",".join(f"{name}={version}" for name, version in sorted((pins or {}).items()))
    return locks / f"{environment}{'@' if changed else ''}{changed}-{tag}{PLATFORM}"


def find_lock(folders: Iterable[Path], environment: str, tag: str, pins: Mapping[str, str]) -> Path | None:
    """The lock that pins exactly these distributions: the environment's own, else anyone's.

    The first catalog's lock counts: one that joins adds environments and changes none.
    """
    wanted = _words(pins)
    for folder in folders:
        own = lock_file(folder, environment, tag)
        # One that does not say what it pins is its own environment's; whether that is so shows when it is read.
        if own.is_file() and read_pins(own) in (wanted, None):
            return own
    for folder in folders:
        for path in sorted(folder.glob(f"*-{tag}{PLATFORM}")):
            # Opening a pipe would wait for ever.
            if path.is_file() and read_pins(path) == wanted:
                return path
    return None


def read_pins(path: Path) -> str | None:
    """What a lock says that it pins; None where it says nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in islice(file, _HEADER):
                if line.startswith(_PINS):
                    return line.removeprefix(_PINS).strip()
    except OSError:
        return None
    return None


def _words(pins: Mapping[str, str]) -> str:
    return " ".join(f"{name}=={version}" for name, version in sorted(pins.items()))


def read_lock(path: Path, pins: Mapping[str, str] | None = None) -> tuple[WheelPackage, ...]:
    """The packages of a lock, in its order; what it pins is among them, by what it says, else ``pins``.

    Raises CatalogError: it may come from a stranger like all files of a catalog.
    """
    # LOCKS is ROOT/toolchains/locks.
    root = os.path.realpath(path.parents[2])
    if os.path.commonpath((os.path.realpath(path), root)) != root:
        raise CatalogError(f"{path}: is a symbolic link that leaves the catalog; put the file itself here")
    lines = read_text(path, str(path)).splitlines()
    packages: dict[str, WheelPackage] = {}
    for number, line in enumerate(lines, 1):
        text = line.split("#", 1)[0].rstrip()
        if text:
            package = _package(text, line.rstrip(), f"{path}:{number}")
            key = _normal(package.name)
            if key in packages:
                raise CatalogError(f"{path}:{number}:1: '{package.name}' is there twice; once is what can be installed")
            packages[key] = package
    said = [(number, line) for number, line in enumerate(lines[:_HEADER], 1) if line.startswith(_PINS)]
    for number, line in said[:1]:
        for word in re.finditer(r"\S+", line.removeprefix(_PINS)):
            _check_pin(word.group(), packages, f"{path}:{number}:{len(_PINS) + word.start() + 1}")
    for name, version in (pins or {}).items() if not said else ():
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
    return WheelPackage(name=match["name"], version=match["version"], hashes=hashes, size=size, installed=installed)


def _check_pin(pinned: str, packages: Mapping[str, WheelPackage], where: str) -> None:
    """It is found by what it pins: it must have that."""
    pin = re.fullmatch(_PIN, pinned)
    if pin is None:
        raise CatalogError(f"{where}: expected «name==version», got '{printable(pinned, 80)}'")
    package = packages.get(_normal(pin["name"]))
    if package is None or not _is_version(package.version, pin["version"]):
        found = f"has {package.name}=={package.version}" if package else f"does not have {pin['name']}"
        raise CatalogError(f"{where}: {pinned} is pinned, but this lock {found}")


def _normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_version(version: str, pinned: str) -> bool:
    """As pip takes «==»: a build of it (``+cpu``) is one, and zeros at the end do not count."""
    if "+" not in pinned:
        version = version.partition("+")[0]
    return re.sub(r"(\.0)+$", "", version) == re.sub(r"(\.0)+$", "", pinned)


def write_lock(path: Path, packages: Iterable[WheelPackage], *, made_by: str, pins: Mapping[str, str]) -> None:
    """Write a lock, sorted, with lines that say how to make it again and what it pins."""
    lines = [f"# Made by: {made_by}", f"{_PINS} {_words(pins)}", *map(_line, sorted(packages))]
    write_text(path, "\n".join(lines) + "\n")


def _line(package: WheelPackage) -> str:
    if package.size is None or package.installed is None:
        return package.requirement
    return f"{package.requirement}  # size={package.size} installed={package.installed}"
