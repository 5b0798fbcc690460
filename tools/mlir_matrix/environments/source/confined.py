"""Isolate commands of a build: define the files that they see and may write."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from mlir_matrix.actions.runtime import confine
from mlir_matrix.actions.sandbox.isolation import PROCESSES
from mlir_matrix.actions.sandbox.root import needed_by
from mlir_matrix.environments.host import version_of
from mlir_matrix.environments.package import with_needs
from mlir_matrix.environments.source.command_lines import Command, Places

#: The machine's programs, libraries and headers; the stores of Nix and Guix.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
#: Files that say which program a name stands for, and where linkers search.
_SETTINGS = ("/etc/alternatives", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
#: Files for name resolution, and certificates of servers without the keys beside them.
_OF_NETWORK = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
    "/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki/ca-trust", "/etc/pki/tls/certs",
)  # fmt: skip
#: Processes and threads per core. A compilation takes a few processes, and a linker starts a thread for each core.
_PROCESSES_OF_CORE = 64


def confined(places: Places) -> Command:
    """Return the words that isolate a command of a build."""
    build = places.build
    # The user's own command may write to its checkout, as most makefiles do.
    writable = [places.temporary, places.objects, places.made, *([places.source] if build.command else [])]
    needs = [name for need in with_needs(build.needs) if (name := need.folder_for(""))]
    shown = [
        *_SYSTEM,
        *_SETTINGS,
        str(places.source),
        *(str(places.prefix(name)) for name in needs),
        *_programs(places),
    ]
    flags = []
    if build.network:
        shown += _OF_NETWORK
        flags.append("--network")
    if build.permissions.unconfined or build.is_own:
        flags.append("--unconfined")
    return _words(shown, map(str, writable), flags)


def _words(shown: Iterable[str], writable: Iterable[str], flags: Iterable[str]) -> list[str]:
    processes = max(PROCESSES, _PROCESSES_OF_CORE * len(os.sched_getaffinity(0)))
    words = [sys.executable, "-I", "-S", confine.__file__, "--processes", str(processes), *flags]
    words += [word for path in writable for word in ("--write", path)]
    return [*words, *(word for path in shown for word in ("--bind", path))]


def confined_version(path: str, folder: str, option: str = "--version") -> str:
    """Return the whole output of ``--version``, or of another option, of a program in a user's folder; empty if it fails.

    The folder may come from a stranger's pull request, by its ``matrix.yaml``: the program has no network, writes nowhere, and
    sees its folder and the system's. Where this machine cannot confine, it runs as it is. Raise InfrastructureError.
    """
    shown = dict.fromkeys([*_SYSTEM, *_SETTINGS, folder, *needed_by(path)])
    with tempfile.TemporaryDirectory() as scratch:
        text = version_of(path, _words(filter(os.path.exists, shown), [scratch], ["--unconfined"]), option)
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("not confined: "))


def is_of_system(path: str) -> bool:
    """Return whether a path is in a folder of the system."""
    return os.path.normpath(path).startswith(tuple(f"{folder}/" for folder in _SYSTEM))


def _programs(places: Places) -> Iterator[str]:
    """Yield the paths that programs outside the system's folders need: their prefixes, or else only their files."""
    compiler = places.build.compiler
    names = ["cmake", "ninja", *([] if compiler.folder else [compiler.c, compiler.cxx])]
    for program in filter(None, map(shutil.which, names)):
        files = [] if is_of_system(program) else list(needed_by(program))
        for path in map(Path, {*files, *map(os.path.realpath, files)}):
            prefix = path.parent.parent
            # /opt, a home and ~/.local contain more than one program's files, so they are not shown as a whole.
            is_shared = len(prefix.parts) < 3 or (Path.home() / ".local").is_relative_to(prefix)
            if not is_of_system(str(path)):
                yield str(path if is_shared else prefix)
