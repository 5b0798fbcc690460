"""Programs as functions of MLIR: what all dialects have in common."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from mlir_matrix.fuzz.mlir_types import tensor, tensors
from mlir_matrix.fuzz.structural import STRUCTURAL
from mlir_matrix.fuzz.values import Program, Statement


class Writer:
    """Writes a program's statements one after the other. A dialect has a method for each operation with a form of its own."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lines: list[str] = []
        self._numbers = count()

    def text(self) -> str:
        """Return the module."""
        for statement in self._program.statements:
            operands = [f"%{value.name}" for value in statement.operands]
            self.statement(statement, operands)
        inputs = ", ".join(f"%{value.name}: {tensor(value.type)}" for value in self._program.inputs)
        returned = self._program.returned
        names = ", ".join(f"%{value.name}" for value in returned)
        body = "".join(f"  {line}\n" for line in self._lines)
        return (
            f"func.func @main({inputs}) -> ({tensors(returned)}) {{\n{body}  return {names} : {tensors(returned)}\n}}\n"
        )

    def statement(self, statement: Statement, operands: Sequence[str]) -> None:
        """Write one statement."""
        form = statement.operation if statement.operation in STRUCTURAL else "elementwise"
        getattr(self, form)(statement, operands)

    def elementwise(self, statement: Statement, operands: Sequence[str]) -> None:
        """Write an operation of :mod:`elementwise`."""
        raise NotImplementedError

    def write(self, *lines: str) -> None:
        """Add lines to the function."""
        self._lines += lines

    def new(self, text: str) -> str:
        """Add an operation with a new name for its result, which is returned."""
        name = f"%t{next(self._numbers)}"
        self.write(f"{name} = {text}")
        return name
