"""A prefix: programs with everything that they need, down to the C library, run by a loader of its own.

Nothing in it knows where it stands: it may be moved or copied, and another distribution may be around it. Programs are
run by ``LOADER --library-path … PROGRAM``, which is what the small scripts in ``.matrix/bin`` do for people.
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
from mlir_matrix.environments.install.elf import read_elf
from mlir_matrix.errors import CatalogError, InfrastructureError
from mlir_matrix.names import did_you_mean, printable

#: The folder in a prefix that holds our own files.
OURS = ".matrix"
_FILE = f"{OURS}/prefix.json"
_BIN = f"{OURS}/bin"
LOADER = "ld-linux-x86-64.so.2"
_LOADERS = ("lib64", "usr/lib64", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")
_LIBRARIES = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program of a prefix; ``loaded``: by the prefix's own loader. Others are linked statically, or scripts."""

    path: str
    loaded: bool


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """How programs of a prefix are run. All paths go from the prefix."""

    loader: str
    libraries: tuple[str, ...]
    programs: Mapping[str, Program]

    def argv(self, root: str, name: str) -> list[str]:
        """The words before a program's own arguments, for a prefix at ``root``. Raises CatalogError for no program of it."""
        program = self.programs.get(name)
        if program is None:
            hint = did_you_mean(name, self.programs)
            raise CatalogError(f"{os.path.basename(root)} has no program '{printable(name)}'{hint}")
        if not program.loaded:
            return [os.path.join(root, program.path)]
        if set(":;$") & set(root):
            raise InfrastructureError(
                f"{root}: the loader takes ':', ';' and '$' in the names of folders for something else; "
                "set MATRIX_HOME to a folder without them"
            )
        return by_loader(root, self.loader, self.libraries, program.path, name)


def command(folder: Path, program: str) -> list[str]:
    """The words by which a program of the prefix ``folder`` is run; its arguments come after them."""
    return read_prefix(folder).argv(os.path.abspath(folder), program)


def wrapper(folder: Path, program: str) -> Path:
    """The script that runs a program, for people and for what wants one path."""
    return folder / _BIN / program


@lru_cache(maxsize=64)
def read_prefix(folder: Path) -> Prefix:
    """How the programs of the prefix ``folder`` are run. Raises InfrastructureError where that is damaged."""
    try:
        value = json.loads((folder / _FILE).read_bytes())
        programs = {name: Program(**program) for name, program in value["programs"].items()}
        return Prefix(loader=value["loader"], libraries=tuple(value["libraries"]), programs=programs)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InfrastructureError(
            f"{folder} is damaged: {_FILE} cannot be read; remove the folder, it is made again"
        ) from None


def find_prefix(root: Path, folders: Sequence[str]) -> Prefix:
    """How the programs in ``folders`` of a new prefix are run."""
    programs = dict(find_programs(root, folders))
    loader = next((path for folder in _LOADERS if (root / (path := f"{folder}/{LOADER}")).is_file()), "")
    if not loader and any(program.loaded for program in programs.values()):
        raise InfrastructureError(f"the packages have no {LOADER}: the lock must have the C library, libc6, as well")
    if folders and not programs:
        raise InfrastructureError(f"the packages have no programs in {', '.join(folders)}; name the folders that have")
    return Prefix(loader=loader, libraries=tuple(_libraries(root, folders)), programs=programs)


def save_prefix(root: Path, prefix: Prefix) -> None:
    """Write down how the programs of a new prefix are run, and a script for each."""
    (root / _BIN).mkdir(parents=True, exist_ok=True)
    value = asdict(prefix)
    (root / _FILE).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for name in prefix.programs:
        path = root / _BIN / name
        path.write_text(script(prefix, name), encoding="utf-8", errors="surrogateescape")
        path.chmod(0o755)


def script(prefix: Prefix, name: str) -> str:
    """A shell script that runs a program from wherever the prefix stands."""
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


def find_programs(root: Path, folders: Sequence[str]) -> Iterator[tuple[str, Program]]:
    """The programs in some folders of a prefix, by name; of two that share one the first counts."""
    seen: set[str] = set()
    for folder in folders:
        for path in sorted((root / folder).iterdir()) if (root / folder).is_dir() else ():
            # Links lead inside of the prefix: that was made sure of. Plugins of a compiler are executable for no reason.
            if path.name not in seen and path.suffix != ".so" and path.is_file() and os.access(path, os.X_OK):
                seen.add(path.name)
                elf = read_elf(path)
                loaded = elf is not None and elf.interpreted
                yield path.name, Program(path=f"{folder}/{path.name}", loaded=loaded)


def _libraries(root: Path, folders: Iterable[str]) -> Iterator[str]:
    """Those of the programs themselves, then those of the system, as its loader would look for them."""
    beside = [f"{os.path.dirname(folder)}/lib" for folder in folders if os.path.dirname(folder) not in ("", "usr")]
    listed = [
        os.path.normpath(line.strip()).lstrip("/")
        for path in sorted((root / "etc/ld.so.conf.d").glob("*.conf"))
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.startswith("/")
    ]
    for folder in dict.fromkeys((*beside, *_LIBRARIES, *listed)):
        if (root / folder).is_dir() and not set(":;$") & set(folder):
            yield folder
