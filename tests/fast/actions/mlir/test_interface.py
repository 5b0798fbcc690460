"""What a hand-written @main may look like beside what is declared, whoever has parsed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from mlir_matrix.actions.contract import ActionFailed
from mlir_matrix.actions.mlir.interface import ELEMENTS, complaints, refuse

Tensor = tuple[Sequence[int | None], str] | None


@dataclass(frozen=True)
class Fake:
    tensor: Tensor

    def __str__(self) -> str:
        return "WRITTEN"


def declared(dtype: str = "f32", shape: Sequence[int] = (4, 8), dynamic: Sequence[int] = ()) -> dict[str, Any]:
    return {"name": "a", "shape": list(shape), "dtype": dtype, "dynamic": list(dynamic)}


def found(role: str, each: dict[str, Any], tensor: Tensor) -> list[str]:
    params = {"inputs": [], "outputs": [], f"{role}s": [each]}
    kinds = {"input": [], "output": []} | {role: [Fake(tensor)]}
    return complaints(params, kinds["input"], kinds["output"])


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_every_dtype_is_one_element(dtype: str) -> None:
    for element in {*ELEMENTS.values()}:
        assert bool(found("input", declared(dtype), ((4, 8), element))) == (element != ELEMENTS[dtype])


@pytest.mark.parametrize(
    ("role", "dynamic", "shape", "fits"),
    [
        ("input", [], (4, 8), True), ("input", [], (None, 8), False), ("input", [0], (None, 8), True),
        ("input", [0], (4, 8), False), ("input", [0], (None, None), False), ("input", [0, 1], (None, None), True),
        ("input", [], (8, 4), False), ("input", [], (4,), False), ("input", [], (4, 8, 1), False),
        ("output", [], (4, 8), True), ("output", [], (None, 8), True), ("output", [], (None, None), True),
        ("output", [], (5, 8), False), ("output", [], (), False), ("output", [0], (4, 8), False),
    ],
)  # fmt: skip
def test_shapes(role: str, dynamic: list[int], shape: tuple[int | None, ...], fits: bool) -> None:
    """What is declared open must be; where a size is declared, a result may be open all the same."""
    assert (found(role, declared(dynamic=dynamic), (shape, "f32")) == []) is fits


def test_what_is_said() -> None:
    each = declared(dynamic=[1])
    assert found("input", each, None) == ["input a must be tensor<4x?xf32>, it is WRITTEN"]
    assert found("output", declared("bool", ()), ((), "f32")) == ["output a must be tensor<i1>, it is WRITTEN"]
    params = {"inputs": [each, each], "outputs": []}
    assert complaints(params, [], [Fake(None)]) == [
        "2 inputs are declared and @main has 0", "0 outputs are declared and @main has 1",
    ]  # fmt: skip


def test_refusing() -> None:
    refuse([])
    with pytest.raises(ActionFailed) as caught:
        refuse(["first", "second"])
    assert caught.value.reason == "@main is not what the workload declares: first"
    assert caught.value.diagnostics == "first\nsecond\n"
