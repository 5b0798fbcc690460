"""The fingerprint of what commands read before any action: catalogs, the program's own code, and the machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.base.fingerprint import Fingerprint, machine_identity

#: Folders of a catalog that a command may read; kernels are linked with the driver.
FOLDERS = ("matrix", "recipes", "toolchains", "containers", "golden", "tools/driver")
_PACKAGE = str(Path(__file__).resolve().parents[1])


def is_covered(path: str) -> bool:
    """Return whether a path, from the folder of a catalog, is below the folders that ``fingerprint_of`` covers."""
    return path.startswith(tuple(f"{folder}/" for folder in FOLDERS))


def fingerprint_of(roots: Sequence[str]) -> Fingerprint:
    """Return the fingerprint of what catalogs have in ``FOLDERS``, the names of the folders beside these, the program's own code,
    the interpreter with the packages it has, and the CPU. Raise OSError.
    """
    found = Fingerprint()
    found.add_value([list(map(os.path.realpath, roots)), machine_identity()])
    found.add_folder(_PACKAGE)
    for root in roots:
        found.add_names(root)
        for name in FOLDERS:
            found.add_folder(f"{root}/{name}")
    return found
