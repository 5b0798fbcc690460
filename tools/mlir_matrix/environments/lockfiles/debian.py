"""The lock of one release of a component that comes as Debian packages: which ones, each with its hash and its place.

Comments at the beginning say what it is of (``# Made by: matrix toolchain lock llvm@19.1.7``), which folders of the
prefix hold programs, and whether those are patched for the place where it stands (``# In place: patched``, or the name of
what more is done for them). Then a line a package: ``NAME VERSION size=… installed=… sha256=… suite=… path=pool/…``. Where it
was found (suite and path) may change; what it is (name, version, hash) is what an environment is known by.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import get_args

from mlir_matrix.catalog.models.toolchains import Finish
from mlir_matrix.catalog.yaml_reader import read_text
from mlir_matrix.digest import digest_value
from mlir_matrix.environments.lockfiles.wheels import PLATFORM
from mlir_matrix.environments.package import Archive, Package
from mlir_matrix.errors import CatalogError
from mlir_matrix.files import write_text
from mlir_matrix.names import is_name, printable

#: What is made of a lock. Another number makes everything anew: raise it when prefixes are laid out differently.
_LAYOUT = 1
#: The same for prefixes that are patched for their place, and finished.
_PATCHED = 1

#: Debian's policy, sections 5.6.1 and 5.6.12.
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,100}")
_VERSION = re.compile(r"(?:[0-9]{1,9}:)?[0-9][A-Za-z0-9.+~-]{0,100}")
_SIZE = re.compile(r"0|[1-9][0-9]{0,12}")
_HASH = re.compile(r"[0-9a-f]{64}")
_SUITE = re.compile(r"[a-z][a-z0-9-]{0,40}")
#: No segment begins with a dot: neither '..' nor hidden.
_PATH = re.compile(r"pool(?:/[A-Za-z0-9][A-Za-z0-9.+~_-]{0,150}){1,8}\.deb")
_FIELDS = {"size": _SIZE, "installed": _SIZE, "sha256": _HASH, "suite": _SUITE, "path": _PATH}
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*(?:/[A-Za-z0-9][A-Za-z0-9.+_-]*){0,8}")
_MADE_BY, _PROGRAMS, _IN_PLACE = "# Made by: matrix toolchain lock ", "# Programs: ", "# In place: "
_PATCH = "patched"
_FORM = "NAME VERSION size=… installed=… sha256=… suite=… path=pool/…"


@dataclass(frozen=True, kw_only=True, order=True)
class DebianPackage:
    """A locked package; sizes in bytes, ``installed`` as the package says itself (rounded to KiB)."""

    name: str
    version: str
    size: int
    installed: int
    sha256: str
    suite: str
    path: str

    @property
    def line(self) -> str:
        """The line of the lock."""
        fields = f"size={self.size} installed={self.installed} sha256={self.sha256} suite={self.suite} path={self.path}"
        return f"{self.name} {self.version} {fields}"

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.name} {self.version}"


@dataclass(frozen=True, kw_only=True)
class DebianRelease:
    """A release of a component, as packages."""

    component: str
    release: str
    packages: tuple[DebianPackage, ...]
    #: Folders of the prefix that hold its programs.
    programs: tuple[str, ...] = ()
    #: Its programs are patched for the place where the prefix stands.
    in_place: bool = False
    #: What more is done for them: a component's ``finish``.
    finish: str = ""
    #: What patches.
    patcher: Package | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.component} {self.release}"

    @cached_property
    def digest(self) -> str:
        """Address of its content, wherever that is found."""
        return digest_value(sorted([package.name, package.version, package.sha256] for package in self.packages))

    @cached_property
    def made(self) -> str:
        """Address of what is made of it: of two programs that share a name, those of the first folder count."""
        patched = [[_PATCHED, self.finish]] if self.in_place else []
        return digest_value([_LAYOUT, self.digest, list(self.programs), *patched])

    @cached_property
    def folder(self) -> str:
        """The name of the folder that is its prefix."""
        return f"{self.component}-{self.release}-{self.made[:12]}"

    @property
    def size(self) -> int:
        """Bytes to fetch where nothing is there."""
        return sum(package.size for package in self.packages)

    @property
    def installed(self) -> int:
        """Bytes on disk."""
        return sum(package.installed for package in self.packages)

    @property
    def suites(self) -> tuple[str, ...]:
        """Where the packages were found."""
        return tuple(sorted({package.suite for package in self.packages}))

    @property
    def identity(self) -> list[str]:
        return [self.component, self.made]

    @property
    def needs(self) -> tuple[Package, ...]:
        return (self.patcher,) if self.patcher else ()

    @property
    def archives(self) -> tuple[Archive, ...]:
        return tuple(
            Archive(label=f"{self.label}: {package.label}", hashes=(package.sha256,), size=package.size)
            for package in self.packages
        )

    def folder_for(self, tag: str) -> str:
        return self.folder

    def text(self, *, made: datetime.date) -> str:
        """The file."""
        lines = [
            f"{_MADE_BY}{self.component}@{self.release}",
            f"# From: {' '.join(self.suites)} ({made.isoformat()})",
            *([f"{_PROGRAMS}{' '.join(self.programs)}"] if self.programs else []),
            *([f"{_IN_PLACE}{self.finish or _PATCH}"] if self.in_place else []),
            *(package.line for package in sorted(self.packages)),
        ]
        return "\n".join(lines) + "\n"


def debian_lock_file(locks: Path, component: str, release: str) -> Path:
    """Where the lock of a release stands."""
    return locks / f"{component}-{release}{PLATFORM}"


def read_debian_lock(path: Path) -> DebianRelease:
    """Read a lock. Raises CatalogError: it may come from a stranger, and its words become addresses and folders."""
    # LOCKS is ROOT/toolchains/locks.
    root = os.path.realpath(path.parents[2])
    if os.path.commonpath((os.path.realpath(path), root)) != root:
        raise CatalogError(f"{path}: is a symbolic link that leaves the catalog; put the file itself here")
    lock = parse_debian_lock(read_text(path, str(path)), str(path))
    if path.name != debian_lock_file(path, lock.component, lock.release).name:
        raise CatalogError(f"{path}:1:1: is the lock of {lock.component}@{lock.release}, by what it says; call it so")
    return lock


def parse_debian_lock(text: str, file: str) -> DebianRelease:
    """A lock, called ``file`` in messages; its packages in its order. Raises CatalogError."""
    component = release = ""
    programs: tuple[str, ...] = ()
    done = ""
    packages: dict[str, DebianPackage] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{file}:{number}"
        if line.startswith(_MADE_BY) and not component:
            component, release = _subject(line.removeprefix(_MADE_BY), f"{where}:{len(_MADE_BY) + 1}")
        elif line.startswith(_PROGRAMS):
            programs = _programs(line, where)
        elif line.startswith(_IN_PLACE):
            done = _in_place(line.removeprefix(_IN_PLACE).strip(), f"{where}:{len(_IN_PLACE) + 1}")
        content = line.split("#", 1)[0].rstrip()
        if content:
            package = _package(content, where)
            if package.name in packages:
                raise CatalogError(f"{where}:1: '{package.name}' is there twice; one version of it can be in a prefix")
            packages[package.name] = package
    if not component:
        raise CatalogError(f"{file}:1:1: does not say what it is of; expected «{_MADE_BY}COMPONENT@RELEASE»")
    if not packages:
        raise CatalogError(f"{file}:1:1: has no package; expected lines «{_FORM}»")
    return DebianRelease(
        component=component, release=release, packages=tuple(packages.values()), programs=programs,
        in_place=bool(done), finish=done if done != _PATCH else "",
    )  # fmt: skip


def write_debian_lock(path: Path, lock: DebianRelease, *, made: datetime.date) -> None:
    """Write a lock, sorted, with how and when it was made."""
    write_text(path, lock.text(made=made))


def _subject(text: str, where: str) -> tuple[str, str]:
    component, _, release = text.strip().partition("@")
    if not (is_name(component) and is_name(release)):
        raise CatalogError(f"{where}: expected COMPONENT@RELEASE, got '{printable(text.strip())}'")
    return component, release


def _programs(line: str, where: str) -> tuple[str, ...]:
    words = [(column, word) for column, word in _words(line) if column > len(_PROGRAMS)]
    for column, word in words:
        if _FOLDER.fullmatch(word) is None:
            raise CatalogError(f"{where}:{column}: '{printable(word)}' is no folder of a prefix, like 'usr/bin'")
    return tuple(word for _, word in words)


def _in_place(text: str, where: str) -> str:
    known = (_PATCH, *get_args(Finish))
    if text not in known:
        raise CatalogError(f"{where}: expected {' or '.join(known)}, got '{printable(text)}'")
    return text


def _package(line: str, where: str) -> DebianPackage:
    words = list(_words(line))
    if len(words) != 2 + len(_FIELDS):
        raise CatalogError(f"{where}:1: expected «{_FORM}», got '{printable(line)}'")
    values = dict(_values(words[2:], where))
    for (column, word), pattern, what in zip(words, (_NAME, _VERSION), ("name", "version"), strict=False):
        if pattern.fullmatch(word) is None:
            raise CatalogError(f"{where}:{column}: '{printable(word)}' is no {what} of a Debian package")
    return DebianPackage(
        name=words[0][1],
        version=words[1][1],
        size=int(values["size"]),
        installed=int(values["installed"]),
        sha256=values["sha256"],
        suite=values["suite"],
        path=values["path"],
    )


def _values(words: Iterable[tuple[int, str]], where: str) -> Iterator[tuple[str, str]]:
    for (column, word), (name, pattern) in zip(words, _FIELDS.items(), strict=True):
        key, _, value = word.partition("=")
        if key != name:
            raise CatalogError(f"{where}:{column}: expected '{name}=…', got '{printable(word)}'; the form is «{_FORM}»")
        if pattern.fullmatch(value) is None:
            raise CatalogError(f"{where}:{column + len(key) + 1}: '{printable(value)}' is no {_EXPECTED[name]}")
        yield key, value


def _words(line: str) -> Iterator[tuple[int, str]]:
    for match in re.finditer(r"\S+", line):
        yield match.start() + 1, match.group()


_EXPECTED = {
    "size": "number of bytes",
    "installed": "number of bytes",
    "sha256": "SHA-256 (64 digits 0-9a-f)",
    "suite": "suite, like 'bookworm' or 'trixie-backports'",
    "path": "path of a package below a mirror, like 'pool/main/z/zlib/zlib1g_1.2.13_amd64.deb'",
}
