"""Linalg whose sizes and conditions are known only at run time: types with ``?``, branches and loops around statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mlir_matrix.fuzz.mlir_text import MlirWriter
from mlir_matrix.fuzz.mlir_types import number, scalar, tensor
from mlir_matrix.fuzz.structural import joined_axes
from mlir_matrix.fuzz.values import BOOL, INTEGER, MOST_SIZES, SIZES, Flow, Program, ProgramValue, Statement, TensorType

#: What leaves an element as it is, with 0.
_ADDITIONS = {BOOL: "arith.ori", INTEGER: "arith.addi"}
_ALL_SIZES = TensorType((MOST_SIZES,), INTEGER)


class Dynamic(MlirWriter):
    """Has ``?`` for the dynamic sizes of a program, which it reads from its first input."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._dynamic = program.dynamic or frozenset()
        self._read: set[int] = set()

    def is_dynamic(self, size: int) -> bool:
        """Return whether types have ``?`` for a size."""
        return size in self._dynamic

    def tensor(self, type: TensorType) -> str:
        """Return the type of a value in the function."""
        return tensor(type, self._dynamic)

    def tensors(self, values: Iterable[ProgramValue]) -> str:
        """Return the types of values in the function."""
        return ", ".join(self.tensor(value.type) for value in values)

    def size(self, size: int) -> str:
        """Return the name of a size as an index."""
        return self._read_size(size) if self.is_dynamic(size) else self.new(f"arith.constant {size} : index")

    def sizes(self, shape: Sequence[int]) -> str:
        """Return a list of sizes, of which the dynamic ones are names."""
        names = [str(size) for size in shape]
        for axis, size in enumerate(shape):
            if self.is_dynamic(size):
                names[axis] = self._read_size(size)
        return f"[{', '.join(names)}]"

    def empty(self, type: TensorType) -> str:
        """Return the name of a tensor without elements of a certain value."""
        sizes = ", ".join(self._read_size(size) for size in type.shape if self.is_dynamic(size))
        return self.new(f"tensor.empty({sizes}) : {self.tensor(type)}")

    def filled(self, type: TensorType, value: float | str) -> str:
        """Return the name of a tensor of equal elements."""
        text = value if isinstance(value, str) else number(value, type)
        constant = self.new(f"arith.constant {text} : {scalar(type)}")
        kind = self.tensor(type)
        return self.new(f"linalg.fill ins({constant} : {scalar(type)}) outs({self.empty(type)} : {kind}) -> {kind}")

    def cast(self, name: str, given: str, wanted: str) -> str:
        """Return the name of a value with a type that differs in which sizes are dynamic."""
        return name if given == wanted else self.new(f"tensor.cast {name} : {given} to {wanted}")

    def _read_size(self, size: int) -> str:
        self._read.add(size)
        return f"%size{size}"

    def parameters(self) -> list[tuple[str, str]]:
        given = [(self._parameter(value), tensor(value.type)) for value in self._program.inputs]
        return given if self._program.dynamic is None else [(f"%{SIZES}", tensor(_ALL_SIZES)), *given]

    def beginning(self) -> list[str]:
        """Return what reads the sizes, and what takes each input as one of these sizes."""
        slices = []
        for value in self._program.inputs:
            whole, kind = tensor(value.type), self.tensor(value.type)
            if whole != kind:
                window = f"{[0] * value.type.rank} {self.sizes(value.type.shape)} {[1] * value.type.rank}"
                source = f"{self._parameter(value)}{window}"
                slices.append(f"%{value.name} = tensor.extract_slice {source} : {whole} to {kind}")
        lines = []
        for size in sorted(self._read):
            lines += [
                f"%place{size} = arith.constant {size} : index",
                f"%read{size} = tensor.extract %{SIZES}[%place{size}] : {tensor(_ALL_SIZES)}",
                f"%size{size} = arith.index_cast %read{size} : {INTEGER} to index",
            ]
        return [*lines, *slices]

    def _parameter(self, value: ProgramValue) -> str:
        return f"%{value.name}" if tensor(value.type) == self.tensor(value.type) else f"%{value.name}_whole"

    def returned(self, value: ProgramValue) -> str:
        return self.cast(super().returned(value), self.tensor(value.type), tensor(value.type))

    def statement(self, statement: Statement, operands: Sequence[str]) -> None:
        if statement.flow == Flow.STRAIGHT and self._dynamic and not self._infers(statement):
            self._between_casts(statement, operands)
        elif statement.flow == Flow.STRAIGHT:
            super().statement(statement, operands)
        elif statement.flow == Flow.LOOP:
            self._in_loop(statement, operands)
        else:
            self._in_branch(statement, operands)

    def _infers(self, statement: Statement) -> bool:
        """Return whether MLIR takes the same sizes of a result to be dynamic that are so here."""
        before, after = statement.operands[0].type.shape, statement.result.type.shape
        if statement.operation == "pad":
            pairs = zip(before, after, strict=True)
            return all(self.is_dynamic(size) == self.is_dynamic(padded) for size, padded in pairs)
        if statement.operation == "reshape":
            narrow, wide = sorted((before, after), key=len)
            groups = [any(self.is_dynamic(wide[axis]) for axis in axes) for axes in joined_axes(statement)]
            return groups == [self.is_dynamic(size) for size in narrow]
        return True

    def _between_casts(self, statement: Statement, operands: Sequence[str]) -> None:
        """Write a statement with all sizes in its types."""
        dynamic, result = self._dynamic, statement.result
        given = [
            self.cast(name, self.tensor(value.type), tensor(value.type))
            for name, value in zip(operands, statement.operands, strict=True)
        ]
        inner = replace(result, name=f"{result.name}_static")
        self._dynamic = frozenset()
        super().statement(replace(statement, result=inner), given)
        self._dynamic = dynamic
        self.write(f"%{result.name} = tensor.cast %{inner.name} : {tensor(result.type)} to {self.tensor(result.type)}")

    def _in_loop(self, statement: Statement, operands: Sequence[str]) -> None:
        """Write a loop whose number of iterations, 1, is known only at run time, and that adds to zeros."""
        result = statement.result
        kind, element = self.tensor(result.type), scalar(result.type)
        zero, step = (self.new(f"arith.constant {each} : index") for each in (0, 1))
        start = self.filled(result.type, 0)
        carried = f"%{result.name}_sum"
        counter = f"%{result.name}_at = {zero} to {self._read_size(1)} step {step}"
        self.write(f"%{result.name} = scf.for {counter} iter_args({carried} = {start}) -> ({kind}) {{")
        inner = self._inner(statement, operands)
        axes = ", ".join(f"d{axis}" for axis in range(result.type.rank))
        identity = f"affine_map<({axes}) -> ({axes})>"
        kinds = ", ".join(['"parallel"'] * result.type.rank)
        self.write(
            f"%{result.name}_next = linalg.generic {{indexing_maps = [{identity}, {identity}], iterator_types = [{kinds}]}}"
            f" ins({inner} : {kind}) outs({carried} : {kind}) {{",
            f"^bb0(%a: {element}, %b: {element}):",
            f"  %r = {_ADDITIONS.get(result.type.dtype, 'arith.addf')} %a, %b : {element}",
            f"  linalg.yield %r : {element}",
            f"}} -> {kind}",
            f"scf.yield %{result.name}_next : {kind}",
            "}",
        )

    def _in_branch(self, statement: Statement, operands: Sequence[str]) -> None:
        """Write a condition, whose other arm gives zeros."""
        result = statement.result
        kind = self.tensor(result.type)
        one = self.new("arith.constant 1 : index")
        predicate = "eq" if statement.flow == Flow.THEN else "ne"
        condition = self.new(f"arith.cmpi {predicate}, {self._read_size(1)}, {one} : index")
        self.write(f"%{result.name} = scf.if {condition} -> ({kind}) {{")
        for arm, end in ((Flow.THEN, "} else {"), (Flow.ELSE, "}")):
            taken = arm == statement.flow
            name = self._inner(statement, operands) if taken else self.filled(result.type, 0)
            self.write(f"scf.yield {name} : {kind}", end)

    def _inner(self, statement: Statement, operands: Sequence[str]) -> str:
        """Write a statement in a region; return the name of its result."""
        inner = replace(statement.result, name=f"{statement.result.name}_inner")
        self.statement(replace(statement, result=inner, flow=Flow.STRAIGHT), operands)
        return f"%{inner.name}"
