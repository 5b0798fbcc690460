"""Programs that are on PATH already: found by name, their version checked, known by their bytes and by what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from mlir_matrix.catalog.releases import number
from mlir_matrix.digest import digest_file, digest_value
from mlir_matrix.environments.package import Archive, Package

_TIMEOUT_S = 20
#: Of what a program says about its version, as people are told.
_LINE = 100


@dataclass(frozen=True, kw_only=True)
class HostProgram:
    """A program of the machine."""

    name: str
    #: By which it is run: what a link is called may matter to it.
    path: str
    sha256: str
    #: All that it says when asked for its version.
    version: str

    @property
    def identity(self) -> list[str]:
        """What of it belongs into a digest: not where it is."""
        return [self.name, self.sha256, self.version]


@dataclass(frozen=True, kw_only=True)
class HostTool:
    """A release of a component that the machine has."""

    component: str
    release: str
    programs: tuple[HostProgram, ...]

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.component} {self.release}"

    @cached_property
    def digest(self) -> str:
        """Address of its content."""
        return digest_value(["host", *(program.identity for program in self.programs)])

    @property
    def words(self) -> list[str]:
        """Its programs, as a worker's command line has them."""
        return [f"{program.name}@{self.release}={program.path}" for program in self.programs]

    @property
    def size(self) -> int:
        return 0

    @property
    def installed(self) -> int:
        return 0

    @property
    def identity(self) -> list[str]:
        return [self.component, self.digest]

    @property
    def needs(self) -> tuple[Package, ...]:
        return ()

    @property
    def archives(self) -> tuple[Archive, ...]:
        return ()

    def folder_for(self, tag: str) -> str:
        return ""


def find_tool(component: str, release: str, names: Sequence[str]) -> HostTool | str:
    """The release on this machine, or why it is not there and what would serve."""
    wanted = ".".join(map(str, number(release)))
    programs = []
    for name in names:
        program = find_program(name)
        serves = f"a program '{name}' on PATH whose --version says {wanted} would serve"
        if program is None:
            return f"{component} {release} is not on this machine: there is no program '{name}'; {serves}"
        if not _says(program.version, wanted):
            said = program.version.strip().splitlines()
            shown = f"says '{said[0][:_LINE]}'" if said else "does not say its version"
            return f"{component} {release} is not on this machine: {program.path} {shown}; {serves}"
        programs.append(program)
    if not programs:
        return f"{component} {release}: the component's file names no 'programs' to look for on PATH"
    return HostTool(component=component, release=release, programs=tuple(programs))


def find_program(name: str) -> HostProgram | None:
    """A program on PATH, asked for its version; None where there is none."""
    path = shutil.which(name)
    if path is None:
        return None
    path = os.path.abspath(path)
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
        sha256, version = _asked(path, real, status.st_size, status.st_mtime_ns)
    except OSError:
        return None
    return HostProgram(name=name, path=path, sha256=sha256, version=version)


@cache
def _asked(path: str, real: str, _size: int, _mtime_ns: int) -> tuple[str, str]:
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/")}
    try:
        done = subprocess.run(
            [path, "--version"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        said = done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
    except (OSError, subprocess.SubprocessError):
        said = ""
    return digest_file(real), said


def _says(version: str, wanted: str) -> bool:
    """Whether a number, or what begins with it, stands in a text: 3.11 in «Python 3.11.2», not in «13.11» or «3.110»."""
    return bool(wanted) and re.search(rf"(?<![\d.]){re.escape(wanted)}(?!\d)", version) is not None
