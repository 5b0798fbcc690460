"""Load and check catalogs, or take them as an earlier command has kept them while none of their files has changed.

Reading and checking some 400 files of YAML would be half of the time of a short command. A kept catalog is a pickle in the
user's own cache. That cache also has the program's compiled code, so a pickle adds no risk.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.fingerprint import fingerprint_of, is_covered
from mlir_matrix.base.kept_file import KeptFile
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.expand.checks.validate import validate

#: Catalogs of a user that are kept; this repository's takes a megabyte.
_MOST = 8


def load_catalog(roots: Sequence[Path], home: Home, *, stale_goldens: bool = False) -> Catalog:
    """Return checked catalogs: this repository first, then each of the user's. Raise CatalogError for their problems.

    ``stale_goldens``: accept stale goldens.
    """
    folders = list(map(os.path.abspath, roots))
    # A catalog shows its files as they are named. ascii(), because names of files need not be UTF-8.
    name = digest_value(ascii([sys.executable, list(map(str, roots)), folders, stale_goldens]))
    file = KeptFile(f"{home.cache}/kept-catalogs", f"{name}.pickle", _MOST)
    try:
        sources = fingerprint_of(folders)
    except OSError:
        # A folder is missing, or has links, which a fingerprint does not cover.
        return validate(load(roots), stale_goldens=stale_goldens)
    state = sources.digest().encode()
    kept = _read(file, state)
    if kept is not None:
        return kept
    catalog = validate(load(roots), stale_goldens=stale_goldens)
    with contextlib.suppress(OSError):
        if _is_covered(catalog) and sources.is_settled() and fingerprint_of(folders).digest().encode() == state:
            data = pickle.dumps((catalog, _looked_for(catalog)), pickle.HIGHEST_PROTOCOL)
            file.write(state + b"\n" + data)
    return catalog


def _read(file: KeptFile, state: bytes) -> Catalog | None:
    """Return the kept catalog of a state; None if there is none."""
    try:
        known, _, data = file.read().partition(b"\n")
    except (OSError, ValueError):
        return None
    if known != state:
        return None
    catalog: Catalog
    looked_for: dict[str, bool]
    catalog, looked_for = pickle.loads(data)  # noqa: S301 - a file of this user, which is not damaged
    if looked_for != {path: os.path.isdir(path) for path in looked_for}:
        return None
    with contextlib.suppress(OSError):
        os.utime(file.path)
    return catalog


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
