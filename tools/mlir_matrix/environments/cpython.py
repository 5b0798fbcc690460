"""Debian's CPython in a prefix: for machines that have no interpreter that an environment's lock is for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.interpreter import Interpreter, version_of
from mlir_matrix.environments.lockfiles.debian import DebLock, deb_lock_file, read_deb_lock

COMPONENT = "cpython"
_RELEASE = re.compile(rf"{COMPONENT}-(\d+\.\d+\.\d+)-")


def find(tags: Sequence[str], folders: Sequence[Path]) -> Interpreter | None:
    """The newest locked interpreter for the first of these wheel tags that there is one for."""
    for tag in tags:
        for folder in folders:
            locks = [
                read_deb_lock(path)
                for release in _releases(folder, tag)
                if (path := deb_lock_file(folder, COMPONENT, release)).is_file()
            ]
            if locks:
                return of_lock(locks[-1])
    return None


def of_lock(lock: DebLock) -> Interpreter:
    """The interpreter that a prefix has, before it is there: locks say which C library it runs on."""
    libc = next((package.version for package in lock.packages if package.name == "libc6"), "unknown")
    return Interpreter(path="", version=lock.release, libc=f"glibc {libc.partition('-')[0]}", prefix=lock)


def _releases(folder: Path, tag: str) -> list[str]:
    wanted = f"{version_of(tag)}."
    found = {match[1] for path in folder.glob(f"{COMPONENT}-*.txt") if (match := _RELEASE.match(path.name))}
    return sorted((release for release in found if release.startswith(wanted)), key=number)
