"""Hand-written IR against what its workload declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

X = {"name": "x", "shape": [4, 8], "dtype": "f32", "dynamic": []}
Y = {"name": "y", "shape": [4, 8], "dtype": "f32"}
MAIN = "func.func @main(%x: {0}) -> {1} {{ %y = tensor.cast %x : {0} to {1} return %y : {1} }}"


@pytest.fixture
def taken(environments: Any, tmp_path: Path) -> Any:
    def perform(source: str, x: dict[str, Any] = X, y: dict[str, Any] = Y) -> Any:
        return environments.perform(
            "mlir",
            "matrix/frameworks/mlir/importer.py",
            tmp_path / "a",
            params={"inputs": [x], "outputs": [y], "dims": {}, "backend": "bindings", "bindings": "torch_mlir"},
            inputs={"source": source},
            outputs={"out": "ir.mlir"},
            stage="import",
        )

    return perform


@pytest.mark.parametrize(
    ("argument", "result", "dynamic"),
    [
        ("tensor<4x8xf32>", "tensor<4x8xf32>", []),
        ("tensor<4x8xf32>", "tensor<?x8xf32>", []),
        ("tensor<?x8xf32>", "tensor<?x8xf32>", [0]),
        ("tensor<?x?xf32>", "tensor<4x8xf32>", [0, 1]),
    ],
)
def test_what_is_declared_is_taken(taken: Any, argument: str, result: str, dynamic: list[int]) -> None:
    source = f"""func.func @main(%x: {argument}) -> {result} {{
      %any = tensor.cast %x : {argument} to tensor<*xf32>
      %y = tensor.cast %any : tensor<*xf32> to {result}
      return %y : {result}
    }}"""
    done = taken(source, {**X, "dynamic": dynamic})
    assert done.ok, done.outcome
    assert f"func.func @main(%arg0: {argument}) -> {result}" in done.text("out")


@pytest.mark.parametrize(
    ("argument", "result", "dynamic"),
    [
        ("tensor<4x9xf32>", "tensor<?x?xf32>", []),
        ("tensor<4x8xf64>", "tensor<?x?xf64>", []),
        ("tensor<?x8xf32>", "tensor<4x8xf32>", []),
        ("tensor<4x8xf32>", "tensor<?x8xf32>", [0]),
        ("tensor<?x8xf32>", "tensor<5x8xf32>", [0]),
    ],
)
def test_what_is_not_declared_is_refused(taken: Any, argument: str, result: str, dynamic: list[int]) -> None:
    done = taken(MAIN.format(argument, result), {**X, "dynamic": dynamic})
    assert done.outcome["outcome"] == "import-failed"
    assert "must be tensor<" in done.outcome["reason"]


def test_too_many_arguments(taken: Any) -> None:
    done = taken("func.func @main(%x: tensor<4x8xf32>, %y: f32) -> tensor<4x8xf32> { return %x : tensor<4x8xf32> }")
    assert "1 inputs are declared and @main has 2" in done.outcome["diagnostics"]


def test_a_scalar_is_no_tensor(taken: Any) -> None:
    done = taken("func.func @main(%x: f32) -> tensor<4x8xf32> { %y = tensor.splat %x : tensor<4x8xf32> "
                 "return %y : tensor<4x8xf32> }")  # fmt: skip
    assert "input x must be tensor<4x8xf32>, it is f32" in done.outcome["reason"]


def test_what_does_not_parse_is_told_with_its_place(taken: Any) -> None:
    outcome = taken("func.func @main() {\n  no.such\n}").outcome
    assert outcome["reason"].startswith("the file does not parse: ")
    assert 'at loc("in/source":2:3)' in outcome["diagnostics"]


def test_no_main(taken: Any) -> None:
    assert taken("func.func @other() { return }").outcome["reason"] == "the file has no func.func @main"


def test_comments_and_locations_do_not_reach_the_ir(taken: Any) -> None:
    done = taken('// a remark\nfunc.func @main(%a: tensor<4x8xf32> loc("p.py":1:1)) -> tensor<4x8xf32> '
                 "{ return %a : tensor<4x8xf32> }")  # fmt: skip
    assert done.ok, done.outcome
    assert "remark" not in done.text("out")
    assert "loc(" not in done.text("out")


def test_u8_and_bool_are_signless_here(taken: Any) -> None:
    source = "func.func @main(%x: tensor<4x8xi8>) -> tensor<4x8xi1> { %y = arith.trunci %x : tensor<4x8xi8> to " \
             "tensor<4x8xi1> return %y : tensor<4x8xi1> }"  # fmt: skip
    assert taken(source, {**X, "dtype": "u8"}, {**Y, "dtype": "bool"}).ok


@pytest.mark.parametrize(("dtype", "ok"), [("u32", True), ("i32", False)])
def test_an_unsigned_type_is_one_of_an_unsigned_tensor(taken: Any, dtype: str, ok: bool) -> None:
    source = "func.func @main(%x: tensor<4x8xui32>) -> tensor<4x8xui32> { return %x : tensor<4x8xui32> }"
    assert taken(source, {**X, "dtype": dtype}, {**Y, "dtype": dtype}).ok is ok
