"""Use the user's own build of a component (``--pin llvm=DIR``): a tree with programs, or Python packages.

Its bytes identify it, not its place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from mmap import ACCESS_READ, mmap
from pathlib import Path

from mlir_matrix.actions.sandbox.root import needed_by
from mlir_matrix.base.digest import digest_file, digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import printable
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.environments.host import HostProgram, HostTool, digest_together
from mlir_matrix.environments.own_packages import OWN_MARK, OwnBuild, OwnWheel, state_of
from mlir_matrix.environments.own_python import find_packages, find_wheel, is_virtual, modules_of
from mlir_matrix.environments.package import Provider
from mlir_matrix.environments.source.confined import confined_version

#: Folders of a tree that may hold programs.
_FOLDERS = ("bin", ".")
#: Symbols of programs that are built with a sanitizer.
_SANITIZER = re.compile(rb"\0__(asan|tsan|msan|ubsan)_(?:init|handle_)")
_VERSION = re.compile(r"\b(\d+(?:\.\d+)+)")


def find_build(entry: Entry[Component], pinned: str, home: Home) -> OwnBuild:
    """Return the user's own build of a component. Raise UsageError if there is none, or if it reports no version.

    Raise InfrastructureError if one of its programs does not start.
    """
    where = f"--pin {entry.name}={printable(pinned, 200)}"
    pinned = os.path.abspath(pinned)
    digests = _Digests(home.cache / "own-builds" / f"{digest_value([entry.name, pinned])[:16]}.json")
    if pinned.endswith(".whl"):
        found: OwnBuild | None = find_wheel(entry, where, pinned, digests.of, home.artifacts)
    elif not os.path.isdir(pinned):
        raise UsageError(f"{where}: there is no such folder; build it there again, or pin a release")
    else:
        # Programs of a virtual environment are scripts that import its packages.
        found = None if is_virtual(pinned) else _find_programs(entry, where, pinned, digests)
        found = found or find_packages(entry, where, pinned, digests.of)
    if found is None:
        tools, modules = entry.document.tools, modules_of(entry.document)
        missing = [f"none of {', '.join(tools)} is in this folder or its bin/"] if tools else []
        missing += [f"no package {' or '.join(modules)} is in this folder"] if modules else []
        nothing = (
            f"the component {entry.name} has no programs and no packages ('tools', 'modules' in {entry.source.file})"
        )
        raise UsageError(f"{where}: {', and '.join(missing) or nothing}")
    digests.keep()
    return found if isinstance(found, OwnWheel) else replace(found, seen=digests.seen)


def _find_programs(entry: Entry[Component], where: str, folder: str, digests: _Digests) -> HostTool | None:
    """Return the programs of a component in a tree, or None. Raise UsageError if they report no version."""
    places = [os.path.join(folder, each) for each in _FOLDERS]
    found = {
        name: os.path.normpath(f"{place}/{name}")
        for name in entry.document.tools
        for place in reversed(places)
        if os.access(f"{place}/{name}", os.X_OK) and os.path.isfile(f"{place}/{name}")
    }
    if not found:
        return None
    # Any program may load any library, so libraries of the tree and of the machine are part of its identity.
    together = {name: digest_together(needed_by(path), digests.of) for name, path in found.items()}
    versions = {name: digests.version(path, folder, together[name]) for name, path in found.items()}
    number = next((match[1] for text in versions.values() if (match := _VERSION.search(text))), None)
    if number is None:
        raise UsageError(f"{where}: {', '.join(found)} --version reports no version")
    programs = tuple(
        HostProgram(name=name, path=path, sha256=together[name], version=versions[name]) for name, path in found.items()
    )
    digest = digest_value([each.identity for each in programs])
    checks = ["assertions"] if any("with assertions" in each.version for each in programs) else []
    checks += sorted({name for each in programs for name in digests.sanitizers(os.path.realpath(each.path))})
    release = ".".join([f"{number}{OWN_MARK}{digest[:8]}", *checks])
    return HostTool(component=entry.name, release=release, programs=programs, pinned=folder)


def release_of_build(build: OwnBuild, component: Component) -> Release:
    """Return the release for a build, as component files would state it."""
    if isinstance(build, HostTool):
        names = tuple(program.name for program in build.programs)
        return Release(release=build.release, provider=Provider.HOST.value, durability="rolling", programs=names)
    # Its package may be that of MLIR's bindings, which then have what those of a release have.
    alike = next((each for each in reversed(component.releases) if each.bindings == build.module), None)
    of_wheel = {build.package.name: build.package.version} if isinstance(build, OwnWheel) else {}
    return Release(
        release=build.release,
        provider=Provider.PYPI.value if of_wheel else Provider.HOST.value,
        durability="rolling",
        distributions=of_wheel,
        bindings=alike.bindings if alike else None,
        carries=alike.carries if alike else (),
    )


class _Digests:
    """SHA-256 of files, kept by size and times."""

    def __init__(self, notes: Path) -> None:
        self._notes, self._known = notes, dict[str, list[object]]()
        with suppress(OSError, ValueError):
            kept = json.loads(notes.read_bytes())
            self._known = kept if isinstance(kept, dict) else {}
        self._used: dict[str, list[object]] = {}
        #: The states of the files, by path.
        self.seen: dict[str, list[object]] = {}

    def sanitizers(self, real: str) -> set[str]:
        """Return the sanitizers that a program was built with, by names in its symbol table: ``asan``, ``ubsan``."""

        def find() -> str:
            with open(real, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
                return " ".join({match[1].decode() for match in _SANITIZER.finditer(content)})

        return set(self._noted(f"{real}:sanitizers", [self.of(real)], find).split())

    def version(self, path: str, folder: str, digest: str) -> str:
        """Return the output of ``--version`` of a program, which runs once for each ``digest`` of all that it loads."""
        return self._noted(f"{path}:version", [digest], lambda: confined_version(path, folder))

    def of(self, real: str) -> str:
        """Return the digest of a file. Its path has no links."""
        state = self.seen[real] = state_of(real)
        return self._noted(real, state, lambda: digest_file(real))

    def _noted(self, key: str, state: list[object], make: Callable[[], str]) -> str:
        """Return what is noted for a state, or make and note it."""
        known = self._known.get(key)
        if not (isinstance(known, list) and known[:-1] == state):
            known = [*state, make()]
        self._used[key] = known
        return str(known[-1])

    def keep(self) -> None:
        with suppress(InfrastructureError):
            write_text(self._notes, json.dumps(self._used) + "\n")
