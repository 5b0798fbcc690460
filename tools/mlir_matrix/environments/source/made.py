"""What a build has made becomes a prefix: how its programs are run is found out, tried, and written down with its files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mlir_matrix.environments.install.integrity import write_manifest
from mlir_matrix.environments.install.prefix import Prefix, find_programs, read_prefix, save_prefix
from mlir_matrix.environments.install.unpack import OURS, UnpackedFile
from mlir_matrix.environments.source.commands import Places
from mlir_matrix.errors import InfrastructureError


def describe(places: Places) -> None:
    """Say in the new prefix how its programs are run, and what files it has. Raises InfrastructureError."""
    build, made = places.build, places.made
    folders = build.programs or ("bin",)
    programs = dict(find_programs(made, folders))
    if not programs:
        raise InfrastructureError(f"{build.label} was built, but there are no programs in {', '.join(folders)} of it")
    if build.base:
        # Prefixes stand side by side, so that a path from one to another holds wherever they are.
        loader = os.path.normpath(f"../{build.base}/{read_prefix(places.prefix(build.base)).loader}")
        prefix = Prefix(loader=loader, libraries=tuple(_libraries(places)), programs=programs)
        _try(places, prefix)
    else:
        by_machine = {name: replace(program, loaded=False) for name, program in programs.items()}
        prefix = Prefix(loader="", libraries=(), programs=by_machine)
    save_prefix(made, prefix)
    paths = [Path(folder, name) for folder, folders, names in os.walk(made) for name in (*folders, *names)]
    links = {path.relative_to(made).as_posix(): os.readlink(path) for path in paths if path.is_symlink()}
    files = (path for path in paths if path.is_file() and not path.is_symlink() and made / OURS not in path.parents)
    write_manifest(made, (UnpackedFile.of(made, path) for path in files), links)


def _libraries(places: Places) -> Iterator[str]:
    yield "lib"
    for unit in places.build.needs:
        name = unit.folder_for("")
        yield from (os.path.normpath(f"../{name}/{folder}") for folder in read_prefix(places.prefix(name)).libraries)


def _try(places: Places, prefix: Prefix) -> None:
    """Have the loader find all libraries of each program, and what these ask of each other."""
    for name, program in prefix.programs.items():
        if program.loaded:
            *words, path = prefix.argv(str(places.made), name)
            done = subprocess.run([*words, "--list", path], capture_output=True, text=True, check=False, env={})
            if done.returncode != 0:
                said = (done.stderr or done.stdout).strip().splitlines()
                raise InfrastructureError(
                    f"{places.build.label}: {name} was built but cannot be run on the libraries of {places.build.base}: "
                    f"{said[0] if said else 'the loader fails'}; a compiler among what it needs would build for them"
                )
