"""Use the user's own build of a component (``--pin llvm=DIR``): an install tree or a build tree, identified by its bytes."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path

from mlir_matrix.actions.sandbox.root import needed_by
from mlir_matrix.base.digest import digest_file, digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import printable
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.environments.host import HostProgram, HostTool, digest_together, version_of
from mlir_matrix.environments.package import Provider

#: Folders of a tree that may hold programs.
_FOLDERS = ("bin", ".")
_VERSION = re.compile(r"\b(\d+(?:\.\d+)+)")
#: Between the version of a build and the digest of its files, in the name of its release.
OWN_MARK = "+own."


def find_build(entry: Entry[Component], folder: str, notes: Path) -> HostTool:
    """Return the programs of a component in a tree. Raise UsageError if there are none, or where they report no version.

    Raise InfrastructureError if one does not start.
    ``notes`` is a file with known digests by size and change time, because debug builds have gigabytes.
    """
    where = f"--pin {entry.name}={printable(folder)}"
    if not entry.document.tools:
        raise UsageError(f"{where}: the component {entry.name} has no programs ('tools' in {entry.source.file})")
    if not os.path.isdir(folder):
        raise UsageError(f"{where}: there is no such folder")
    places = [os.path.abspath(os.path.join(folder, each)) for each in _FOLDERS]
    found = {
        name: f"{place}/{name}"
        for name in entry.document.tools
        for place in reversed(places)
        if os.access(f"{place}/{name}", os.X_OK) and os.path.isfile(f"{place}/{name}")
    }
    if not found:
        raise UsageError(f"{where}: none of {', '.join(entry.document.tools)} is in this folder or its bin/")
    digests = _Digests(notes)
    versions = {name: version_of(path) for name, path in found.items()}
    number = next((match[1] for text in versions.values() if (match := _VERSION.search(text))), None)
    if number is None:
        raise UsageError(f"{where}: {', '.join(found)} --version reports no version")
    # Any program may load any library, so libraries of the tree and of the machine are part of its identity.
    programs = tuple(
        HostProgram(name=name, path=path, sha256=digest_together(needed_by(path), digests.of), version=versions[name])
        for name, path in found.items()
    )
    digests.keep()
    digest = digest_value([each.identity for each in programs])
    return HostTool(component=entry.name, release=f"{number}{OWN_MARK}{digest[:8]}", programs=programs)


def release_of_build(build: HostTool) -> Release:
    """Return the release for a build, as component files would state it."""
    names = tuple(program.name for program in build.programs)
    return Release(release=build.release, provider=Provider.HOST.value, durability="rolling", programs=names)


class _Digests:
    """SHA-256 of files, kept by size and times."""

    def __init__(self, notes: Path) -> None:
        self._notes, self._known = notes, dict[str, list[object]]()
        with suppress(OSError, ValueError):
            kept = json.loads(notes.read_bytes())
            self._known = kept if isinstance(kept, dict) else {}
        self._used: dict[str, list[object]] = {}

    def of(self, real: str) -> str:
        """Return the digest of a file. Its path has no links."""
        it = os.stat(real)
        state = [it.st_size, it.st_mtime_ns, it.st_ctime_ns, it.st_ino]
        known = self._known.get(real)
        if not (isinstance(known, list) and known[:-1] == state):
            known = [*state, digest_file(real)]
        self._used[real] = known
        return str(known[-1])

    def keep(self) -> None:
        with suppress(InfrastructureError):
            write_text(self._notes, json.dumps(self._used) + "\n")
