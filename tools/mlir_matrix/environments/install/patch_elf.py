"""Patch the programs of a prefix so that they use the prefix's loader and libraries at a fixed path.

Most programs are started through the loader and need no patch. Programs that start themselves again, or look for files beside
``/proc/self/exe``, would find the loader there: JDKs, container runtimes, PostgreSQL.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import check
from mlir_matrix.catalog.models.toolchains import PATCHER
from mlir_matrix.environments.installed.elf import Elf, read_elf
from mlir_matrix.environments.installed.integrity import UnpackedFile
from mlir_matrix.environments.installed.prefix import Prefix, check_place, no_loader
from mlir_matrix.environments.machine import HOST

_TIMEOUT = 60


def patch(
    root: Path,
    place: str,
    finish: str,
    prefix: Prefix,
    files: Sequence[UnpackedFile],
    *,
    patchelf: Path,
    cancelled: threading.Event,
) -> tuple[Prefix, list[UnpackedFile]]:
    """Patch a prefix in ``root`` that will be at ``place``; return its new description and files.

    Programs get the prefix's loader and the folders of its libraries. Libraries use the folders of the program, unless a RUNPATH
    overrides them; so libraries with a RUNPATH get the folders, too. Raise InfrastructureError, Cancelled.
    """
    check_place(place)
    found: dict[tuple[int, int], tuple[Path, Elf]] = {}
    changed: set[str] = set()
    for file in files:
        path = root / file.path
        elf = read_elf(path)
        # The loader itself needs no patch. Of several hard links, patching one is enough.
        if elf is not None and (elf.interpreted or elf.runpath) and path.name != HOST.loader:
            status = path.lstat()
            found[status.st_dev, status.st_ino] = (path, elf)
            changed.add(file.path)
    if any(elf.interpreted for _, elf in found.values()) and not prefix.loader:
        raise no_loader()
    work = partial(_patch, str(patchelf), root, place, prefix, cancelled)
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="patch") as pool:
        for _ in pool.map(work, found.values()):
            pass
    programs = {name: replace(program, loaded=False) for name, program in prefix.programs.items()}
    prefix = replace(prefix, programs=programs)
    if finish == "bazel":
        from mlir_matrix.environments.install import patch_bazel

        prefix, more = patch_bazel.finish(root, place, prefix)
        changed |= more
    return prefix, [UnpackedFile.of(root, root / file.path) if file.path in changed else file for file in files]


def _patch(
    patchelf: str, root: Path, place: str, prefix: Prefix, cancelled: threading.Event, found: tuple[Path, Elf]
) -> None:
    path, elf = found
    check(cancelled)
    own = _call(path, [patchelf, "--print-rpath", str(path)]).strip().split(":")
    # Keep folders relative to the file. Replace folders of the machine by those of the prefix.
    inside = {each: os.path.normpath(each).lstrip("/") for each in own if each.startswith("/")}
    kept = [
        f"{place}/{inside[each]}" if each in inside else each
        for each in own
        if each.startswith("$ORIGIN") or (each in inside and (root / inside[each]).is_dir())
    ]
    # RPATH instead of RUNPATH, because it also applies to libraries of libraries, and LD_LIBRARY_PATH does not override it.
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
        raise InfrastructureError(f"{path.name} cannot be patched; {PATCHER} reports: {done.stderr.strip()[-300:]}")
    return done.stdout
