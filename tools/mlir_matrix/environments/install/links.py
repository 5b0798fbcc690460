"""The symbolic links of a prefix: judged together, then made, none of them leading out.

A link that is harmless alone leads out with the help of another (``a`` to a folder deep down, ``b`` to ``a/../../..``).
So each is followed as the kernel would, over all links of all packages, and may at no point be above the prefix.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mlir_matrix.environments.install.debian_archive import BadArchive
from mlir_matrix.environments.install.unpack import UnpackedLink
from mlir_matrix.files import unwritable

_MOST_HOPS = 40


def make_links(prefix: Path, links: Iterable[UnpackedLink]) -> dict[str, str]:
    """Make the links; gives path and target of each. Raises BadArchive."""
    made: dict[str, UnpackedLink] = {}
    for link in links:
        other = made.setdefault(link.path, link)
        if other.target != link.target:
            raise BadArchive(link.archive, f"is another link than in {other.archive}", link.path)
    targets = {path: relative(path, link.target) for path, link in made.items()}
    for path, link in made.items():
        if leads_out(path, targets):
            raise BadArchive(link.archive, f"is a link that leads out of the prefix, to '{link.target}'", path)
    for path, link in made.items():
        place = os.path.join(prefix, path)
        if any(parent in targets for parent in _parents(path)):
            raise BadArchive(link.archive, "would be made through another link", path)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(targets[path], place)
        except (FileExistsError, NotADirectoryError):
            raise BadArchive(link.archive, "is a link where there is a file or a folder", path) from None
        except OSError as error:
            raise unwritable(f"{link.archive} cannot be unpacked", error) from None
    return targets


def relative(path: str, target: str) -> str:
    """The target as seen from the link. What is absolute begins at the prefix, as it would in a chroot."""
    if not target.startswith("/"):
        return target
    return os.path.relpath("/" + target.strip("/"), os.path.dirname("/" + path))


def leads_out(path: str, targets: Mapping[str, str]) -> bool:
    """Whether following the link ``path`` leads above the prefix, or nowhere at all."""
    waiting = path.split("/")[::-1]
    here: list[str] = []
    hops = 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return True
            here.pop()
            continue
        here.append(part)
        target = targets.get("/".join(here))
        if target is not None:
            hops += 1
            if hops > _MOST_HOPS or not target or target.startswith("/") or "\0" in target:
                return True
            here.pop()
            waiting.extend(target.split("/")[::-1])
    return False


def _parents(path: str) -> Iterable[str]:
    while path := path.rpartition("/")[0]:
        yield path
