"""Name places in the files of catalogs: relative to their catalog, and where a code host shows them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Document
from mlir_matrix.environments.source.repository import GitError, Repository, local_folder

#: The remote repository of a clone, without user and password: its host, and its path there.
_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^/@]*@)?|[\w.-]+@(?=[^/:]+:))(?P<host>[\w-]+(?:\.[\w-]+)+)(?::\d+(?=/))?[/:]+(?P<path>[\w./~+-]+)"
)


def page_of_remote(remote: str) -> str:
    """Return the page of a remote repository on its code host; empty for a folder or a host without a domain."""
    found = _REMOTE.fullmatch(remote)
    if found is None:
        return ""
    path = found["path"].rstrip("/").removesuffix(".git")
    return f"https://{found['host']}/{path}" if "/" in path else ""


@dataclass(frozen=True)
class Clone:
    """The clone that a catalog is in: the folder on its code host at the commit, and the catalog's path in the clone."""

    page: str
    path: str
    #: Files of the catalog whose lines are not those of the commit.
    changed: frozenset[str]

    def url(self, file: str, line: str) -> str:
        """Return where the code host shows a line; ``file`` is relative to the catalog."""
        if not self.page or file in self.changed:
            return ""
        return f"{self.page}/{quote(os.path.normpath(f'{self.path}/{file}'))}#L{line}"


def clone_of(root: Path) -> Clone:
    folder = local_folder(str(root))
    unknown = Clone("", "", frozenset())
    # A catalog may contain a bare repository, with a configuration of strangers.
    if folder is None or folder.name != ".git":
        return unknown
    repository = Repository(str(root), folder)
    try:
        page = page_of_remote(repository.git("remote", "get-url", "origin").strip())
        commit = repository.commit("HEAD")
        changed = repository.files_since(commit, root.resolve())
    except (GitError, UsageError):
        return unknown
    path = os.path.relpath(root.resolve(), repository.top.resolve())
    return Clone(page and f"{page}/blob/{commit}", path, frozenset(changed))


@dataclass(frozen=True)
class CatalogPlaces:
    """The places of a catalog's files."""

    catalog: Catalog
    clones: dict[Path, Clone] = field(default_factory=dict)

    def relative(self, position: str) -> str:
        """Return a position relative to its catalog: no page names a folder of this machine."""
        for root in self.catalog.roots[1:]:
            if position.startswith(f"{root}/"):
                return position[len(f"{root}/") :]
        return position

    def url(self, entry: Entry[Document]) -> str:
        """Return where a code host shows an entry; empty if it is on none, or the file has changes."""
        clone = self.clones.get(entry.root)
        if clone is None:
            clone = self.clones[entry.root] = clone_of(entry.root)
        file, line, _ = self.relative(entry.source.position()).rsplit(":", 2)
        return clone.url(file, line)
