"""Python interpreters for environments: the one that runs this program, others on PATH, or Debian's in a prefix."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.install.prefix import read_prefix
from mlir_matrix.environments.lockfiles.debian import (
    DebianRelease,
    debian_lock_file,
    debian_lock_files,
    read_debian_lock,
)

#: What environments are locked for; anything else is named in the reason of the tests that need it.
SUPPORTED = ("cp311", "cp312")

#: The component whose locked releases serve where this machine has no interpreter that does.
COMPONENT = "cpython"
_RELEASE = re.compile(rf"{COMPONENT}-(\d+\.\d+\.\d+)-")

_PROBE = (
    "import json,os,platform,sys;"
    "print(json.dumps([os.path.realpath(sys._base_executable or sys.executable),platform.python_version(),"
    "sys.implementation.name,os.confstr('CS_GNU_LIBC_VERSION') or 'musl']))"
)


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A CPython: its executable, its version (``3.11.7``) and the C library it runs on (``glibc 2.36``)."""

    path: str
    version: str
    libc: str
    #: What it is part of where it is not the machine's; ``path`` is empty, then.
    prefix: DebianRelease | None = None

    @property
    def tag(self) -> str:
        """The wheel tag, e.g. ``cp311``."""
        major, minor = self.version.split(".")[:2]
        return f"cp{major}{minor}"

    def identity(self) -> list[str]:
        """What of it belongs into an environment's digest."""
        own = [self.prefix.made] if self.prefix else []
        return ["cpython", self.version, self.libc, platform.machine(), *own]

    def command(self, store: Path, *, at: Path | None = None) -> list[str]:
        """The words that start it, where the folders of ``store`` are at ``at`` by then: here, unless it is said."""
        if self.prefix is None:
            return [self.path]
        root = (at or store) / self.prefix.folder
        words = read_prefix(store / self.prefix.folder).argv(os.path.abspath(root), f"python{version_of(self.tag)}")
        # It finds its library by where it is called from.
        words[words.index("--argv0") + 1] = words[-1]
        return words


def version_of(tag: str) -> str:
    """Of a wheel tag the version of Python: ``3.11`` of ``cp311``."""
    return f"{tag[2]}.{tag[3:]}"


def _libc_version() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (OSError, ValueError):
        return "musl"


@cache
def own() -> Interpreter:
    """The interpreter under the virtual environment that this program runs in."""
    path = os.path.realpath(getattr(sys, "_base_executable", sys.executable) or sys.executable)
    return Interpreter(path=path, version=platform.python_version(), libc=_libc_version())


@cache
def _probe(command: str) -> Interpreter | None:
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=20, check=True)
        executable, version, name, libc = map(str, json.loads(done.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        # A version manager's shim for a version that is not installed is on PATH but does not run.
        return None
    return Interpreter(path=executable, version=version, libc=libc) if name == "cpython" and "." in version else None


def find(tags: tuple[str, ...]) -> Interpreter | None:
    """An interpreter for one of these wheel tags, ours where it fits, else the first on PATH that runs."""
    if own().tag in tags:
        return own()
    for tag in tags:
        found = _probe(f"python{version_of(tag)}")
        if found is not None and found.tag == tag:
            return found
    return None


def find_locked(tags: Sequence[str], folders: Sequence[Path]) -> Interpreter | None:
    """Return the newest locked interpreter for the first of these wheel tags that has one."""
    for tag in tags:
        for folder in folders:
            locks = [
                read_debian_lock(path)
                for release in _releases(folder, tag)
                if (path := debian_lock_file(folder, COMPONENT, release)).is_file()
            ]
            if locks:
                return of_lock(locks[-1])
    return None


def of_lock(lock: DebianRelease) -> Interpreter:
    """Return the interpreter of a prefix that need not be installed: its lock file states its C library."""
    libc = next((package.version for package in lock.packages if package.name == "libc6"), "unknown")
    return Interpreter(path="", version=lock.release, libc=f"glibc {libc.partition('-')[0]}", prefix=lock)


def _releases(folder: Path, tag: str) -> list[str]:
    wanted = f"{version_of(tag)}."
    found = {match[1] for path in debian_lock_files(folder, COMPONENT) if (match := _RELEASE.match(path.name))}
    return sorted((release for release in found if release.startswith(wanted)), key=number)
