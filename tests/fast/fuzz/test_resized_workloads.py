"""Workloads of the catalog in other sizes are workloads of a catalog."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from mlir_matrix.base.paths import find_home
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.environments.session import Session
from mlir_matrix.fuzz import resized_workloads
from mlir_matrix.fuzz.programs import write_programs
from mlir_matrix.fuzz.resized_workloads import ResizedWorkload, draw_resized
from mlir_matrix.plan.session import session_of
from support.downstream import Downstream

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def drawn(current: Session) -> dict[str, ResizedWorkload]:
    """All workloads that can have other sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resized_workloads, "_WORKLOADS", len(current.catalog.workloads))
        return draw_resized(current.catalog, random.Random("0"))


def test_resized_workloads_are_a_catalog(current: Session, drawn: dict[str, ResizedWorkload], tmp_path: Path) -> None:
    write_programs(tmp_path, {f"r-{name}": each for name, each in drawn.items()}, ())
    catalog = session_of([ROOT, tmp_path], find_home()).catalog
    assert len(drawn) > 40
    for name, each in drawn.items():
        document = catalog.workloads[f"r-{name}"].document
        assert document.dims == each.document["dims"]
        assert document.dims.keys() == current.catalog.workloads[name].document.dims.keys()
        assert document.golden == "computed"


def test_sizes_that_outputs_have_alone_follow_from_others(current: Session, drawn: dict[str, ResizedWorkload]) -> None:
    before, after = current.catalog.workloads["conv2d"].document.dims, drawn["conv2d"].document["dims"]
    assert {name for name in before if before[name] != after[name]} <= {"N", "F"}


def draw(catalog: Catalog, name: str, dims: Mapping[str, int]) -> ResizedWorkload:
    """Return a workload in these sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resized_workloads, "_draw_dims", lambda _document, _chance: dims)
        patch.setattr(resized_workloads, "_is_resizable", lambda entry: entry.name == name)
        return draw_resized(catalog, random.Random("0"))[name]


def test_a_program_has_the_sizes_in_its_types(current: Session) -> None:
    text = draw(current.catalog, "matmul", {"M": 3, "K": 5, "N": 7}).files["linalg.mlir"].decode()
    assert {"tensor<3x5xf32>", "tensor<5x7xf32>", "tensor<3x7xf32>"} <= {*re.findall(r"tensor<[^>]*>", text)}
    assert not any(f"<{size}x" in text for size in current.catalog.workloads["matmul"].document.dims.values())


WORKLOAD = """\
description: "Twice \U0001f600"
dims: {N: SIZE}
inputs:
  x: {shape: [N], dtype: f32, formula: "normal(0, 1)"}
outputs:
  y: {shape: [N], dtype: f32}
sources:
  linalg.mlir: [{when: {llvm: "<19"}, file: old.mlir}, {when: {llvm: "<21"}, file: old.mlir}]
"""
PROGRAM = "func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {\n  return %x : tensor<6xf32>\n}\n"


@pytest.mark.parametrize(
    ("size", "old", "kept"),
    [
        (6, PROGRAM, {"linalg.mlir", "old.mlir"}),
        # More than its types depends on the size.
        (6, PROGRAM.replace("  return", "  %c = arith.constant 6 : index\n  return"), set()),
        # Which size of 1 is it?
        (1, PROGRAM, set()),
    ],
)
def test_sources_and_their_variants_are_one(tmp_path: Path, size: int, old: str, kept: set[str]) -> None:
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("same", document=WORKLOAD.replace("SIZE", str(size)), pytorch="def workload(x):\n    return x\n")
    for name, text in (("linalg.mlir", PROGRAM), ("old.mlir", old)):
        catalog.write(f"matrix/workloads/same/{name}", text.replace("6x", f"{size}x"))
    found = draw(load([ROOT, catalog.root]), "same", {"N": 7})
    assert found.files.keys() == {"pytorch.py", "reference.py", *kept}
    assert all(b"tensor<7xf32>" in found.files[name] for name in kept)
    write_programs(tmp_path / "round", {"other": found}, ())
    written = session_of([ROOT, tmp_path / "round"], find_home()).catalog.workloads["other"].document
    assert (written.description, written.sources.keys()) == ("Twice \U0001f600", kept & {"linalg.mlir"})


def test_another_draw_has_other_inputs(current: Session) -> None:
    matmul = draw(current.catalog, "matmul", {"M": 3, "K": 5, "N": 7})
    seeds = [
        declared["seed"] for number in range(4) for declared in matmul.with_inputs(number).document["inputs"].values()
    ]
    assert len({*seeds}) == len(seeds) == 8
