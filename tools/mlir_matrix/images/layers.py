"""The layers of an image: one with what a root needs to be one, then one for each folder of the store that an environment is of.

A layer depends on its folder's content alone, which its lock decides; so images of several environments share layers. What
a layer comes to is found out once, reading every byte, and kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from mlir_matrix.environments.install.integrity import FILE, damaged_files, settled
from mlir_matrix.environments.install.wheel_archive import left_by_installer, settled_record
from mlir_matrix.environments.package import Package
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.files import write_text
from mlir_matrix.images.tar import MTIME, Member, digest_of, members, size_of, text
from mlir_matrix.paths import Home

#: Where an image has what ``Home.packages`` has here: the same folders, by the same names.
PACKAGES = PurePosixPath("/matrix/packages")
#: Raise it when layers of the same folders come out otherwise.
FORMAT = 1
#: Folders that something is mounted on, or that are a working folder until then.
_EMPTY = ("dev", "etc", "matrix", "matrix/packages", "proc", "sys")
#: What programs that know no other place look for there: the loader, the C library.
_SYSTEM = ("bin", "lib", "lib64", "sbin", "usr")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One of an image's. ``digest`` (hexadecimal SHA-256) and ``size`` (bytes) are those of its archive."""

    label: str
    digest: str
    size: int
    #: The folder of the store that it has; empty for the first one.
    folder: str = ""


def root_members(interpreter: str, user: int) -> list[Member]:
    """The first layer: nothing but the way to the folder ``interpreter``, whose C library is the system's, and a user."""
    listed = [Member(path=path, folder=True) for path in _EMPTY]
    listed += [Member(path="tmp", mode=0o1777, folder=True), Member(path="work", folder=True, owner=user)]
    listed += [Member(path=name, mode=0o777, target=f"matrix/packages/{interpreter}/{name}") for name in _SYSTEM]
    listed.append(text("etc/passwd", f"root:x:0:0::/:/bin/false\nmatrix:x:{user}:{user}::/work:/bin/false\n"))
    listed.append(text("etc/group", f"root:x:0:\nmatrix:x:{user}:\n"))
    return sorted(listed, key=lambda member: member.path)


def root_layer(interpreter: str, user: int) -> Layer:
    """The first layer of the images whose interpreter is in the folder ``interpreter``."""
    listed = root_members(interpreter, user)
    return Layer(label="the root", digest=digest_of(listed), size=size_of(listed))


def unit_members(folder: Path) -> list[Member]:
    """The layer that has a folder of the store. Raises InfrastructureError for what has no place in one."""
    at = PACKAGES.relative_to("/") / folder.name
    edits: dict[str, Callable[[bytes], bytes] | None] = {FILE: partial(settled, mtime_s=MTIME)}
    # Whatever installed a wheel, and whenever.
    for path in folder.glob("*.dist-info/*"):
        name = path.relative_to(folder).as_posix()
        if path.name == "RECORD":
            edits[name] = settled_record
        elif left_by_installer(name):
            edits[name] = None
    return members(folder, str(at), edits)


def unit_layer(unit: Package, folder: str, home: Home) -> Layer:
    """The layer of a unit, which must be here unless its layer is known. Raises InfrastructureError where it is damaged."""
    return known(unit, folder, home) or measure(unit, folder, home)


def known(unit: Package, folder: str, home: Home) -> Layer | None:
    """A layer that was measured before, be its folder here or not."""
    try:
        value = json.loads(_note(folder, home).read_bytes())
        if value["format"] == FORMAT:
            return Layer(label=unit.label, folder=folder, digest=str(value["digest"]), size=int(value["size"]))
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None


def measure(unit: Package, folder: str, home: Home) -> Layer:
    """Find out what a unit's layer comes to, reading every byte twice: against its hashes, and as it will be sent."""
    place = home.packages / folder
    damaged: Sequence[str] = damaged_files(place, thorough=True) if place.is_dir() else ["its folder is missing"]
    if damaged:
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        raise InfrastructureError(
            f"{unit.label} is damaged ({damaged[0]}{more}): matrix toolchain verify takes it away, and it is made again"
        )
    listed = unit_members(place)
    found = Layer(label=unit.label, folder=folder, digest=digest_of(listed), size=size_of(listed))
    note = {"format": FORMAT, "digest": found.digest, "size": found.size}
    write_text(_note(folder, home), json.dumps(note) + "\n")
    return found


def _note(folder: str, home: Home) -> Path:
    return home.layers / f"{folder}.json"
