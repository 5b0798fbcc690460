"""Programs as functions of MLIR: what all dialects have in common."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from mlir_matrix.fuzz.mlir_types import tensor, tensors
from mlir_matrix.fuzz.structural import STRUCTURAL
from mlir_matrix.fuzz.values import Program, ProgramValue, Statement


class MlirWriter:
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
        returned = self._program.returned
        names = ", ".join([self.returned(value) for value in returned])
        inputs = ", ".join(f"{name}: {kind}" for name, kind in self.parameters())
        body = "".join(f"  {line}\n" for line in (*self.beginning(), *self._lines))
        return (
            f"func.func @main({inputs}) -> ({tensors(returned)}) {{\n{body}  return {names} : {tensors(returned)}\n}}\n"
        )

    def parameters(self) -> list[tuple[str, str]]:
        """Return the names of the inputs with their types."""
        return [(f"%{value.name}", tensor(value.type)) for value in self._program.inputs]

    def beginning(self) -> list[str]:
        """Return the lines before those of the statements."""
        return []

    def returned(self, value: ProgramValue) -> str:
        """Return the name of a value with the type that its declaration has."""
        return f"%{value.name}"

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
