"""Give workloads one of their other sizes, for example ``bench``.

Importers get the sizes of dimensions as parameters. Hand-written programs spell them in their types: those get the other sizes
there, if nothing else in them depends on a size. The expected outputs are computed by the reference, through the action cache.
"""

from __future__ import annotations

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
    spelled = {
        file
        for framework in catalog.frameworks.values()
        if framework.document.fixed_shapes
        for file in framework.document.emits.values()
    }
    changed = {
        name: _with_size(entry, size, spelled)
        for name, entry in catalog.workloads.items()
        if size in entry.document.sizes
    }
    unsized = dict.fromkeys(catalog.workloads.keys() - changed.keys(), f"it has no size '{size}'")
    workloads = {name: changed.get(name, entry) for name, entry in catalog.workloads.items()}
    return replace(catalog, workloads=workloads, unsized=unsized)


def _with_size(workload: Entry[Workload], size: str, spelled: set[str]) -> Entry[Workload]:
    """Return a workload in another size. ``spelled``: the files of frameworks whose sources spell sizes."""
    document = workload.document
    dims = {**document.dims, **document.sizes[size]}
    new_sizes: dict[int, int] = {}
    ambiguous = ""
    for name, before in document.dims.items():
        after = new_sizes.setdefault(before, dims[name])
        if after != dims[name] and not ambiguous:
            ambiguous = f"two dimensions are {before}, and only one of them becomes {after}"
    fixed = {}
    files = [each.file for source in spelled for each in document.sources.get(source, ())]
    for file in sorted(workload.files.keys() & {*spelled, *files}):
        text = workload.files[file].read_text(encoding="utf-8", errors="replace")
        why = ambiguous or why_not_resizable(text, new_sizes, document.dims.values())
        if why:
            fixed[file] = f"{file} of {workload.name} spells its sizes and is not made in size '{size}': {why}"
    return replace(
        workload,
        document=document.model_copy(update={"dims": dims, "golden": "computed"}),
        new_sizes={before: after for before, after in new_sizes.items() if before != after},
        fixed=fixed,
    )
