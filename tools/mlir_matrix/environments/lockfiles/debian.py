"""Lock files of Debian packages: one release of a component, each package with its hash and path.

The file is YAML::

    component: llvm
    release: "19.1.7"
    programs: [usr/lib/llvm-19/bin]    # folders of the prefix that hold programs
    in_place: patched                  # patch programs for the path of the prefix; or the component's 'finish'
    packages:
      zlib1g: {version: "1:1.2.13-1", size: 86688, installed: 171008, sha256: "…", suite: bookworm, path: pool/…}

Suite and path of a package may change; its name, version and hash are part of the digest of an environment.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import is_name, printable
from mlir_matrix.catalog.models.toolchains import Finish
from mlir_matrix.catalog.yaml_reader import Data, ScalarError, Source, parse, plain_scalar
from mlir_matrix.environments.lockfiles.wheels import locked_text
from mlir_matrix.environments.machine import HOST, Architecture
from mlir_matrix.environments.package import Archive, Package, folder_name

#: Increase it when the same lock file gives another prefix.
_LAYOUT = 1
#: The same for prefixes that are patched.
_PATCHED = 1

#: Debian's policy, sections 5.6.1 and 5.6.12.
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,100}")
_VERSION = re.compile(r"(?:[0-9]{1,9}:)?[0-9][A-Za-z0-9.+~-]{0,100}")
_HASH = re.compile(r"[0-9a-f]{64}")
_SUITE = re.compile(r"[a-z][a-z0-9-]{0,40}")
#: A path below a mirror. No segment begins with a dot, so none is '..'.
_PATH = re.compile(r"pool(?:/[A-Za-z0-9][A-Za-z0-9.+~_-]{0,150}){1,8}\.deb")
_MOST_BYTES = 10**13
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*(?:/[A-Za-z0-9][A-Za-z0-9.+_-]*){0,8}")
_PATCH = "patched"
_SUFFIX = f"-{HOST.platform}.yaml"
#: Scalars that every YAML reader takes as text, except words like 'no'.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9/._+~-]*")


@dataclass(frozen=True, kw_only=True, order=True)
class DebianPackage:
    """A locked package; ``installed`` is the number that the package states, rounded to KiB."""

    name: str
    version: str
    size: int
    installed: int
    sha256: str
    suite: str
    path: str

    @property
    def line(self) -> str:
        """Return the entry of the package in the lock file."""
        values = {name: getattr(self, name) for name in _FIELDS}
        # Always quoted, because YAML requires it for most of them.
        values |= {name: f'"{values[name]}"' for name in ("version", "sha256")}
        fields = (f"{name}: {value}" for name, value in (values | {"suite": _scalar(self.suite)}).items())
        return f"  {_scalar(self.name)}: {{{', '.join(fields)}}}"

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, kw_only=True)
class DebianRelease:
    """A release of a component, as packages."""

    component: str
    release: str
    packages: tuple[DebianPackage, ...]
    #: Folders of the prefix that hold its programs.
    programs: tuple[str, ...] = ()
    #: Whether its programs are patched for the path of the prefix.
    in_place: bool = False
    #: Further patches: a component's ``finish``.
    finish: str = ""
    #: The package of the program that patches.
    patcher: Package | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        return f"{self.component} {self.release}"

    @cached_property
    def digest(self) -> str:
        return digest_value(sorted([package.name, package.version, package.sha256] for package in self.packages))

    @cached_property
    def made(self) -> str:
        """Return the digest of the prefix; the order of ``programs`` matters for programs of the same name."""
        patched = [[_PATCHED, self.finish]] if self.in_place else []
        return digest_value([_LAYOUT, self.digest, list(self.programs), *patched])

    @cached_property
    def folder(self) -> str:
        # The patched programs depend on the program that patches them.
        patched = self.patcher.identity if self.patcher else []
        return folder_name(self.component, self.release, self.made, *patched)

    @property
    def size(self) -> int:
        return sum(package.size for package in self.packages)

    @property
    def installed(self) -> int:
        return sum(package.installed for package in self.packages)

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

    def text(self, *, made: datetime.date, platform: str = HOST.platform) -> str:
        """Return the content of the lock file."""
        other = "" if platform == HOST.platform else f" --platform {platform}"
        lines = [
            f"# Made by: matrix toolchain lock {self.component}@{self.release}{other} ({made.isoformat()})",
            f"component: {_scalar(self.component)}",
            f"release: {_scalar(self.release)}",
            *([f"programs: [{', '.join(map(_scalar, self.programs))}]"] if self.programs else []),
            *([f"in_place: {self.finish or _PATCH}"] if self.in_place else []),
            "packages:",
            *(package.line for package in sorted(self.packages)),
        ]
        return "\n".join(lines) + "\n"


def debian_lock_file(locks: Path, component: str, release: str, architecture: Architecture = HOST) -> Path:
    """Return the path of the lock file of a release."""
    return locks / f"{component}-{release}-{architecture.platform}.yaml"


def debian_lock_files(locks: Path, component: str = "*") -> list[Path]:
    """Return all lock files of a folder, or those whose names may be of a component."""
    return sorted(locks.glob(f"{component}-*{_SUFFIX}"))


def read_debian_lock(path: Path) -> DebianRelease:
    """Read a lock file strictly, because its values become URLs and folders. Raise CatalogError."""
    lock = parse_debian_lock(locked_text(path), str(path))
    name = debian_lock_file(path, lock.component, lock.release).name
    if path.name != name:
        raise CatalogError(
            f"{path}:1:1: locks {lock.component}@{lock.release}, which does not match its file name; rename it to {name}"
        )
    return lock


def parse_debian_lock(text: str, file: str) -> DebianRelease:
    """Parse a lock file, called ``file`` in messages; packages stay in its order. Raise CatalogError."""
    source = parse(text, file)
    data = dict(source.data)
    component, release = (
        _checked(source, data.pop(key, None), is_name, "a name", key) for key in ("component", "release")
    )
    programs = data.pop("programs", [])
    if not isinstance(programs, list):
        raise _wrong(source, programs, "a list of folders", "programs")
    folders = [
        _checked(source, folder, _FOLDER.fullmatch, "a folder of a prefix, like 'usr/bin'", "programs", index)
        for index, folder in enumerate(programs)
    ]
    finish = _finish(source, data.pop("in_place", ""))
    packages = data.pop("packages", None)
    if not isinstance(packages, dict) or not packages:
        raise _wrong(source, packages, "packages (NAME: {version: …, size: …, …})", "packages")
    for key in data:
        raise CatalogError(f"{source.position(key)}: unknown key '{printable(key)}'")
    return DebianRelease(
        component=component, release=release, packages=tuple(_packages(source, packages)), programs=tuple(folders),
        in_place="in_place" in source.data, finish=finish,
    )  # fmt: skip


def _finish(source: Source, value: Data) -> Finish | Literal[""]:
    """Return how a package is finished where it is installed; empty for one that is only patched, or not there."""
    known = get_args(Finish)
    if "in_place" in source.data and value not in (_PATCH, *known):
        raise _wrong(source, value, " or ".join((_PATCH, *known)), "in_place")
    return next((each for each in known if each == value), "")


def write_debian_lock(path: Path, lock: DebianRelease, *, made: datetime.date, platform: str = HOST.platform) -> None:
    """Write a lock file, sorted, with the command that makes it and the date."""
    write_text(path, lock.text(made=made, platform=platform))


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_BYTES


#: Fields of a package: what they must be, and in words.
_FIELDS: dict[str, tuple[Callable[[Any], object], str]] = {
    "version": (_VERSION.fullmatch, "a version of a Debian package"),
    "size": (_is_size, "a number of bytes"),
    "installed": (_is_size, "a number of bytes"),
    "sha256": (_HASH.fullmatch, "a SHA-256 (64 digits 0-9a-f)"),
    "suite": (_SUITE.fullmatch, "a suite, like 'bookworm' or 'trixie-backports'"),
    "path": (_PATH.fullmatch, "a path of a package below a mirror, like 'pool/main/z/zlib/zlib1g_1.2.13_amd64.deb'"),
}


def _packages(source: Source, packages: Mapping[str, object]) -> Iterator[DebianPackage]:
    for name, values in packages.items():
        place = ("packages", name)
        _checked(source, name, _NAME.fullmatch, "a name of a Debian package", *place)
        if not isinstance(values, dict) or values.keys() != _FIELDS.keys():
            raise CatalogError(f"{source.position(*place)}: expected '{printable(name)}' with {', '.join(_FIELDS)}")
        for key, (test, expected) in _FIELDS.items():
            _checked(source, values[key], test, expected, *place, key)
        yield DebianPackage(name=name, **values)


def _checked(source: Source, value: object, test: Callable[[Any], object], expected: str, *place: str | int) -> Any:
    if not isinstance(value, int if test is _is_size else str) or not test(value):
        raise _wrong(source, value, expected, *place)
    return value


def _wrong(source: Source, value: object, expected: str, *place: str | int) -> CatalogError:
    found = "nothing" if value is None else f"'{printable(str(value), 80)}'"
    return CatalogError(f"{source.position(*place)}: {place[0]}: expected {expected}, got {found}")


def _scalar(value: str | int) -> str:
    """Return a value as YAML, quoted if a reader might not take it as this text."""
    if isinstance(value, int):
        return str(value)
    try:
        plain = _PLAIN.fullmatch(value) is not None and plain_scalar(value) == value
    except ScalarError:
        plain = False
    return value if plain else json.dumps(value)
