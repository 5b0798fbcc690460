"""Describe a prefix: programs with everything that they need, down to the C library and the loader that runs them.

No file in it depends on its path, so it can be moved or copied, also to another distribution. ``LOADER --library-path … PROGRAM``
runs a program; the scripts in ``.matrix/bin`` do that.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from mlir_matrix.actions.runtime.programs import by_loader
from mlir_matrix.base.errors import CatalogError, InfrastructureError
from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.environments.installed.elf import read_elf
from mlir_matrix.environments.machine import HOST

#: The folder in a prefix that holds our own files.
OURS = ".matrix"
_FILE = f"{OURS}/prefix.json"
_BIN = f"{OURS}/bin"


@dataclass(frozen=True, kw_only=True)
class PrefixProgram:
    """A program of a prefix. ``loaded``: it needs the prefix's loader; others are static, scripts or patched."""

    path: str
    loaded: bool


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """How to run the programs of a prefix. All paths are relative to it."""

    loader: str
    libraries: tuple[str, ...]
    programs: Mapping[str, PrefixProgram]
    #: Without a loader: the machine's files that the programs need.
    needed: tuple[str, ...] = ()

    def argv(self, root: str, name: str) -> list[str]:
        """Return a program's command line, for a prefix at ``root``. Raise CatalogError for an unknown program."""
        program = self.programs.get(name)
        if program is None:
            hint = did_you_mean(name, self.programs)
            raise CatalogError(f"{os.path.basename(root)} has no program '{printable(name)}'{hint}")
        if not program.loaded:
            return [os.path.join(root, program.path)]
        check_place(root)
        return by_loader(root, self.loader, self.libraries, program.path, name)


def check_place(place: str) -> None:
    """Raise InfrastructureError for a path that loaders cannot handle."""
    if set(":;$") & set(place):
        raise InfrastructureError(
            f"{place}: ':', ';' and '$' are special characters for the loader; set MATRIX_HOME to a folder without them"
        )


def wrapper(folder: Path, program: str) -> Path:
    """Return the path of the script that runs a program."""
    return folder / _BIN / program


@lru_cache(maxsize=64)
def read_prefix(folder: Path) -> Prefix:
    """Read how to run the programs of a prefix. Raise InfrastructureError if that file is damaged."""
    try:
        value = json.loads((folder / _FILE).read_bytes())
        programs = {name: PrefixProgram(**program) for name, program in value["programs"].items()}
        needed = tuple(value.get("needed", ()))
        return Prefix(loader=value["loader"], libraries=tuple(value["libraries"]), programs=programs, needed=needed)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InfrastructureError(
            f"{folder} is damaged: {_FILE} cannot be read; remove the folder, then it is installed again"
        ) from None


def find_prefix(root: Path, folders: Sequence[str]) -> Prefix:
    """Find the programs in ``folders`` of a new prefix, its loader and libraries. Raise InfrastructureError."""
    programs = dict(find_programs(root, folders))
    loader = next((path for path in HOST.loaders if (root / path).is_file()), "")
    if not loader and any(program.loaded for program in programs.values()):
        raise no_loader()
    if folders and not programs:
        where = ", ".join(folders)
        raise InfrastructureError(f"the packages have no programs in {where}; correct the component's 'programs'")
    return Prefix(loader=loader, libraries=tuple(_libraries(root, folders)), programs=programs)


def no_loader() -> InfrastructureError:
    return InfrastructureError(f"the packages have no {HOST.loader}; add the C library, libc6, to the lock file")


def save_prefix(root: Path, prefix: Prefix) -> None:
    """Write how to run the programs of a new prefix, and a script for each."""
    (root / _BIN).mkdir(parents=True, exist_ok=True)
    value = asdict(prefix)
    (root / _FILE).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for name in prefix.programs:
        path = root / _BIN / name
        path.write_text(script(prefix, name), encoding="utf-8", errors="surrogateescape")
        path.chmod(0o755)


def script(prefix: Prefix, name: str) -> str:
    """Return a shell script that runs a program, whatever the path of the prefix."""
    program = prefix.programs[name]
    path = f'"$prefix"/{shlex.quote(program.path)}'
    if program.loaded:
        libraries = ":".join(f'"$prefix"/{shlex.quote(folder)}' for folder in prefix.libraries)
        options = f"--inhibit-cache --argv0 {shlex.quote(name)} --library-path {libraries}"
        path = f'"$prefix"/{shlex.quote(prefix.loader)} {options} {path}'
    return f"""\
#!/bin/sh
# Runs a program of this prefix with the prefix's own libraries, wherever it stands.
here=$(readlink -f -- "$0") || exit 127
prefix=${{here%/*/*/*}}
exec {path} "$@"
"""


def find_programs(root: Path, folders: Sequence[str]) -> Iterator[tuple[str, PrefixProgram]]:
    """Yield the programs in some folders of a prefix by name; the first one of each name."""
    seen: set[str] = set()
    for folder in folders:
        for path in sorted((root / folder).iterdir()) if (root / folder).is_dir() else ():
            # Links lead inside of the prefix. Plugins of a compiler are executable files, but no programs.
            if path.name not in seen and path.suffix != ".so" and path.is_file() and os.access(path, os.X_OK):
                seen.add(path.name)
                elf = read_elf(path)
                loaded = elf is not None and elf.interpreted
                yield path.name, PrefixProgram(path=f"{folder}/{path.name}", loaded=loaded)


def _libraries(root: Path, folders: Iterable[str]) -> Iterator[str]:
    """Yield the folders of the programs' own libraries, then those of the system, in the loader's order."""
    beside = [f"{os.path.dirname(folder)}/lib" for folder in folders if os.path.dirname(folder) not in ("", "usr")]
    listed = [
        os.path.normpath(line.strip()).lstrip("/")
        for path in sorted((root / "etc/ld.so.conf.d").glob("*.conf"))
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.startswith("/")
    ]
    for folder in dict.fromkeys((*beside, *HOST.libraries, *listed)):
        if (root / folder).is_dir() and not set(":;$") & set(folder):
            yield folder
