"""Source builds as values: a commit, its options, what it needs and what compiles it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.releases import number
from mlir_matrix.digest import digest_value
from mlir_matrix.environments.host import find_program
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.environments.package import Archive, Package, with_needs
from mlir_matrix.environments.releases import filled

#: Raised when a build of the same sources gives other files.
_LAYOUT = 1
_GXX = re.compile(r"g\+\+-\d+")
_SYSTEM = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")


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
    needs: tuple[Package, ...]
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
        found = [package for package in with_needs(self.needs) if isinstance(package, DebianRelease)]
        return found[0].folder if found else ""

    @cached_property
    def libraries(self) -> tuple[tuple[str, str], ...]:
        """Folders of libraries of what it needs: folder of that, folder in there."""
        found = []
        for package in with_needs(self.needs):
            programs = [folder for folder in getattr(package, "programs", ()) if os.path.basename(folder) == "bin"]
            beside = [os.path.join(os.path.dirname(folder), "lib") for folder in programs]
            folders = dict.fromkeys(folder for folder in beside if folder != "usr/lib")
            if isinstance(package, DebianRelease):
                folders |= dict.fromkeys(_SYSTEM)
            found += [(package.folder_for(""), folder) for folder in folders]
        return tuple(found)

    @property
    def size(self) -> int | None:
        return None

    @property
    def installed(self) -> int | None:
        return None

    @property
    def identity(self) -> list[str]:
        return [self.component, self.digest]

    @property
    def archives(self) -> tuple[Archive, ...]:
        return ()

    def folder_for(self, tag: str) -> str:
        return self.folder


def source_build(entry: Entry[Component], release: Release, needs: Mapping[str, tuple[Package, str]]) -> SourceBuild:
    """The build of a release; ``needs``: by component a package and its release."""
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
    units = tuple(package for package, _ in needs.values())
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


def _compiler(needs: tuple[Package, ...]) -> Compiler:
    """That of what is needed, else the machine's; nothing where there is none."""
    for package in with_needs(needs):
        found = (
            [each.name for each in package.packages if _GXX.fullmatch(each.name)]
            if isinstance(package, DebianRelease)
            else []
        )
        if found:
            name = max(found, key=lambda name: number(name.removeprefix("g++-")))
            identity = (*package.identity, name)
            return Compiler(c=name.replace("g++", "gcc"), cxx=name, folder=package.folder_for(""), identity=identity)
    for c, cxx in (("cc", "c++"), ("gcc", "g++"), ("clang", "clang++")):
        one, other = find_program(c), find_program(cxx)
        if one and other:
            return Compiler(c=one.path, cxx=other.path, identity=(*one.identity, *other.identity))
    return Compiler()
