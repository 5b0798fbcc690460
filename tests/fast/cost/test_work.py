"""Work of a workload: stated, or counted in the IR that MLIR 22 prints for the repository's own linalg.mlir."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.cost.work import Work, work_of
from mlir_matrix.environments.session import Session

HERE = Path(__file__).parent


def generic(body: str, type_: str = "tensor<8xf32>") -> str:
    """An operation on the elements of a vector."""
    return (
        '%r = "linalg.generic"(%a, %a) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], '
        f'operandSegmentSizes = array<i32: 1, 1>}}> ({{\n^bb0(%x: f32, %y: f32):\n{body}\n"linalg.yield"(%x) : (f32) -> ()\n'
        f"}}) : ({type_}, {type_}) -> {type_}"
    )


def module_of(*lines: str, type_: str = "tensor<8xf32>") -> str:
    body = "\n".join(lines)
    return (
        f'"builtin.module"() ({{\n"func.func"() <{{sym_name = "main"}}> ({{\n^bb0(%a: {type_}):\n{body}\n'
        '"func.return"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n'
    )


@pytest.mark.parametrize("name", ["matmul", "conv2d", "softmax"])
def test_what_is_counted_is_what_is_stated(current: Session, name: str) -> None:
    document = current.catalog.workloads[name].document
    stated = work_of(document)
    counted = work_of(document.model_copy(update={"flops": None}), (HERE / f"{name}.mlir").read_text())
    assert counted == stated
    assert stated.flops


def test_bytes_are_those_of_inputs_and_outputs(current: Session) -> None:
    assert work_of(current.catalog.workloads["matmul"].document) == Work(
        flops=2 * 65 * 97 * 130, bytes=4 * (65 * 130 + 130 * 97 + 65 * 97), dtype="f32"
    )
    assert work_of(current.catalog.workloads["matmul_bf16"].document).bytes % 2 == 0


@pytest.mark.parametrize(
    ("body", "flops"),
    [
        ('%z = "math.exp"(%x) : (f32) -> f32', 8),
        ('%z = "math.fma"(%x, %x, %y) : (f32, f32, f32) -> f32', 16),
        ('%z = "arith.cmpf"(%x, %y) <{predicate = 1 : i64}> : (f32, f32) -> i1', 0),
        (
            '%i = "linalg.index"() <{dim = 0 : i64}> : () -> index\n%j = "arith.addi"(%i, %i) : (index, index) -> index',
            0,
        ),
        ('%z = "arith.extf"(%x) : (f32) -> f64', 0),
    ],
)
def test_what_counts(current: Session, body: str, flops: int) -> None:
    text = module_of(generic(body))
    document = current.catalog.workloads["matmul"].document.model_copy(update={"flops": None})
    assert work_of(document, text).flops == flops


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "its route has no IR at linalg"),
        (
            module_of(generic('%z = "math.exp"(%x) : (f32) -> f32', "tensor<?xf32>"), type_="tensor<?xf32>"),
            "linalg.generic has a dimension whose size only a run knows",
        ),
        ("no module", "line 1"),
    ],
)
def test_what_is_not_known_has_a_reason(current: Session, text: str, why: str) -> None:
    found = work_of(current.catalog.workloads["matmul"].document.model_copy(update={"flops": None}), text)
    assert found.flops is None
    assert why in found.absent
    assert found.absent.endswith("state 'flops' in its workload.yaml")
    assert found.bytes
