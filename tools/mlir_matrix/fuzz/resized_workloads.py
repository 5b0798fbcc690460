"""Draw other sizes for workloads of the catalog, whose reference then says what is right in these."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlir_matrix.actions.mlir.sizes import resized
from mlir_matrix.base.files import write_file, write_text
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.catalog.yaml_reader import read
from mlir_matrix.expand.sizes import new_sizes_of, spelled_sources, why_not_resized
from mlir_matrix.fuzz.python_text import TORCH
from mlir_matrix.fuzz.structural import SIZES
from mlir_matrix.plan.parameters import seed_of_draw

#: How many workloads a round has.
_WORKLOADS = 16
#: How often a dimension changes. One that stays may be what another one rests on.
_CHANCE = 0.6
#: Keys of a workload that are for its own sizes.
_LEFT_OUT = ("sizes", "golden", "flops")


@dataclass(frozen=True)
class ResizedWorkload:
    """A workload of the catalog in other sizes. Its name is another one, so that its results are held to derived bounds."""

    #: Its name in the catalog.
    origin: str
    document: Mapping[str, Any]
    #: Its other files by name.
    files: Mapping[str, bytes]

    @property
    def operations(self) -> list[str]:
        """What tells it from others, as operations do for composed programs."""
        return [f"workload {self.origin}"]

    def with_inputs(self, draw: int) -> ResizedWorkload:
        """Return the workload with other elements in its inputs."""
        document = copy.deepcopy(dict(self.document))
        for declared in document["inputs"].values():
            declared["seed"] = seed_of_draw(declared.get("seed", 0), draw)
        return replace(self, document=document)

    def write(self, folder: Path) -> None:
        """Write its files into its folder of a catalog."""
        # As YAML, which knows no pairs of surrogates.
        write_text(folder / "workload.yaml", json.dumps(self.document, indent=1, ensure_ascii=False))
        for name, content in self.files.items():
            write_file(folder / name, content)


def draw_resized(catalog: Catalog, chance: random.Random) -> dict[str, ResizedWorkload]:
    """Return some workloads of PyTorch in other sizes, by their names in the catalog. Not all of these have a meaning."""
    spelled = spelled_sources(catalog)
    entries = [entry for _, entry in sorted(catalog.workloads.items()) if _is_resizable(entry)]
    return {
        entry.name: _resized_workload(entry, _draw_dims(entry.document, chance), spelled)
        for entry in chance.sample(entries, min(_WORKLOADS, len(entries)))
    }


def _is_resizable(entry: Entry[Workload]) -> bool:
    return TORCH in entry.files and bool(_independent_dims(entry.document))


def _independent_dims(document: Workload) -> list[str]:
    """Return the dimensions that may change without others.

    Where outputs have dimensions that no input has, such as those of a convolution, only those that both have.
    """
    inputs, outputs = _dims_of(document.inputs.values()), _dims_of(document.outputs.values())
    if outputs <= inputs:
        return [name for name in document.dims if name in inputs]
    return [name for name in document.dims if name in inputs & outputs]


def _dims_of(values: Iterable[Any]) -> set[str]:
    return {size for value in values for size in value.shape if isinstance(size, str)}


def _draw_dims(document: Workload, chance: random.Random) -> dict[str, int]:
    """Return the sizes of all dimensions, of which at least one has changed."""
    names = _independent_dims(document)
    changed = [name for name in names if chance.random() < _CHANCE]
    if not changed:
        changed = [chance.choice(names)]
    dims = dict(document.dims)
    for name in changed:
        dims[name] = chance.choice([size for size in SIZES if size != dims[name]])
    return dims


def _resized_workload(entry: Entry[Workload], dims: Mapping[str, int], spelled: Collection[str]) -> ResizedWorkload:
    written = read(entry.folder / "workload.yaml", entry.name).data
    document: dict[str, Any] = {key: value for key, value in written.items() if key not in _LEFT_OUT}
    files = _resized_files(entry, dims, spelled)
    variants = {source: files_of for source, files_of in document.get("sources", {}).items() if source in files}
    document |= {"dims": dict(dims), "golden": "computed", "sources": variants}
    return ResizedWorkload(origin=entry.name, document=document, files=files)


def _resized_files(entry: Entry[Workload], dims: Mapping[str, int], spelled: Collection[str]) -> dict[str, bytes]:
    """Return the files of a workload, without sources of which a file, or that of a variant, cannot have these sizes."""
    files = {name: path.read_bytes() for name, path in entry.files.items()}
    for source in sorted(files.keys() & spelled):
        variants = entry.document.sources.get(source, ())
        names = {source, *(variant.file for variant in variants)}
        changed = {name: _with_sizes(files[name], entry.document.dims, dims) for name in names}
        for name in names:
            del files[name]
        if all(changed.values()):
            files |= changed
    return files


def _with_sizes(source: bytes, before: Mapping[str, int], after: Mapping[str, int]) -> bytes:
    """Return a program with other sizes in its types; empty if that is not all that has to change, or it is no text."""
    try:
        text = source.decode()
    except UnicodeDecodeError:
        return b""
    if why_not_resized(text, before, after):
        return b""
    new_sizes = new_sizes_of(before, after)
    return resized(text, lambda size: new_sizes.get(size, size)).encode()
