"""Define the user's own builds of a component, which ``--pin`` names: programs, import packages, a wheel."""

from __future__ import annotations

import os
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component
from mlir_matrix.environments.host import HostTool, LocalPackage
from mlir_matrix.environments.lockfiles.wheels import WheelPackage

#: Between the version of a build and the digest of its files, in the name of its release.
OWN_MARK = "+own."


@dataclass(frozen=True, kw_only=True)
class OwnPackages(LocalPackage):
    """Import packages in a folder of the machine."""

    #: The option, for messages.
    where: str
    #: The folder for ``sys.path``.
    folder: str
    #: The wheel tags of interpreters that can import it.
    tags: tuple[str, ...]
    #: The distributions in the folder.
    distributions: frozenset[str]
    #: Files outside of the folder: those that it links to, and libraries.
    outside: tuple[str, ...]
    #: The import package of the component.
    module: str
    digest: str
    #: Whether who can change the project or a catalog can change them, too: only actions import them.
    foreign: bool = False

    @property
    def identity(self) -> list[str]:
        return [self.component, self.digest]


@dataclass(frozen=True, kw_only=True)
class OwnWheel:
    """A wheel of the machine, which is installed as a locked one is."""

    component: str
    release: str
    where: str
    pinned: str
    tags: tuple[str, ...]
    package: WheelPackage
    #: The distributions that it requires.
    requires: tuple[str, ...]
    module: str
    foreign: bool = False


OwnBuild = HostTool | OwnPackages | OwnWheel


def state_of(real: str) -> list[object]:
    """Return what changes with the content of a file. Raise OSError."""
    it = os.stat(real)
    return [it.st_size, it.st_mtime_ns, it.st_ctime_ns, it.st_ino]


def is_changed(build: LocalPackage) -> bool:
    """Return whether a file of a build has changed since it was digested."""
    try:
        return any(state_of(real) != state for real, state in build.seen.items())
    except OSError:
        return True


def names_of(component: Entry[Component]) -> set[str]:
    """Return the names of the distributions of a component, in all its releases."""
    named = {name for release in component.document.releases for name in release.distributions}
    return {canonicalize_name(name) for name in named or {component.document.distribution or component.name}}
