"""The provider ``source``: a commit of a git repository, built here by CMake and Ninja into a prefix.

Where what it needs brings a compiler of its own, it is built by that, with that prefix's C library; otherwise by the
machine's. Programs that need prefixes are run by their loader, on their libraries: they may be newer than the machine's.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.releases import number
from mlir_matrix.digest import digest_value
from mlir_matrix.environments.host import find_program
from mlir_matrix.environments.install.integrity import damaged
from mlir_matrix.environments.install.prefix import read_prefix
from mlir_matrix.environments.lockfiles.debian import DebLock
from mlir_matrix.environments.package import Unit, Workshop, with_needs
from mlir_matrix.environments.providers import filled
from mlir_matrix.environments.source import commands
from mlir_matrix.environments.source.commands import Places
from mlir_matrix.environments.source.made import describe
from mlir_matrix.environments.source.process import Runner
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.events import PackageProgress
from mlir_matrix.files import locked, unwritable

if TYPE_CHECKING:
    from mlir_matrix.environments.fetch.artifacts import Artifacts
    from mlir_matrix.environments.interpreter import Interpreter

#: Raised when what is made of the same sources differs.
_LAYOUT = 1
_GXX = re.compile(r"g\+\+-\d+")
#: Of the script that linkers read as libc.so.
_LINKED = "lib64/ld-linux-x86-64.so.2"
_SYSTEM = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")
_SERVES = {
    "git": "a git on PATH",
    "cmake": "a cmake on PATH (Debian's package cmake; or pip install cmake)",
    "ninja": "a ninja on PATH (Debian's package ninja-build; or pip install ninja)",
}


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """What builds: of a prefix (its ``folder``, and programs of that), or the machine's (paths)."""

    c: str = ""
    cxx: str = ""
    folder: str = ""
    #: What it is, for the digest.
    identity: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SourceBuild:
    """A release that is built from its source."""

    component: str
    release: str
    repository: str
    commit: str
    #: Of the CMakeLists.txt.
    subfolder: str
    options: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    programs: tuple[str, ...]
    #: Variable of CMake, folder of what it needs, folder in there.
    variables: tuple[tuple[str, str, str], ...]
    needs: tuple[Unit, ...]
    compiler: Compiler

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.component} {self.release}"

    @cached_property
    def digest(self) -> str:
        """Address of its content, wherever the commit is found."""
        return digest_value(
            [
                _LAYOUT, self.commit, self.subfolder, self.options, self.targets, self.programs, self.variables,
                [[*need.identity, need.folder_for("")] for need in self.needs], self.compiler.identity,
            ]
        )  # fmt: skip

    @property
    def folder(self) -> str:
        """The name of the folder that is its prefix."""
        return f"{self.component}-{self.release}-{self.digest[:12]}"

    @cached_property
    def base(self) -> str:
        """The folder of the prefix whose loader runs its programs; empty: the machine's loader."""
        if self.compiler.folder:
            return self.compiler.folder
        found = [unit for unit in with_needs(self.needs) if isinstance(unit, DebLock)]
        return found[0].folder if found else ""

    @cached_property
    def libraries(self) -> tuple[tuple[str, str], ...]:
        """Folders of libraries of what it needs: folder of that, folder in there."""
        found = []
        for unit in with_needs(self.needs):
            programs = [folder for folder in getattr(unit, "programs", ()) if os.path.basename(folder) == "bin"]
            beside = [os.path.join(os.path.dirname(folder), "lib") for folder in programs]
            folders = dict.fromkeys(folder for folder in beside if folder != "usr/lib")
            if isinstance(unit, DebLock):
                folders |= dict.fromkeys(_SYSTEM)
            found += [(unit.folder_for(""), folder) for folder in folders]
        return tuple(found)

    # It is a unit.

    @property
    def size(self) -> int | None:
        return None

    @property
    def installed(self) -> int | None:
        return None

    @property
    def identity(self) -> list[str]:
        return [self.component, self.digest]

    def folder_for(self, tag: str) -> str:
        return self.folder

    def to_fetch(self, store: Artifacts) -> int:
        return 0

    def damage(self, folder: Path, *, thorough: bool) -> list[str]:
        return damaged(folder, thorough=thorough)

    def plan(self, packages: Path, cache: Path) -> Iterator[str]:
        return commands.dry_run(Places(packages, cache, self))

    def provide(self, workshop: Workshop, interpreter: Interpreter) -> None:
        if (workshop.packages / self.folder).is_dir():
            return
        self._check_tools()
        for need in self.needs:
            need.provide(workshop, interpreter)
        places = Places(workshop.packages, workshop.cache, self)
        self._check_compiler(places)
        try:
            with locked(workshop.packages / ".locks" / self.folder, workshop.cancelled):
                # Somebody else may have made it while we waited.
                if not (workshop.packages / self.folder).is_dir():
                    with _swept(places):
                        self._make(places, workshop)
        except OSError as error:
            raise unwritable(f"{self.label} cannot be built", error) from None

    def _check_tools(self) -> None:
        missing = [serves for name, serves in _SERVES.items() if shutil.which(name) is None]
        if not self.compiler.cxx:
            missing.append(
                "a C++ compiler on PATH (c++, g++ or clang++), or one in what it needs (a component of Debian packages "
                "with g++-12, libc6-dev and the folders of its programs)"
            )
        if missing:
            raise InfrastructureError(f"{self.label} cannot be built on this machine; it needs {'; '.join(missing)}")

    def _check_compiler(self, places: Places) -> None:
        if self.compiler.folder:
            prefix = places.prefix(self.compiler.folder)
            absent = [name for name in ("cc1plus", "as", "ld") if name not in read_prefix(prefix).programs]
            if absent:
                raise InfrastructureError(
                    f"{self.label} cannot be built by {self.compiler.cxx} of {self.compiler.folder}: its 'programs' name no "
                    f"folder that has {', '.join(absent)} (cc1plus is in usr/lib/gcc/x86_64-linux-gnu/12 or "
                    "usr/libexec/gcc/x86_64-linux-gnu/14)"
                )
            if not (prefix / _LINKED).is_file():
                raise InfrastructureError(
                    f"{self.label} cannot be built by {self.compiler.cxx} of {self.compiler.folder}: there is no {_LINKED}, by "
                    "which its C library is linked; since Debian 13 the package base-files has that link (name it in 'alone')"
                )

    def _make(self, places: Places, workshop: Workshop) -> None:
        def steps(done: int, total: int) -> None:
            workshop.listener(PackageProgress(package=self.label, received=done, total=total, building=True))

        steps(0, 0)
        places.log.unlink(missing_ok=True)
        runner = Runner(places.log, workshop.cancelled, steps)
        with locked(places.mirror.with_suffix(".lock"), workshop.cancelled):
            self._fetch(places, runner)
        for command in (*commands.checkout_commands(places), *commands.build_commands(places)):
            runner.run(command, f"{self.label} cannot be built")
        describe(places)
        os.rename(places.made, places.prefix(self.folder))

    def _fetch(self, places: Places, runner: Runner) -> None:
        """Have the commit in the mirror, whose lock we hold: locks of a git that was killed are nobody's."""
        for left in places.mirror.rglob("*.lock"):
            left.unlink(missing_ok=True)
        initialise, fetch = commands.mirror_commands(places)
        runner.run(initialise, f"{self.label} cannot be fetched")
        if runner.output(commands.has_commit_command(places)) is None:
            return
        if runner.output(fetch) is not None:
            runner.run(commands.whole_mirror_command(places), f"{self.repository} cannot be fetched")
            if runner.output(commands.has_commit_command(places)) is not None:
                raise InfrastructureError(f"{self.repository} has no commit {self.commit}")


@contextmanager
def _swept(places: Places) -> Iterator[None]:
    """Without what an earlier build left, and leaving nothing: we hold the lock."""
    for folder in (places.work, places.made):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        yield
    finally:
        for folder in (places.work, places.made):
            shutil.rmtree(folder, ignore_errors=True)


def source_build(entry: Entry[Component], release: Release, needs: Mapping[str, tuple[Unit, str]]) -> SourceBuild:
    """The build of a release; ``needs``: by component a unit and its release."""
    build = entry.document.build
    assert build is not None
    repository = build.repository
    if repository.startswith(("./", "../")):
        repository = os.path.normpath(entry.root / repository)
    variables = [
        (variable, needs[name][0].folder_for(""), filled([folder], needs[name][1])[0])
        for name, folders in build.needs.items()
        for variable, folder in folders.items()
    ]
    units = tuple(unit for unit, _ in needs.values())
    return SourceBuild(
        component=entry.name,
        release=release.release,
        repository=repository,
        commit=release.commit or "",
        subfolder=build.folder,
        options=tuple((name, _text(value)) for name, value in build.options.items()),
        targets=build.targets,
        programs=filled(entry.document.programs, release.release),
        variables=tuple(variables),
        needs=units,
        compiler=_compiler(units),
    )


def _text(value: object) -> str:
    return ("OFF", "ON")[value] if isinstance(value, bool) else str(value)


def _compiler(needs: tuple[Unit, ...]) -> Compiler:
    """That of what is needed, else the machine's; nothing where there is none."""
    for unit in with_needs(needs):
        found = [each.name for each in unit.packages if _GXX.fullmatch(each.name)] if isinstance(unit, DebLock) else []
        if found:
            name = max(found, key=lambda name: number(name.removeprefix("g++-")))
            identity = (*unit.identity, name)
            return Compiler(c=name.replace("g++", "gcc"), cxx=name, folder=unit.folder_for(""), identity=identity)
    for c, cxx in (("cc", "c++"), ("gcc", "g++"), ("clang", "clang++")):
        one, other = find_program(c), find_program(cxx)
        if one and other:
            return Compiler(c=one.path, cxx=other.path, identity=(*one.identity, *other.identity))
    return Compiler()
