"""Programs as TOSA."""

from __future__ import annotations

from collections.abc import Sequence

from mlir_matrix.fuzz.elementwise import ELEMENTWISE
from mlir_matrix.fuzz.mlir_text import MlirWriter
from mlir_matrix.fuzz.mlir_types import scalar, tensor, tensors
from mlir_matrix.fuzz.structural import before_broadcast
from mlir_matrix.fuzz.values import BOOL, Statement

TOSA = "tosa.mlir"


class Tosa(MlirWriter):
    """TOSA as its newest release has it."""

    def elementwise(self, statement: Statement, operands: Sequence[str]) -> None:
        name = ELEMENTWISE[statement.operation].tosa
        types = [tensor(value.type) for value in statement.operands]
        given = list(operands)
        if name == "mul":
            given.append(self._constant("dense<0> : tensor<1xi8>"))
            types.append("tensor<1xi8>")
        if name == "negate":
            zero = self._constant(f"dense<0.0> : tensor<1x{scalar(statement.result.type)}>")
            given += [zero, zero]
            types += [f"tensor<1x{scalar(statement.result.type)}>"] * 2
        self._operation(statement, name, given, types)

    def _operation(
        self, statement: Statement, name: str, operands: Sequence[str], types: Sequence[str], attributes: str = ""
    ) -> None:
        self.write(
            f"%{statement.result.name} = tosa.{name} {', '.join(operands)}{attributes}"
            f" : ({', '.join(types)}) -> {tensor(statement.result.type)}"
        )

    def _constant(self, value: str) -> str:
        return self.new(f'"tosa.const"() {{values = {value}}} : () -> {value.rpartition(" : ")[2]}')

    def _shape(self, sizes: Sequence[int]) -> tuple[str, str]:
        """Return the name of a shape and its type."""
        kind = f"!tosa.shape<{len(sizes)}>"
        name = self.new(
            f"tosa.const_shape {{values = dense<{list(sizes)}> : tensor<{len(sizes)}xindex>}} : () -> {kind}"
        )
        return name, kind

    def _with_shapes(self, statement: Statement, name: str, operand: str, *shapes: Sequence[int]) -> None:
        made = [self._shape(each) for each in shapes]
        self._operation(
            statement,
            name,
            [operand, *(shape for shape, _ in made)],
            [tensor(statement.operands[0].type), *(kind for _, kind in made)],
        )

    def transpose(self, statement: Statement, operands: Sequence[str]) -> None:
        order = ", ".join(map(str, statement.attributes["order"]))
        self._operation(
            statement, "transpose", operands, [tensors(statement.operands)], f" {{perms = array<i32: {order}>}}"
        )

    def reshape(self, statement: Statement, operands: Sequence[str]) -> None:
        self._with_shapes(statement, "reshape", operands[0], statement.result.type.shape)

    def broadcast(self, statement: Statement, operands: Sequence[str]) -> None:
        value, result = statement.operands[0], statement.result
        shape = before_broadcast(statement)
        name, kind = self._shape(shape)
        between = value.type.of_shape(shape)
        wide = self.new(f"tosa.reshape {operands[0]}, {name} : ({tensor(value.type)}, {kind}) -> {tensor(between)}")
        times, of_times = self._shape([size // own for size, own in zip(result.type.shape, shape, strict=True)])
        self._operation(statement, "tile", [wide, times], [tensor(between), of_times])

    def slice(self, statement: Statement, operands: Sequence[str]) -> None:
        self._with_shapes(statement, "slice", operands[0], statement.attributes["starts"], statement.result.type.shape)

    def pad(self, statement: Statement, operands: Sequence[str]) -> None:
        given = statement.attributes
        sides = [side for pair in zip(given["low"], given["high"], strict=True) for side in pair]
        shape, kind = self._shape(sides)
        one = f"tensor<1x{scalar(statement.result.type)}>"
        filler = self._constant(f"dense<{given['value']}> : {one}")
        self._operation(statement, "pad", [operands[0], shape, filler], [tensors(statement.operands), kind, one])

    def concat(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, "concat", operands, [tensors(statement.operands)], _axis(statement))

    def reverse(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, "reverse", operands, [tensors(statement.operands)], _axis(statement))

    def _reduce(self, statement: Statement, operands: Sequence[str]) -> None:
        given = statement.operands[0].type
        axis = statement.attributes["axis"]
        kept = given.of_shape((*given.shape[:axis], 1, *given.shape[axis + 1 :]))
        narrow = self.new(
            f"tosa.{statement.operation} {operands[0]}{_axis(statement)} : ({tensor(given)}) -> {tensor(kept)}"
        )
        shape, kind = self._shape(statement.result.type.shape)
        self._operation(statement, "reshape", [narrow, shape], [tensor(kept), kind])

    reduce_sum = reduce_max = reduce_min = _reduce

    def matmul(self, statement: Statement, operands: Sequence[str]) -> None:
        one = f"tensor<1x{scalar(statement.result.type)}>"
        zero = self._constant(f"dense<0.0> : {one}")
        if statement.result.type.rank == 3:
            types = [*(tensor(value.type) for value in statement.operands), one, one]
            self._operation(statement, "matmul", [*operands, zero, zero], types)
            return
        wide = []
        for name, value in zip(operands, statement.operands, strict=True):
            shape, kind = self._shape((1, *value.type.shape))
            batch = tensor(value.type.of_shape((1, *value.type.shape)))
            wide.append((self.new(f"tosa.reshape {name}, {shape} : ({tensor(value.type)}, {kind}) -> {batch}"), batch))
        made = tensor(statement.result.type.of_shape((1, *statement.result.type.shape)))
        product = self.new(
            f"tosa.matmul {wide[0][0]}, {wide[1][0]}, {zero}, {zero} : ({wide[0][1]}, {wide[1][1]}, {one}, {one}) -> {made}"
        )
        shape, kind = self._shape(statement.result.type.shape)
        self._operation(statement, "reshape", [product, shape], [made, kind])

    def to_float(self, statement: Statement, operands: Sequence[str]) -> None:
        given = statement.operands[0].type
        if given.dtype == BOOL:
            # TOSA casts booleans only to integers.
            whole = given.of_dtype("i32")
            name = self.new(f"tosa.cast {operands[0]} : ({tensor(given)}) -> {tensor(whole)}")
            self._operation(statement, "cast", [name], [tensor(whole)])
            return
        self._operation(statement, "cast", operands, [tensor(given)])

    def to_integer(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, "cast", operands, [tensors(statement.operands)])


def _axis(statement: Statement) -> str:
    return f" {{axis = {statement.attributes['axis']} : i32}}"
