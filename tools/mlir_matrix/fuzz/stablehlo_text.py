"""Programs as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from mlir_matrix.fuzz.elementwise import ELEMENTWISE
from mlir_matrix.fuzz.mlir_text import MlirWriter
from mlir_matrix.fuzz.mlir_types import extreme, number, tensor, tensors
from mlir_matrix.fuzz.structural import sliced
from mlir_matrix.fuzz.values import INTEGER, ProgramValue, Statement, TensorType

STABLEHLO = "stablehlo.mlir"


class StableHlo(MlirWriter):
    """StableHLO."""

    def elementwise(self, statement: Statement, operands: Sequence[str]) -> None:
        name, _, direction = ELEMENTWISE[statement.operation].stablehlo.partition(" ")
        result = tensor(statement.result.type)
        if name == "compare":
            types = f"({tensors(statement.operands)}) -> {result}"
            operands = [direction, *operands]
        elif name == "select":
            types = tensors(statement.operands[:2])
        else:
            types = result
        self.write(f"%{statement.result.name} = stablehlo.{name} {', '.join(operands)} : {types}")

    def _operation(
        self, statement: Statement, form: str, operands: Sequence[ProgramValue] = (), more: str = ""
    ) -> None:
        types = tensors(operands or statement.operands)
        self.write(f"%{statement.result.name} = stablehlo.{form} : ({types}{more}) -> {tensor(statement.result.type)}")

    def _constant(self, text: str, type: TensorType) -> tuple[str, str]:
        """Return the name of a scalar and its type."""
        kind = tensor(type.of_shape(()))
        return self.new(f"stablehlo.constant dense<{text}> : {kind}"), kind

    def transpose(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, f"transpose {operands[0]}, dims = {statement.attributes['order']}")

    def reshape(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, f"reshape {operands[0]}")

    def broadcast(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, f"broadcast_in_dim {operands[0]}, dims = {statement.attributes['axes']}")

    def slice(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, f"slice {operands[0]} [{sliced(statement)}]")

    def pad(self, statement: Statement, operands: Sequence[str]) -> None:
        given = statement.attributes
        filler, kind = self._constant(number(given["value"], statement.result.type), statement.result.type)
        between = [0] * statement.result.type.rank
        self._operation(
            statement,
            f"pad {operands[0]}, {filler}, low = {given['low']}, high = {given['high']}, interior = {between}",
            more=f", {kind}",
        )

    def concat(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, f"concatenate {', '.join(operands)}, dim = {statement.attributes['axis']}")

    def reverse(self, statement: Statement, operands: Sequence[str]) -> None:
        self.write(
            f"%{statement.result.name} = stablehlo.reverse {operands[0]}, dims = [{statement.attributes['axis']}]"
            f" : {tensor(statement.result.type)}"
        )

    def _reduce(self, statement: Statement, operands: Sequence[str], start: str, combine: str) -> None:
        constant, kind = self._constant(start, statement.result.type)
        self._operation(
            statement,
            f"reduce({operands[0]} init: {constant}) applies stablehlo.{combine}"
            f" across dimensions = [{statement.attributes['axis']}]",
            more=f", {kind}",
        )

    def reduce_sum(self, statement: Statement, operands: Sequence[str]) -> None:
        self._reduce(statement, operands, number(0, statement.result.type), "add")

    def reduce_max(self, statement: Statement, operands: Sequence[str]) -> None:
        self._reduce(statement, operands, extreme(statement.result.type, "max")[0], "maximum")

    def reduce_min(self, statement: Statement, operands: Sequence[str]) -> None:
        self._reduce(statement, operands, extreme(statement.result.type, "min")[0], "minimum")

    def matmul(self, statement: Statement, operands: Sequence[str]) -> None:
        rank = statement.result.type.rank
        batch = "batching_dims = [0] x [0], " if rank == 3 else ""
        contracting = f"contracting_dims = [{rank - 1}] x [{rank - 2}]"
        self._operation(statement, f"dot_general {', '.join(operands)}, {batch}{contracting}")

    def _window(self, statement: Statement, operands: Sequence[str], start: str, combine: str) -> None:
        result = statement.result.type
        constant, scalars = self._constant(start, result)
        ones = [1] * (result.rank - 1)
        size, stride = statement.attributes["size"], statement.attributes["stride"]
        windows, strides = (", ".join(map(str, [*ones, last])) for last in (size, stride))
        self.write(
            f'%{statement.result.name} = "stablehlo.reduce_window"({operands[0]}, {constant}) ({{',
            f"^bb0(%a: {scalars}, %b: {scalars}):",
            f"  %r = stablehlo.{combine} %a, %b : {scalars}",
            f"  stablehlo.return %r : {scalars}",
            f"}}) {{window_dimensions = array<i64: {windows}>, window_strides = array<i64: {strides}>}}"
            f" : ({tensors(statement.operands)}, {scalars}) -> {tensor(result)}",
        )

    def window_sum(self, statement: Statement, operands: Sequence[str]) -> None:
        self._window(statement, operands, "0.0", "add")

    def window_max(self, statement: Statement, operands: Sequence[str]) -> None:
        self._window(statement, operands, extreme(statement.result.type, "max")[0], "maximum")

    def take(self, statement: Statement, operands: Sequence[str]) -> None:
        given, places = statement.operands[0].type, statement.attributes["places"]
        indices = TensorType((len(places), 1), INTEGER)
        rows = [[place] for place in places]
        constant = self.new(f"stablehlo.constant dense<{rows}> : {tensor(indices)}")
        numbers = (
            f"offset_dims = {list(range(1, given.rank))}, collapsed_slice_dims = [0], start_index_map = [0],"
            " index_vector_dim = 1"
        )
        sizes = ", ".join(map(str, (1, *given.shape[1:])))
        self.write(
            f'%{statement.result.name} = "stablehlo.gather"({operands[0]}, {constant}) '
            f"{{dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = array<i64: {sizes}>,"
            f" indices_are_sorted = false}} : ({tensor(given)}, {tensor(indices)}) -> {tensor(statement.result.type)}"
        )

    def to_float(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, f"convert {operands[0]}")

    to_integer = to_float
