"""Statements as operations of the dialect ``vector``, on whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

from mlir_matrix.fuzz.elementwise import ELEMENTWISE
from mlir_matrix.fuzz.mlir_text import MlirWriter
from mlir_matrix.fuzz.mlir_types import extreme, number, vector
from mlir_matrix.fuzz.structural import before_broadcast
from mlir_matrix.fuzz.values import BOOL, Statement, TensorType

#: Vectors are unrolled.
_MOST_ELEMENTS = 300
_FORMS = frozenset(
    (
        "transpose",
        "reshape",
        "broadcast",
        "slice",
        "concat",
        "reduce_sum",
        "reduce_max",
        "reduce_min",
        "matmul",
        "to_float",
    )
)


def has_vector(statement: Statement) -> bool:
    """Return whether a statement has this form."""
    values = (*statement.operands, statement.result)
    # A vector of booleans is packed in memory, a buffer of them is not.
    if any(value.type.elements > _MOST_ELEMENTS or value.type.dtype == BOOL for value in values):
        return False
    operation = ELEMENTWISE.get(statement.operation)
    if operation is not None:
        return "\n" not in operation.scalar
    return statement.operation in _FORMS


def write_vector(builder: MlirWriter, statement: Statement, operands: Sequence[str]) -> str:
    """Write an operation on vectors; return the name of its result."""
    result = statement.result.type
    types = [vector(value.type) for value in statement.operands]
    given = statement.attributes
    match statement.operation:
        case "transpose":
            return builder.new(f"vector.transpose {operands[0]}, {given['order']} : {types[0]} to {vector(result)}")
        case "reshape":
            return builder.new(f"vector.shape_cast {operands[0]} : {types[0]} to {vector(result)}")
        case "broadcast":
            return _broadcast(builder, statement, operands[0])
        case "slice":
            ones = [1] * result.rank
            window = f"offsets = {given['starts']}, sizes = {list(result.shape)}, strides = {ones}"
            return builder.new(
                f"vector.extract_strided_slice {operands[0]} {{{window}}} : {types[0]} to {vector(result)}"
            )
        case "concat":
            return _concat(builder, statement, operands)
        case "reduce_sum":
            return _reduce(builder, statement, operands[0], "add", number(0, result))
        case "reduce_max" | "reduce_min":
            start, combine = extreme(result, statement.operation.removeprefix("reduce_"))
            return _reduce(builder, statement, operands[0], combine.removeprefix("arith."), start)
        case "matmul":
            return _contract(builder, statement, operands)
        case "to_float":
            return builder.new(f"arith.sitofp {operands[0]} : {types[0]} to {vector(result)}")
    text = ELEMENTWISE[statement.operation].scalar.format(*operands, r="", t=vector(statement.operands[-1].type))
    return builder.new(text.removeprefix(" = "))


def _filled(builder: MlirWriter, type: TensorType, text: str) -> str:
    return builder.new(f"arith.constant dense<{text}> : {vector(type)}")


def _broadcast(builder: MlirWriter, statement: Statement, operand: str) -> str:
    value, result = statement.operands[0].type, statement.result.type
    between = value.of_shape(before_broadcast(statement))
    wide = builder.new(f"vector.shape_cast {operand} : {vector(value)} to {vector(between)}")
    return builder.new(f"vector.broadcast {wide} : {vector(between)} to {vector(result)}")


def _concat(builder: MlirWriter, statement: Statement, operands: Sequence[str]) -> str:
    result, axis, start = statement.result.type, statement.attributes["axis"], 0
    target = _filled(builder, result, number(0, result))
    for name, value in zip(operands, statement.operands, strict=True):
        offsets = [start if each == axis else 0 for each in range(result.rank)]
        where = f"offsets = {offsets}, strides = {[1] * result.rank}"
        target = builder.new(
            f"vector.insert_strided_slice {name}, {target} {{{where}}} : {vector(value.type)} into {vector(result)}"
        )
        start += value.type.shape[axis]
    return target


def _reduce(builder: MlirWriter, statement: Statement, operand: str, combine: str, start: str) -> str:
    given, result = statement.operands[0].type, statement.result.type
    begin = _filled(builder, result, start)
    return builder.new(
        f"vector.multi_reduction <{combine}>, {operand}, {begin} [{statement.attributes['axis']}]"
        f" : {vector(given)} to {vector(result)}"
    )


def _contract(builder: MlirWriter, statement: Statement, operands: Sequence[str]) -> str:
    result = statement.result.type
    batch, before = ("b, ", 1) if result.rank == 3 else ("", 0)
    maps = ", ".join(f"affine_map<({batch}i, j, k) -> ({batch}{axes})>" for axes in ("i, k", "k, j", "i, j"))
    kinds = ", ".join(['"parallel"'] * (2 + before) + ['"reduction"'])
    zero = _filled(builder, result, number(0, result))
    types = ", ".join(vector(value.type) for value in statement.operands)
    return builder.new(
        f"vector.contract {{indexing_maps = [{maps}], iterator_types = [{kinds}], kind = #vector.kind<add>}}"
        f" {operands[0]}, {operands[1]}, {zero} : {types} into {vector(result)}"
    )
