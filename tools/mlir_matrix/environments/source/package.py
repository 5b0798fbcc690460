"""Define source builds as values: a commit, its options, the packages it needs and its compiler."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlir_matrix.base.digest import digest_bytes, digest_value
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.host import find_program, utilities_digest
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.environments.machine import HOST
from mlir_matrix.environments.package import Package, filled, folder_name, with_needs
from mlir_matrix.environments.source.permissions import NONE, Permissions

#: Increase it when a build of the same sources gives other files. 2: lists the files of the machine that programs need.
_LAYOUT = 2
#: The mark between the number of a release that a bisection creates and the digits of its commit.
COMMIT_MARK = "+git."
#: The begin of a file's changes in a patch.
_DIFF = re.compile(rb"^(?:diff --git |--- [^\n]*\n\+\+\+ )", re.MULTILINE)
_GXX = re.compile(r"g\+\+-\d+")


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A C and C++ compiler: programs of the prefix ``folder``, or paths of the host's."""

    c: str = ""
    cxx: str = ""
    folder: str = ""
    #: Its part of the digest.
    identity: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SourceBuild:
    """A release that is built from its source."""

    component: str
    release: str
    repository: str
    commit: str
    #: Folder of the CMakeLists.txt.
    subfolder: str
    options: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    #: The command that ``sh`` runs instead of CMake and Ninja.
    command: str = ""
    #: Files of patches that are applied to the commit, in this order, and the digests of their diffs.
    patches: tuple[tuple[Path, str], ...] = ()
    programs: tuple[str, ...]
    #: CMake variable, folder of a needed package, folder in that.
    variables: tuple[tuple[str, str, str], ...]
    needs: tuple[Package, ...]
    compiler: Compiler
    #: Seconds for each command; None: no limit.
    timeout: float | None = None
    #: The position in the component's file that requests the network; empty if none does.
    network: str = ""
    permissions: Permissions = NONE

    size = installed = None
    archives = ()

    @property
    def label(self) -> str:
        return f"{self.component} {self.release}"

    @cached_property
    def digest(self) -> str:
        patched = [self.commit, *(digest for _, digest in self.patches)]
        return self._digest(digest_value(patched) if self.patches else self.commit)

    def _digest(self, of: str) -> str:
        by_command = [self.command, utilities_digest()] if self.command else []
        network = ["network"] if self.network else []
        return digest_value(
            [
                _LAYOUT, of, self.subfolder, self.options, self.targets, self.programs, self.variables,
                [[*need.identity, need.folder_for("")] for need in self.needs], self.compiler.identity,
                *by_command, *network,
            ]
        )  # fmt: skip

    @property
    def is_own(self) -> bool:
        """Return whether the operator's own command builds it."""
        return self.permissions.own == self.component

    @property
    def is_bisected(self) -> bool:
        """Return whether a bisection created this release. Then commits near it are built in the same folder."""
        return COMMIT_MARK in self.release

    @property
    def build_folder(self) -> str:
        """Return the name of the folder that builds of other commits share: repository and options determine it."""
        return f"{self.component}-{self._digest(self.repository)[:32]}"

    @property
    def folder(self) -> str:
        return folder_name(self.component, self.release, self.digest)

    @cached_property
    def base(self) -> str:
        """Return the folder of the prefix whose loader runs its programs; empty for the host's loader."""
        if self.compiler.folder:
            return self.compiler.folder
        found = [package for package in with_needs(self.needs) if isinstance(package, DebianRelease)]
        return found[0].folder if found else ""

    @cached_property
    def libraries(self) -> tuple[tuple[str, str], ...]:
        """Return the library folders of needed packages: folder of the package, folder in that."""
        found = []
        for package in with_needs(self.needs):
            programs = [folder for folder in getattr(package, "programs", ()) if os.path.basename(folder) == "bin"]
            beside = [os.path.join(os.path.dirname(folder), "lib") for folder in programs]
            folders = dict.fromkeys(folder for folder in beside if folder != "usr/lib")
            if isinstance(package, DebianRelease):
                folders |= dict.fromkeys(HOST.libraries)
            found += [(package.folder_for(""), folder) for folder in folders]
        return tuple(found)

    @property
    def identity(self) -> list[str]:
        return [self.component, self.digest]

    def folder_for(self, tag: str) -> str:
        return self.folder


def source_build(
    entry: Entry[Component], release: Release, needs: Mapping[str, tuple[Package, str]], permissions: Permissions
) -> SourceBuild:
    """Return the build of a release; ``needs``: package and release by component."""
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
    packages = tuple(package for package, _ in needs.values())
    return SourceBuild(
        component=entry.name,
        release=release.release,
        repository=repository,
        commit=release.commit or "",
        subfolder=build.folder,
        options=tuple(
            (name, str(value) if not isinstance(value, bool) else "ON" if value else "OFF")
            for name, value in build.options.items()
        ),
        targets=build.targets,
        command=build.command or "",
        patches=tuple(
            (path, digest_bytes(diff_of(path.read_bytes()))) for path in patch_files(entry.root, build.patches)
        ),
        programs=filled(release.programs or entry.document.programs, release.release),
        variables=tuple(variables),
        needs=packages,
        compiler=_compiler(packages),
        timeout=build.timeout,
        network=entry.source.position("build", "network") if build.network else "",
        permissions=permissions,
    )


def patch_files(root: Path, folder: str | None) -> list[Path]:
    """Return the patches of a folder that is relative to a catalog's root, in the order in which they are applied."""
    found = (root / folder).glob("*.patch") if folder else ()
    return sorted(path for path in found if path.is_file())


def diff_of(patch: bytes) -> bytes:
    """Return the part of a patch that changes files: what follows its message."""
    found = _DIFF.search(patch)
    return patch[found.start() :] if found else b""


def _compiler(needs: tuple[Package, ...]) -> Compiler:
    """Return the compiler of a needed package, else the host's; an empty one if there is none."""
    for package in with_needs(needs):
        debian = package.packages if isinstance(package, DebianRelease) else ()
        if found := [each.name for each in debian if _GXX.fullmatch(each.name)]:
            name = max(found, key=lambda name: number(name.removeprefix("g++-")))
            identity = (*package.identity, name)
            return Compiler(c=name.replace("g++", "gcc"), cxx=name, folder=package.folder_for(""), identity=identity)
    for c, cxx in (("cc", "c++"), ("gcc", "g++"), ("clang", "clang++")):
        one, other = find_program(c), find_program(cxx)
        if one and other:
            return Compiler(c=one.path, cxx=other.path, identity=(*one.identity, *other.identity))
    return Compiler()
