"""Load and check catalogs, or take them as an earlier command has kept them while none of their files has changed.

Reading and checking some 400 files of YAML would be half of the time of a short command. Where catalogs of the user have
changed, only the user's are read again. What is kept is a pickle in the user's own cache. That cache also has the program's
compiled code, so a pickle adds no risk.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.fingerprint import fingerprint_of, is_covered
from mlir_matrix.base.kept_file import KeptFile
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import Loader, load, read_first
from mlir_matrix.expand.checks.validate import validate

#: Kept files of a user: of each set of catalogs, and of the first one. This repository takes a megabyte.
_MOST = 9


class _Kept:
    """What an earlier command has made of folders, while none of their files has changed."""

    def __init__(self, home: Home, key: Sequence[object], folders: Sequence[str]) -> None:
        """``key`` names it, with the interpreter.

        Raise OSError if a folder is missing, or has links, which a fingerprint does not cover.
        """
        # ascii(), because names of files need not be UTF-8.
        name = digest_value(ascii([sys.executable, *key]))
        self._file = KeptFile(f"{home.cache}/kept-catalogs", f"{name}.pickle", _MOST)
        self._folders = folders
        self._sources = fingerprint_of(folders)
        self._state = self._sources.digest().encode()

    def read(self) -> Any:
        """Return it; None if there is none."""
        try:
            known, _, data = self._file.read().partition(b"\n")
        except (OSError, ValueError):
            return None
        if known != self._state:
            return None
        found = pickle.loads(data)  # noqa: S301 - a file of this user, which is not damaged
        with contextlib.suppress(OSError):
            os.utime(self._file.path)
        return found

    def write(self, made: object) -> None:
        """Keep what was made of the files, unless one may have changed meanwhile."""
        with contextlib.suppress(OSError):
            if self._sources.is_settled() and fingerprint_of(self._folders).digest().encode() == self._state:
                self._file.write(self._state + b"\n" + pickle.dumps(made, pickle.HIGHEST_PROTOCOL))


def load_catalog(roots: Sequence[Path], home: Home, *, stale_goldens: bool = False) -> Catalog:
    """Return checked catalogs: this repository first, then each of the user's. Raise CatalogError for their problems.

    ``stale_goldens``: accept stale goldens.
    """
    # A catalog shows its files as they are named.
    named, folders = list(map(str, roots)), list(map(os.path.abspath, roots))
    try:
        kept = _Kept(home, [named, folders, stale_goldens], folders)
    except OSError:
        return validate(load(roots, _first(roots, home)), stale_goldens=stale_goldens)
    found = kept.read()
    if found is not None:
        catalog: Catalog
        looked_for: dict[str, bool]
        catalog, looked_for = found
        if looked_for == {path: os.path.isdir(path) for path in looked_for}:
            return catalog
    catalog = validate(load(roots, _first(roots, home)), stale_goldens=stale_goldens)
    if _is_covered(catalog):
        kept.write((catalog, _looked_for(catalog)))
    return catalog


def _first(roots: Sequence[Path], home: Home) -> Loader | None:
    """Return what has read the first of several catalogs, which is kept, because those of a user change more often.

    None: it is the only one, or cannot be kept.
    """
    root = roots[0]
    if len(roots) == 1:
        return None
    folder = os.path.abspath(root)
    try:
        kept = _Kept(home, ["first", str(root), folder], [folder])
    except OSError:
        return None
    found: Loader | None = kept.read()
    if found is None:
        found = read_first(root)
        if not found.problems.found:
            kept.write(found)
    return found


def _is_covered(catalog: Catalog) -> bool:
    """Return whether the fingerprint covers all files of catalogs. Programs of a corpus may be in other folders."""
    for name, entry in catalog.corpora.items():
        corpus = entry.document
        if name in catalog.without_data:
            continue
        if corpus.folder is not None and not is_covered(f"{corpus.folder}/"):
            return False
        if not all(map(is_covered, corpus.beside)):
            return False
    return True


def _looked_for(catalog: Catalog) -> dict[str, bool]:
    """Return folders that may be anywhere in a catalog, and whether it found them: of corpora without programs, and of patches."""
    found: dict[str, bool] = {}
    for name, corpus in catalog.corpora.items():
        if name in catalog.without_data:
            folder = corpus.document.folder or "."
            found |= {str(root / folder): False for root in (corpus.root, *catalog.roots)}
    for component in catalog.components.values():
        build = component.document.build
        if build is not None and build.patches:
            found[str(component.root / build.patches)] = True
    return found
