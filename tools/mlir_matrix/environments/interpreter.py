"""Find a Python interpreter for an environment: our own, another one on PATH, or Debian's in a prefix."""

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
from mlir_matrix.environments.installed.prefix import read_prefix
from mlir_matrix.environments.lockfiles.debian import (
    DebianRelease,
    debian_lock_file,
    debian_lock_files,
    read_debian_lock,
)
from mlir_matrix.environments.machine import HOST

#: Wheel tags that environments are locked for.
SUPPORTED = ("cp311", "cp312", "cp313", "cp314")

#: The component that is used if no interpreter of this machine fits.
COMPONENT = "cpython"
_RELEASE = re.compile(rf"{COMPONENT}-(\d+\.\d+\.\d+)-{HOST.platform}\.yaml")

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
    #: Its prefix, unless it is the host's; ``path`` is then empty.
    prefix: DebianRelease | None = None

    @property
    def tag(self) -> str:
        """Return the wheel tag, e.g. ``cp311``."""
        major, minor = self.version.split(".")[:2]
        return f"cp{major}{minor}"

    def identity(self) -> list[str]:
        """Return its part of an environment's digest."""
        own = [self.prefix.made] if self.prefix else []
        return ["cpython", self.version, self.libc, HOST.name, *own]

    def command(self, store: Path, *, at: Path | None = None) -> list[str]:
        """Return its command line; ``at``: where the packages in ``store`` are mounted when it runs."""
        if self.prefix is None:
            return [self.path]
        root = (at or store) / self.prefix.folder
        words = read_prefix(store / self.prefix.folder).argv(os.path.abspath(root), f"python{version_of(self.tag)}")
        # Python finds its library by argv[0].
        words[words.index("--argv0") + 1] = words[-1]
        return words


def version_of(tag: str) -> str:
    """Return the version of Python of a wheel tag: ``3.11`` of ``cp311``."""
    return f"{tag[2]}.{tag[3:]}"


@cache
def own() -> Interpreter:
    """Return the base interpreter of the virtual environment that this program runs in."""
    path = os.path.realpath(getattr(sys, "_base_executable", sys.executable) or sys.executable)
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (OSError, ValueError):
        libc = "musl"
    return Interpreter(path=path, version=platform.python_version(), libc=libc)


@cache
def _probe(command: str) -> Interpreter | None:
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=20, check=True)
        executable, version, name, libc = map(str, json.loads(done.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        # For example, it is a version manager's shim for a version that is not installed.
        return None
    return Interpreter(path=executable, version=version, libc=libc) if name == "cpython" and "." in version else None


def find(tags: tuple[str, ...]) -> Interpreter | None:
    """Return an interpreter for one of these wheel tags: our own, else the first on PATH that runs."""
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
            matches = (_RELEASE.fullmatch(path.name) for path in debian_lock_files(folder, COMPONENT) if path.is_file())
            releases = [match[1] for match in matches if match and match[1].startswith(f"{version_of(tag)}.")]
            if releases:
                lock = read_debian_lock(debian_lock_file(folder, COMPONENT, max(releases, key=number)))
                # The prefix need not be installed: the lock file states its C library.
                libc = next((package.version for package in lock.packages if package.name == "libc6"), "unknown")
                return Interpreter(path="", version=lock.release, libc=f"glibc {libc.partition('-')[0]}", prefix=lock)
    return None
