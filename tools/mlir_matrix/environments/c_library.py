"""Install the C library of a target as a package, which the first run builds and all action caches of a home share.

Its folder name has the digest of everything that determines its bytes: the packages that build it, the target and
``link_kit``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlir_matrix.actions.tools import link_kit
from mlir_matrix.base.digest import digest_file
from mlir_matrix.base.files import AT_ONCE, beside, holds, locked, unwritable
from mlir_matrix.environments.installed.integrity import UnpackedFile, damaged_files, remove, write_manifest
from mlir_matrix.environments.installed.prefix import OURS
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.package import folder_name

#: Increase it when the same inputs give a different folder.
_LAYOUT = 1
_FILE = "runtime.o"


@dataclass(frozen=True, kw_only=True)
class CLibrary:
    """The C library that ``link_kit`` builds for one target."""

    triple: str
    #: The identities of the packages that build it, sorted.
    built_by: tuple[tuple[str, ...], ...]

    #: Nothing to download: runs build it.
    archives = ()

    @classmethod
    def of(cls, triple: str, packages: Iterable[WheelPackage]) -> CLibrary:
        """Return the C library that these packages build for a target."""
        return cls(triple=triple, built_by=tuple(sorted(tuple(package.identity) for package in packages)))

    @property
    def label(self) -> str:
        return f"C library {self.triple}"

    @cached_property
    def folder(self) -> str:
        return folder_name("c-library", self.triple, _LAYOUT, self.built_by, digest_file(Path(link_kit.__file__)))

    def find(self, packages: Path) -> Path | None:
        """Return the path of the object, or None if it is missing or damaged."""
        folder = packages / self.folder
        return folder / _FILE if folder.is_dir() and not damaged_files(folder, thorough=True) else None

    @contextmanager
    def lock(self, packages: Path) -> Iterator[None]:
        """Lock its folder, or raise Cancelled while another process holds the lock."""
        path = packages / ".locks" / self.folder
        if holds(path):
            yield
        else:
            with locked(path, AT_ONCE):
                yield

    def install(self, packages: Path, built: Path) -> None:
        """Install a copy of the object ``built``, unless an undamaged one is installed. Raise InfrastructureError, Cancelled."""
        folder = packages / self.folder
        try:
            with self.lock(packages):
                if self.find(packages):
                    return
                remove(folder)
                with beside(folder) as scratch:
                    shutil.copyfile(built, scratch / _FILE)
                    (scratch / OURS).mkdir()
                    write_manifest(scratch, [UnpackedFile.of(scratch, scratch / _FILE)], {})
                    os.rename(scratch, folder)
        except OSError as error:
            raise unwritable(f"{self.label} cannot be installed", error) from None
