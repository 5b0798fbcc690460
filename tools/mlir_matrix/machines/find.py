"""Find the machine that an argument names: one of the catalogs, or a file."""

from __future__ import annotations

import os
from pathlib import Path

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.load import read_document
from mlir_matrix.catalog.messages import Problems
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.expand.checks.machines import validate_machine


def find_machine(catalog: Catalog, name: str) -> Entry[Machine]:
    """Return a machine by name, or that of a file (``FILE.yaml``). Raise UsageError or CatalogError."""
    if not is_file(name):
        if name not in catalog.machines:
            near = did_you_mean(name, catalog.machines)
            fix = near or "; make a file of it: matrix machine probe > matrix/machines/NAME.yaml"
            raise UsageError(f"there is no machine '{printable(name)}'{fix}")
        return catalog.machines[name]
    path = Path(name)
    problems = Problems()
    found = read_document(path, name, Machine, problems)
    problems.raise_if_any()
    assert found is not None
    source, document = found
    entry = Entry(name=path.stem, document=document, source=source, root=path.parent, folder=path.parent)
    validate_machine(catalog, entry)
    return entry


def is_file(name: str) -> bool:
    """Return whether an argument names a file rather than a machine of the catalogs."""
    return os.sep in name or name.endswith(".yaml")
