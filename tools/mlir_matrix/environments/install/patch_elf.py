"""Patch the programs of a prefix so that they find the prefix's own loader and libraries at its place, which it cannot leave.

Most programs are run with the loader in front and stay as they were built. Those that start themselves once more, or look
for their files beside ``/proc/self/exe``, would find the loader there: JDKs, container runtimes, PostgreSQL.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from mlir_matrix.catalog.models.toolchains import PATCHER
from mlir_matrix.environments.install.elf import Elf, read_elf
from mlir_matrix.environments.install.prefix import LOADER, Prefix
from mlir_matrix.environments.install.unpack import UnpackedFile
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.files import check

_TIMEOUT = 60


def complete(
    root: Path,
    place: str,
    lock: DebianRelease,
    prefix: Prefix,
    files: Sequence[UnpackedFile],
    *,
    patchelf: Path,
    cancelled: threading.Event | None = None,
) -> tuple[Prefix, list[UnpackedFile]]:
    """Patch what was unpacked into ``root`` and will be at ``place``, and do what else its programs need.

    Gives how they are run, and all files as they are then. Raises InfrastructureError, Cancelled.
    """
    changed = patch(root, place, files, prefix, patchelf=patchelf, cancelled=cancelled)
    programs = {name: replace(program, loaded=False) for name, program in prefix.programs.items()}
    prefix = replace(prefix, programs=programs)
    if lock.finish == "bazel":
        from mlir_matrix.environments.install.patch_bazel import finish

        prefix, more = finish(root, place, prefix)
        changed |= more
    return prefix, [UnpackedFile.of(root, root / file.path) if file.path in changed else file for file in files]


def patch(
    root: Path,
    place: str,
    files: Iterable[UnpackedFile],
    prefix: Prefix,
    *,
    patchelf: Path,
    cancelled: threading.Event | None = None,
) -> set[str]:
    """Patch what is in ``root`` and will be at ``place``; gives the files that are changed by that.

    Programs get the prefix's loader and the folders of its libraries. Libraries go by what the program has; only where
    they have a RUNPATH, by which that no longer counts, they get these folders, too. Raises InfrastructureError, Cancelled.
    """
    if set(":;$") & set(place):
        raise InfrastructureError(
            f"{place}: the loader takes ':', ';' and '$' in the names of folders for something else; "
            "set MATRIX_HOME to a folder without them"
        )
    found: dict[tuple[int, int], tuple[Path, Elf]] = {}
    names: dict[tuple[int, int], set[str]] = {}
    for file in files:
        path = root / file.path
        elf = read_elf(path)
        # The loader loads itself, and is patched by nobody. Of hard links one is enough.
        if elf is not None and (elf.interpreted or elf.runpath) and path.name != LOADER:
            status = path.lstat()
            found[status.st_dev, status.st_ino] = (path, elf)
            names.setdefault((status.st_dev, status.st_ino), set()).add(file.path)
    if any(elf.interpreted for _, elf in found.values()) and not prefix.loader:
        raise InfrastructureError(f"the packages have no {LOADER}: the lock must have the C library, libc6, as well")
    work = partial(_patch, str(patchelf), root, place, prefix, cancelled)
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="patch") as pool:
        for _ in pool.map(work, found.values()):
            pass
    return set().union(*names.values())


def _patch(
    patchelf: str, root: Path, place: str, prefix: Prefix, cancelled: threading.Event | None, found: tuple[Path, Elf]
) -> None:
    path, elf = found
    check(cancelled)
    own = _call(path, [patchelf, "--print-rpath", str(path)]).strip().split(":")
    # What it says of places beside itself holds on; what it says of the machine's folders means the prefix's.
    inside = {each: os.path.normpath(each).lstrip("/") for each in own if each.startswith("/")}
    kept = [
        f"{place}/{inside[each]}" if each in inside else each
        for each in own
        if each.startswith("$ORIGIN") or (each in inside and (root / inside[each]).is_dir())
    ]
    # RPATH and not RUNPATH: it holds for the libraries of its libraries, too, and nothing in the environment changes it.
    libraries = [f"{place}/{folder}" for folder in prefix.libraries]
    words = ["--force-rpath", "--set-rpath", ":".join(dict.fromkeys([*kept, *libraries]))]
    if elf.interpreted:
        words += ["--set-interpreter", f"{place}/{prefix.loader}"]
    _call(path, [patchelf, *words, str(path)])


def _call(path: Path, command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"{path.name} cannot be patched: {error}") from None
    if done.returncode != 0:
        raise InfrastructureError(f"{path.name} cannot be patched; {PATCHER} says: {done.stderr.strip()[-300:]}")
    return done.stdout
