"""Find programs on PATH, check their versions, and identify them by their bytes and version output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from mlir_matrix.actions.runtime.programs import not_loaded
from mlir_matrix.actions.sandbox.root import is_script, needed_by, utilities
from mlir_matrix.base.digest import digest_file, digest_value
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.package import Provider

_TIMEOUT_S = 20
#: Longest version output in a message.
_LINE = 100


@dataclass(frozen=True, kw_only=True)
class HostProgram:
    """A program of the machine."""

    name: str
    #: Links in it are not resolved, because a program may depend on the name by which it is started.
    path: str
    sha256: str
    #: The whole output of ``--version``.
    version: str

    @property
    def identity(self) -> list[str]:
        """Return its part of a digest, which has no path."""
        return [self.name, self.sha256, self.version]


@dataclass(frozen=True, kw_only=True)
class LocalPackage:
    """A release of a component that is on this machine already: nothing is fetched or installed."""

    component: str
    release: str
    #: Of the user's own build: the folder that is named, and the state of its files when they were digested, by path.
    pinned: str = field(default="", compare=False)
    seen: Mapping[str, Sequence[object]] = field(default_factory=dict, compare=False, repr=False)

    size = installed = 0
    needs = archives = ()

    @property
    def label(self) -> str:
        return f"{self.component} {self.release}"

    def folder_for(self, tag: str) -> str:
        return ""


@dataclass(frozen=True, kw_only=True)
class HostTool(LocalPackage):
    """A release of a component, from programs on PATH."""

    programs: tuple[HostProgram, ...]

    @cached_property
    def digest(self) -> str:
        return digest_value([Provider.HOST, *(program.identity for program in self.programs)])

    @property
    def words(self) -> list[str]:
        """Return its programs as a worker's command line has them."""
        return [f"{program.name}@{self.release}={program.path}" for program in self.programs]

    @property
    def identity(self) -> list[str]:
        return [self.component, self.digest]


def find_tool(component: str, release: str, names: Sequence[str]) -> HostTool | str:
    """Return the release on this machine, or the reason why it is unavailable."""
    wanted = ".".join(map(str, number(release)))
    programs = []
    for name in names:
        advice = f"put a '{name}' on PATH whose --version reports {wanted}"
        try:
            program = find_program(name)
        except InfrastructureError as error:
            return f"{component} {release} is not on this machine: {error}; {advice}"
        if program is None:
            return f"{component} {release} is not on this machine: no program '{name}' on PATH; {advice}"
        # Find 3.11 in «Python 3.11.2», but not in «13.11» or «3.110».
        if not wanted or re.search(rf"(?<![\d.]){re.escape(wanted)}(?!\d)", program.version) is None:
            output = program.version.strip().splitlines()
            shown = f"reports '{output[0][:_LINE]}'" if output else "reports no version"
            return f"{component} {release} is not on this machine: {program.path} {shown}; {advice}"
        programs.append(program)
    if not programs:
        return f"{component} {release} cannot be found on PATH: the component file names no 'programs'"
    return HostTool(component=component, release=release, programs=tuple(programs))


def find_program(name: str) -> HostProgram | None:
    """Find a program on PATH and run it for its version, or return None. Raise InfrastructureError if it does not start."""
    path = shutil.which(name)
    if path is None:
        return None
    path = os.path.abspath(path)
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
        sha256, version = _examined(path, real, status.st_size, status.st_mtime_ns)
    except OSError:
        return None
    return HostProgram(name=name, path=path, sha256=sha256, version=version)


@cache
def _examined(path: str, real: str, _size: int, _mtime_ns: int) -> tuple[str, str]:
    # A script is what it calls, too.
    digest = digest_together(needed_by(path)) if is_script(real) else digest_file(real)
    return digest, version_of(path)


def digest_together(paths: Iterable[str], digest_of: Callable[[str], str] = digest_file) -> str:
    """Return one digest of the files among these paths and their names. ``digest_of`` returns that of a path without links."""
    files = sorted(filter(os.path.isfile, set(paths)))
    return digest_value([[os.path.basename(file), digest_of(os.path.realpath(file))] for file in files])


@cache
def utilities_digest() -> str:
    """Return the digest of the programs that any script of this machine may call."""
    return digest_together(utilities())


def version_of(path: str, within: Sequence[str] = (), option: str = "--version") -> str:
    """Return the whole output of ``--version``, or of another option that prints; empty if the program fails.

    ``within``: the words that isolate the program. Raise InfrastructureError if it does not start.
    """
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/")}
    try:
        done = subprocess.run(
            [*within, path, option], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except OSError as error:
        raise InfrastructureError(f"{path} does not start: {error.strerror}") from error
    except subprocess.SubprocessError:
        return ""
    text = done.stdout.decode("utf-8", "replace")
    refused = f"error: {path}: "
    if within and text.startswith(refused):
        raise InfrastructureError(f"{path} does not start: {text.removeprefix(refused).strip()}")
    if why := not_loaded(done.returncode, text):
        raise InfrastructureError(f"a program does not start: {why}")
    return text if done.returncode == 0 else ""
