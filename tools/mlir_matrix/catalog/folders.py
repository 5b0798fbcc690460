"""List the files of a catalog's folders; refuse bad names and links that leave the catalog."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.names import NAME_LENGTH, is_name, printable, why_not_a_name
from mlir_matrix.catalog.messages import Problems

#: Files that editors, file managers and tools leave behind; they are ignored.
_LEFTOVER = re.compile(
    r".*~|\.#.*|#.*#|.*\.(?:sw[a-z]|bak|orig|rej|pyc)|.*\.\d+\.new|\.(?:DS_Store|gitignore|gitkeep|gitattributes|directory|idea|vscode)"
    r"|__pycache__|\.(?:mypy|ruff|pytest)_cache|Thumbs\.db|desktop\.ini"
)
#: Files that any folder may have and that are not read.
_COMPANIONS = frozenset(("README.md", "BUILD.bazel"))


@dataclass(frozen=True)
class Item:
    """A file or folder of a catalog."""

    name: str
    path: Path
    #: The path for messages.
    shown: str
    is_folder: bool


class Root:
    """One catalog folder. ``shown`` precedes the paths in messages; empty for this repository."""

    def __init__(self, path: Path, shown: str, problems: Problems) -> None:
        self.path = path
        self.problems = problems
        self._shown = shown
        self.real = os.path.realpath(path)

    def shown(self, *parts: str) -> str:
        """Return a path below this root for messages."""
        return "/".join((*((self._shown.rstrip("/"),) if self._shown else ()), *parts))

    def items(self, *parts: str) -> Iterator[Item]:
        """Return the items of a folder, sorted by name, without leftovers; none if the folder does not exist.

        Links that leave the root, and devices, sockets and the like are problems; they are left out.
        """
        if parts and not self._is_inside(*parts):
            return
        folder = self.path.joinpath(*parts)
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            self.problems.add(self.shown(*parts), f"cannot be read: {error.strerror}")
            return
        for entry in entries:
            if entry.name in _COMPANIONS or _LEFTOVER.fullmatch(entry.name):
                continue
            shown = self.shown(*parts, entry.name)
            if entry.is_symlink() and not self._link_stays(entry.path, shown):
                continue
            if not (entry.is_file() or entry.is_dir()):
                self.problems.add(shown, "is neither a file nor a folder")
                continue
            yield Item(entry.name, folder / entry.name, shown, entry.is_dir())

    def _is_inside(self, *parts: str) -> bool:
        """Return whether no folder on the path is a link that leaves the root."""
        path = self.path
        for index, part in enumerate(parts):
            path = path / part
            if path.is_symlink() and not self._link_stays(path, self.shown(*parts[: index + 1])):
                return False
        return True

    def _link_stays(self, path: os.PathLike[str] | str, shown: str) -> bool:
        try:
            real = os.path.realpath(path, strict=True)
        except OSError:
            self.problems.add(shown, "is a broken symbolic link")
            return False
        if os.path.commonpath((real, self.real)) != self.real:
            self.problems.add(shown, "is a symbolic link that leaves the catalog; put the file itself here")
            return False
        return True


def named(root: Root, item: Item, name: str) -> bool:
    """Return whether the name of an entry is valid; add a problem where not."""
    if is_name(name):
        return True
    if len(name) > NAME_LENGTH:
        root.problems.leave_out("names", item.shown, item.shown, why_not_a_name(name))
    else:
        root.problems.add(item.shown, why_not_a_name(name))
    return False


def stem(item: Item, ending: str, what: str, root: Root) -> str | None:
    """Return the name before ``ending`` of the file of an entry; None, and a problem, for any other item.

    ``what`` is the kind of entry with its article: ``a pipeline``.
    """
    right = f"{what} is a file NAME{ending}"
    if item.is_folder:
        root.problems.add(item.shown, f"is a folder, but {right}")
        return None
    base, dot, last = item.name.rpartition(".")
    if dot + last == ending:
        return base if named(root, item, base) else None
    close = {ending, ".yml", ".json", ".toml"} if ending == ".yaml" else {ending, ".txt"}
    meant = f"'{printable(base)}{ending}'" if base and (dot + last).lower() in close else ""
    root.problems.add(item.shown, f"is not read: {right}{f'; did you mean {meant}?' if meant else ''}")
    return None
