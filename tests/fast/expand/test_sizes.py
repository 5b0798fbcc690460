"""Workloads in another size: importers get it, hand-written programs get it where only their types have sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models import base
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector, Route
from mlir_matrix.expand.sizes import sized
from support.catalogs import catalog, entry

FRAMEWORKS = {
    "pytorch": "environment: e\nemits: {torch: pytorch.py}",
    "mlir": "environment: e\nemits: {linalg: linalg.mlir}\nfixed_shapes: true",
}
WORKLOAD = """\
description: d
dims: {M: 5, N: 7, K: 7}
sizes: {bench: {M: 512}, deep: {N: 64, K: 64}, wide: {N: 64}}
inputs: {x: {shape: [M, N], dtype: f32, formula: iota()}}
outputs: {y: {shape: [M, K], dtype: f32}}
"""


def make(tmp_path: Path, program: str = "func.func @main(%x: tensor<5x7xf32>) -> tensor<5x7xf32>") -> Catalog:
    made = catalog(frameworks=FRAMEWORKS)
    file = tmp_path / "linalg.mlir"
    file.write_text(program)
    workload = replace(
        entry("workloads", base.Workload, "w", WORKLOAD), files={"linalg.mlir": file, "pytorch.py": tmp_path / "p"}
    )
    return replace(made, workloads={**made.workloads, "w": workload})


def test_dimensions_change_and_goldens_are_computed(tmp_path: Path) -> None:
    found = sized(make(tmp_path), "bench")
    workload = found.workloads["w"]
    assert workload.document.dims == {"M": 512, "N": 7, "K": 7}
    assert workload.document.golden == "computed"
    assert workload.new_sizes == {5: 512}
    assert found.unsized == dict.fromkeys(("mlp", "softmax", "topk"), "it has no size 'bench'")
    assert found.workloads["mlp"] == make(tmp_path).workloads["mlp"]


@pytest.mark.parametrize(
    ("size", "program", "why"),
    [
        ("bench", "tensor<5x7xf32>", ""),
        ("deep", "tensor<5x7xf32>", ""),
        ("wide", "tensor<5x7xf32>", "two dimensions are 7, and only one of them becomes 64"),
        ("bench", "tensor<5x9xf32>", "the size 9 of a type is no dimension"),
        ("bench", "%n = arith.constant 5.0 : f32", "the number 5.0 may be a size that changes"),
    ],
)
def test_a_program_that_spells_more_than_types_is_unsupported(
    tmp_path: Path, size: str, program: str, why: str
) -> None:
    connector = Connector(sized(make(tmp_path, program), size))
    assert isinstance(connector.route("pytorch", "linalg-loops", "wasm", "w"), Route)
    route = connector.route("mlir", "linalg-loops", "wasm", "w")
    said = route.reason if isinstance(route, Unsupported) else ""
    assert said == (f"linalg.mlir of w spells its sizes and is not made in size '{size}': {why}" if why else "")


def test_an_unknown_size_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--size: .*'bnch'; did you mean 'bench'\?"):
        sized(make(tmp_path), "bnch")
    with pytest.raises(UsageError, match="no workload has sizes"):
        sized(catalog(), "bench")
