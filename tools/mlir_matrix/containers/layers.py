"""Layers of an image: one with the root's skeleton, then one per package of the environment.

A layer depends only on the content of its folder, so images of several environments share layers. Its digest is computed
once, which reads every byte, and kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.paths import Home
from mlir_matrix.base.text import first_few
from mlir_matrix.containers.tar import MTIME, Member, digest_of, members, size_of, text
from mlir_matrix.environments.install.wheel_archive import left_by_installer, settled_record
from mlir_matrix.environments.installed.integrity import FILE, damaged_files, settled
from mlir_matrix.environments.package import Package

#: The folder of an image that corresponds to ``Home.packages``, with the same names.
PACKAGES = PurePosixPath("/matrix/packages")
#: Raise it when the same folders give other layers.
FORMAT = 1
#: Mount points, and working folders until then.
_EMPTY = ("dev", "etc", "matrix", "matrix/packages", "proc", "sys")
#: Links for the loader and the C library, which programs expect here.
_SYSTEM = ("bin", "lib", "lib64", "sbin", "usr")


@dataclass(frozen=True, kw_only=True)
class ImageLayer:
    """One layer. ``digest`` (hexadecimal SHA-256) and ``size`` (bytes) are those of its archive."""

    label: str
    digest: str
    size: int
    #: Its folder among the packages; empty for the first layer.
    folder: str = ""


def root_members(interpreter: str, user: int) -> list[Member]:
    """Return the first layer: a user, and links to the C library in the folder ``interpreter``."""
    listed = [Member(path=path, folder=True) for path in _EMPTY]
    listed += [Member(path="tmp", mode=0o1777, folder=True), Member(path="work", folder=True, owner=user)]
    listed += [Member(path=name, mode=0o777, target=f"matrix/packages/{interpreter}/{name}") for name in _SYSTEM]
    listed.append(text("etc/passwd", f"root:x:0:0::/:/bin/false\nmatrix:x:{user}:{user}::/work:/bin/false\n"))
    listed.append(text("etc/group", f"root:x:0:\nmatrix:x:{user}:\n"))
    return sorted(listed, key=lambda member: member.path)


def root_layer(interpreter: str, user: int) -> ImageLayer:
    """Return the first layer of images with this interpreter."""
    listed = root_members(interpreter, user)
    return ImageLayer(label="the root", digest=digest_of(listed), size=size_of(listed))


def unit_members(folder: Path) -> list[Member]:
    """Return the layer of a package. Raise InfrastructureError for a file that no image can hold."""
    at = PACKAGES.relative_to("/") / folder.name
    edits: dict[str, Callable[[bytes], bytes] | None] = {FILE: partial(settled, mtime_s=MTIME)}
    # The same bytes whatever the installer and the time.
    for path in folder.glob("*.dist-info/*"):
        name = path.relative_to(folder).as_posix()
        if path.name == "RECORD":
            edits[name] = settled_record
        elif left_by_installer(name):
            edits[name] = None
    return members(folder, str(at), edits)


def unit_layer(unit: Package, folder: str, home: Home) -> ImageLayer:
    """Return the layer of a package, measured if unknown. Raise InfrastructureError if the package is damaged."""
    return known(unit, folder, home) or measure(unit, folder, home)


def known(unit: Package, folder: str, home: Home) -> ImageLayer | None:
    """Return a layer that was measured before, whether or not its folder exists."""
    try:
        value = json.loads(_note(folder, home).read_bytes())
        if value["format"] == FORMAT:
            return ImageLayer(label=unit.label, folder=folder, digest=str(value["digest"]), size=int(value["size"]))
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None


def measure(unit: Package, folder: str, home: Home) -> ImageLayer:
    """Compute a package's layer. Every byte is read twice: to check its hash, and for the archive. Raise InfrastructureError."""
    place = home.packages / folder
    damaged: Sequence[str] = ["its folder is missing"]
    if place.is_dir():
        damaged = damaged_files(place, thorough=True, archives=unit.archives)
    if damaged:
        raise InfrastructureError(
            f"{unit.label} is damaged ({first_few(damaged, 1)}); remove it by: matrix toolchain verify; "
            "then repeat this command, which installs it again"
        )
    listed = unit_members(place)
    found = ImageLayer(label=unit.label, folder=folder, digest=digest_of(listed), size=size_of(listed))
    note = {"format": FORMAT, "digest": found.digest, "size": found.size}
    write_text(_note(folder, home), json.dumps(note) + "\n")
    return found


def _note(folder: str, home: Home) -> Path:
    return home.layers / f"{folder}.json"
