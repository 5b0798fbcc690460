"""What a candidate's @main takes and gives, as inputs and results of a kernel."""

from __future__ import annotations

import pytest

from mlir_matrix.actions.params import InputTensor
from mlir_matrix.base.errors import UsageError
from mlir_matrix.reduce.program import KernelSignature, interface_of, named_inputs
from mlir_matrix.reduction.search import Candidate
from mlir_matrix.reduction.tree import Module, parse

X: InputTensor = {"name": "x", "shape": [4, 8], "dtype": "u8", "formula": "integers(0, N)", "seed": 3}
SIGNATURE = KernelSignature(inputs={"x": X}, dims={"N": 9, "M": 2, "g": 4}, dtypes={"tensor<4xi8>": "u8"})


def module(argument: str, result: str) -> Module:
    return parse(
        f"""
        "builtin.module"() ({{
          "func.func"() <{{function_type = ({argument}) -> {result}, sym_name = "main"}}> ({{
          ^bb0(%a: {argument}):
            %0 = "test.op"(%a) : ({argument}) -> {result}
            "func.return"(%0) : ({result}) -> ()
          }}) : () -> ()
        }}) : () -> ()
        """
    )


@pytest.mark.parametrize(
    ("argument", "result", "taken", "given"),
    [
        ("tensor<4x8xi8>", "tensor<4xi8>", ([4, 8], "u8"), ([4], "u8")),
        ("tensor<2x?xi8>", "tensor<?xf32>", ([2, 8], "u8"), ([None], "f32")),
        ("memref<2xf64>", "memref<2xf64, strided<[1]>>", ([2], "f64"), ([2], "f64")),
        ("!torch.vtensor<[3,2],si64>", "!torch.vtensor<[],f32>", ([3, 2], "i64"), ([], "f32")),
    ],
)
def test_tensors_are_read_from_their_types(
    argument: str, result: str, taken: tuple[list[int], str], given: tuple[list[int], str]
) -> None:
    program = module(argument, result)
    named_inputs(program, ["x"])
    found = interface_of(Candidate(program, ""), SIGNATURE)
    assert found is not None
    assert [(each["shape"], each["dtype"]) for each in found.inputs] == [taken]
    assert [(each["shape"], each["dtype"]) for each in found.results] == [given]


def test_inputs_keep_their_formulas_with_the_dimensions_that_these_use() -> None:
    program = module("tensor<4x8xi8>", "tensor<4xi8>")
    named_inputs(program, ["x"])
    found = interface_of(Candidate(program, ""), SIGNATURE)
    assert found is not None
    assert (found.inputs[0]["formula"], found.inputs[0]["seed"], found.dims) == ("integers(0, N)", 3, {"N": 9})
    found = interface_of(Candidate(program, "", {"x": "1"}), SIGNATURE)
    assert found is not None
    assert (found.inputs[0]["formula"], found.dims) == ("1", {})


@pytest.mark.parametrize(
    ("argument", "result"), [("index", "tensor<4xf32>"), ("tensor<*xf32>", "tensor<4xf32>"), ("tensor<4xf32>", "i1")]
)
def test_what_no_kernel_takes_or_gives_has_no_interface(argument: str, result: str) -> None:
    assert interface_of(Candidate(module(argument, result), ""), SIGNATURE) is None


def test_arguments_and_inputs_must_be_as_many() -> None:
    with pytest.raises(UsageError, match="@main takes 1 arguments, and the test has 2 inputs"):
        named_inputs(module("tensor<1xf32>", "tensor<1xf32>"), ["x", "y"])
