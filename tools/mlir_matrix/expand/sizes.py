"""Give workloads one of their other sizes, for example ``bench``.

Importers get the sizes of dimensions as parameters. Hand-written programs spell them in their types: those get the other sizes
there, if nothing else in them depends on a size. The expected outputs are computed by the reference, through the action cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mlir_matrix.actions.mlir.sizes import why_not_resizable
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import check_known
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Workload


def sized(catalog: Catalog, size: str) -> Catalog:
    """Return the catalog with workloads in the size of that name; ``unsized`` has those without it, which stay as they are.

    Raise UsageError if no workload has it.
    """
    known = {name for entry in catalog.workloads.values() for name in entry.document.sizes}
    if not known:
        raise UsageError(f"--size {size}: no workload has sizes; write sizes: {{{size}: {{…}}}} in a workload.yaml")
    check_known("size", [size], known, "--size: ")
    spelled = spelled_sources(catalog)
    changed = {
        name: _with_size(entry, size, spelled)
        for name, entry in catalog.workloads.items()
        if size in entry.document.sizes
    }
    unsized = dict.fromkeys(catalog.workloads.keys() - changed.keys(), f"it has no size '{size}'")
    workloads = {name: changed.get(name, entry) for name, entry in catalog.workloads.items()}
    return replace(catalog, workloads=workloads, unsized=unsized)


def spelled_sources(catalog: Catalog) -> set[str]:
    """Return the source files of frameworks whose sources spell sizes."""
    spelled = (each.document for each in catalog.frameworks.values() if each.document.fixed_shapes)
    return {file for framework in spelled for file in framework.emits.values()}


def new_sizes_of(before: Mapping[str, int], after: Mapping[str, int]) -> dict[int, int]:
    """Return by size of some dimensions the other one; of equal dimensions, that of the first."""
    new_sizes: dict[int, int] = {}
    for name, size in before.items():
        new_sizes.setdefault(size, after[name])
    return new_sizes


def why_not_resized(text: str, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return why a program cannot have other sizes in its types alone, as a clause; empty if it can."""
    new_sizes = new_sizes_of(before, after)
    for name, size in before.items():
        new = new_sizes[size]
        if new != after[name]:
            return f"two dimensions are {size}, and only one of them becomes {new}"
        if size == 1 and new != 1:
            return f"a dimension of size 1 becomes {new}, and sizes that stay may be 1, too"
    return why_not_resizable(text, new_sizes, before.values())


def _with_size(workload: Entry[Workload], size: str, spelled: set[str]) -> Entry[Workload]:
    """Return a workload in another size. ``spelled``: :func:`spelled_sources`."""
    document = workload.document
    dims = {**document.dims, **document.sizes[size]}
    fixed = {}
    files = [each.file for source in spelled for each in document.sources.get(source, ())]
    for file in sorted(workload.files.keys() & {*spelled, *files}):
        text = workload.files[file].read_text(encoding="utf-8", errors="replace")
        why = why_not_resized(text, document.dims, dims)
        if why:
            fixed[file] = f"{file} of {workload.name} spells its sizes and is not made in size '{size}': {why}"
    return replace(
        workload,
        document=document.model_copy(update={"dims": dims, "golden": "computed"}),
        new_sizes={before: after for before, after in new_sizes_of(document.dims, dims).items() if before != after},
        fixed=fixed,
    )
