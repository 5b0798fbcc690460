"""Programs as linalg on tensors, as loops of scf, and as operations on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir_matrix.fuzz.dynamic_text import Dynamic
from mlir_matrix.fuzz.elementwise import ELEMENTWISE
from mlir_matrix.fuzz.mlir_types import extreme, number, scalar, tensor, vector
from mlir_matrix.fuzz.structural import joined_axes
from mlir_matrix.fuzz.values import BOOL, INTEGER, Flow, Form, ProgramValue, Statement, TensorType
from mlir_matrix.fuzz.vector_text import has_vector, write_vector

LINALG = "linalg.mlir"
#: Linalg of releases in which each operation on elements has a name, such as ``linalg.add``: until LLVM 24.
LINALG_NAMED = "linalg-named.mlir"
#: Operations on elements whose kind has another name than they had.
_KINDS = {"max": "max_signed", "min": "min_signed"}


class Linalg(Dynamic):
    """Linalg on tensors, and the same as loops of scf or as operations on vectors: a statement has a form."""

    def statement(self, statement: Statement, operands: Sequence[str]) -> None:
        if statement.form == Form.VECTOR and statement.flow == Flow.STRAIGHT and has_vector(statement):
            self._vector(statement, operands)
        else:
            super().statement(statement, operands)

    def _vector(self, statement: Statement, operands: Sequence[str]) -> None:
        """Read whole tensors as vectors, and write one."""
        result = statement.result.type
        zero = self.new("arith.constant 0 : index")

        def places(type: TensorType) -> str:
            return f"[{', '.join([zero] * type.rank)}]"

        def bounds(type: TensorType) -> str:
            return f"{{in_bounds = [{', '.join(['true'] * type.rank)}]}}"

        read = []
        for name, value in zip(operands, statement.operands, strict=True):
            filler = self.new(f"arith.constant {number(0, value.type)} : {scalar(value.type)}")
            read.append(
                self.new(
                    f"vector.transfer_read {name}{places(value.type)}, {filler} {bounds(value.type)}"
                    f" : {self.tensor(value.type)}, {vector(value.type)}"
                )
            )
        made = write_vector(self, statement, read)
        self.write(
            f"%{statement.result.name} = vector.transfer_write {made}, {self.empty(result)}{places(result)} {bounds(result)}"
            f" : {vector(result)}, {self.tensor(result)}"
        )

    def elementwise(self, statement: Statement, operands: Sequence[str]) -> None:
        operation, result = ELEMENTWISE[statement.operation], statement.result
        if statement.form == Form.NAMED and operation.named:
            types = self.tensors(statement.operands)
            self.write(
                f"%{result.name} = linalg.{self.name_of(statement)} ins({', '.join(operands)} : {types})"
                f" outs({self.empty(result.type)} : {self.tensor(result.type)}) -> {self.tensor(result.type)}"
            )
            return
        arguments = [f"%a{at}" for at in range(len(operands))]
        kind = scalar(statement.operands[-1].type)
        body = operation.scalar.format(*arguments, r="%r", t=kind).split("\n")
        identity = list(range(result.type.rank))
        self._generic(statement, operands, [identity] * len(operands), body)

    def name_of(self, statement: Statement) -> str:
        """Return what linalg calls an operation on elements."""
        name = ELEMENTWISE[statement.operation].named
        return f"elementwise <{_KINDS.get(name, name)}>"

    def _generic(
        self, statement: Statement, operands: Sequence[str], maps: Sequence[Sequence[int | str]], body: Sequence[str]
    ) -> None:
        """Write a generic operation with a loop for each axis of the result. ``maps``: a loop or a text for each axis read."""
        if statement.form == Form.LOOPS:
            self._loops(statement, operands, maps, body)
            return
        result = statement.result
        loops = ", ".join(f"d{axis}" for axis in range(result.type.rank))
        texts = [
            ", ".join(axis if isinstance(axis, str) else f"d{axis}" for axis in axes)
            for axes in (*maps, range(result.type.rank))
        ]
        affine = ", ".join(f"affine_map<({loops}) -> ({text})>" for text in texts)
        kinds = ", ".join(['"parallel"'] * result.type.rank)
        arguments = [f"%a{at}: {scalar(value.type)}" for at, value in enumerate(statement.operands)]
        arguments.append(f"%o: {scalar(result.type)}")
        self.write(
            f"%{result.name} = linalg.generic {{indexing_maps = [{affine}], iterator_types = [{kinds}]}}"
            f" ins({', '.join(operands)} : {self.tensors(statement.operands)})"
            f" outs({self.empty(result.type)} : {self.tensor(result.type)}) {{",
            f"^bb0({', '.join(arguments)}):",
            *(f"  {line}" for line in body),
            f"  linalg.yield {'%r' if body else '%a0'} : {scalar(result.type)}",
            f"}} -> {self.tensor(result.type)}",
        )

    def _loops(
        self, statement: Statement, operands: Sequence[str], maps: Sequence[Sequence[int | str]], body: Sequence[str]
    ) -> None:
        """Write the same as loops that insert one element after the other."""
        result, indent = statement.result, ""
        kind, rank = self.tensor(result.type), result.type.rank
        zero, one = (self.new(f"arith.constant {each} : index") for each in (0, 1))
        ends = [self.size(size) for size in result.type.shape]
        target = self.empty(result.type)
        for loop, end in enumerate(ends):
            name = f"%l{loop}" if loop else f"%{result.name}"
            counter = f"%d{loop} = {zero} to {end} step {one}"
            self.write(f"{indent}{name} = scf.for {counter} iter_args(%s{loop} = {target}) -> ({kind}) {{")
            indent, target = indent + "  ", f"%s{loop}"
        for at, (operand, axes, value) in enumerate(zip(operands, maps, statement.operands, strict=True)):
            places = []
            for read, axis in enumerate(axes):
                if isinstance(axis, str):
                    place = f"%p{at}_{read}"
                    loops = ", ".join(f"d{each}" for each in range(rank))
                    self.write(
                        f"{indent}{place} = affine.apply affine_map<({loops}) -> ({axis})>({loops.replace('d', '%d')})"
                    )
                    places.append(place)
                else:
                    places.append(f"%d{axis}")
            self.write(f"{indent}%a{at} = tensor.extract {operand}[{', '.join(places)}] : {self.tensor(value.type)}")
        self.write(*(f"{indent}{line}" for line in body))
        indices = ", ".join(f"%d{axis}" for axis in range(rank))
        self.write(f"{indent}%l{rank} = tensor.insert {'%r' if body else '%a0'} into {target}[{indices}] : {kind}")
        for loop in reversed(range(rank)):
            self.write(f"{indent}scf.yield %l{loop + 1} : {kind}")
            indent = indent[2:]
            self.write(f"{indent}}}")

    def transpose(self, statement: Statement, operands: Sequence[str]) -> None:
        result = statement.result
        if statement.form != Form.NAMED:
            order = statement.attributes["order"]
            self._generic(statement, operands, [[order.index(axis) for axis in range(len(order))]], [])
            return
        self.write(
            f"%{result.name} = linalg.transpose ins({operands[0]} : {self.tensors(statement.operands)})"
            f" outs({self.empty(result.type)} : {self.tensor(result.type)}) permutation = {statement.attributes['order']}"
        )

    def reshape(self, statement: Statement, operands: Sequence[str]) -> None:
        before, after = statement.operands[0].type, statement.result.type
        groups = joined_axes(statement)
        if after.rank > before.rank:
            form = f"tensor.expand_shape {operands[0]} {groups} output_shape {self.sizes(after.shape)}"
        else:
            form = f"tensor.collapse_shape {operands[0]} {groups}"
        self.write(f"%{statement.result.name} = {form} : {self.tensor(before)} into {self.tensor(after)}")

    def broadcast(self, statement: Statement, operands: Sequence[str]) -> None:
        shape = statement.operands[0].type.shape
        axes = statement.attributes["axes"]
        result = statement.result.type.shape
        read: list[int | str] = [
            "0" if size == 1 and result[axis] != 1 else axis for axis, size in zip(axes, shape, strict=True)
        ]
        self._generic(statement, operands, [read], [])

    def slice(self, statement: Statement, operands: Sequence[str]) -> None:
        shape, starts = statement.result.type.shape, statement.attributes["starts"]
        self.write(
            f"%{statement.result.name} = tensor.extract_slice {operands[0]}{starts} {self.sizes(shape)} {[1] * len(shape)}"
            f" : {self.tensors(statement.operands)} to {self.tensor(statement.result.type)}"
        )

    def pad(self, statement: Statement, operands: Sequence[str]) -> None:
        kind = scalar(statement.result.type)
        filler = self.new(f"arith.constant {number(statement.attributes['value'], statement.result.type)} : {kind}")
        names = ", ".join(f"%i{axis}: index" for axis in range(statement.result.type.rank))
        self.write(
            f"%{statement.result.name} = tensor.pad {operands[0]} low{statement.attributes['low']}"
            f" high{statement.attributes['high']} {{",
            f"^bb0({names}):",
            f"  tensor.yield {filler} : {kind}",
            f"}} : {self.tensors(statement.operands)} to {self.tensor(statement.result.type)}",
        )

    def concat(self, statement: Statement, operands: Sequence[str]) -> None:
        result, axis = statement.result, statement.attributes["axis"]
        target, start = self.empty(result.type), 0
        for name, value in zip(operands, statement.operands, strict=True):
            starts = [start if each == axis else 0 for each in range(result.type.rank)]
            inserted = (
                f"tensor.insert_slice {name} into {target}{starts} {self.sizes(value.type.shape)} {[1] * result.type.rank}"
                f" : {self.tensor(value.type)} into {self.tensor(result.type)}"
            )
            start += value.type.shape[axis]
            if start == result.type.shape[axis]:
                self.write(f"%{result.name} = {inserted}")
            else:
                target = self.new(inserted)

    def reverse(self, statement: Statement, operands: Sequence[str]) -> None:
        axis = statement.attributes["axis"]
        last = statement.result.type.shape[axis] - 1
        read: list[int | str] = [
            f"{last} - d{each}" if each == axis else each for each in range(statement.result.type.rank)
        ]
        self._generic(statement, operands, [read], [])

    def _reduce(self, statement: Statement, operands: Sequence[str], start: str, combine: str) -> None:
        result = statement.result
        self.write(
            f"%{result.name} = linalg.reduce {{{combine}}} ins({operands[0]} : {self.tensors(statement.operands)})"
            f" outs({self.filled(result.type, start)} : {self.tensor(result.type)}) dimensions = [{statement.attributes['axis']}]"
        )

    def reduce_sum(self, statement: Statement, operands: Sequence[str]) -> None:
        combine = "arith.addf" if statement.result.type.is_float else "arith.addi"
        self._reduce(statement, operands, number(0, statement.result.type), combine)

    def reduce_max(self, statement: Statement, operands: Sequence[str]) -> None:
        self._reduce(statement, operands, *extreme(statement.result.type, "max"))

    def reduce_min(self, statement: Statement, operands: Sequence[str]) -> None:
        self._reduce(statement, operands, *extreme(statement.result.type, "min"))

    def matmul(self, statement: Statement, operands: Sequence[str]) -> None:
        result = statement.result
        name = "matmul" if result.type.rank == 2 else "batch_matmul"
        self.write(
            f"%{result.name} = linalg.{name} ins({', '.join(operands)} : {self.tensors(statement.operands)})"
            f" outs({self.filled(result.type, 0.0)} : {self.tensor(result.type)}) -> {self.tensor(result.type)}"
        )

    def take(self, statement: Statement, operands: Sequence[str]) -> None:
        result, given = statement.result, statement.operands[0].type
        places = ProgramValue("places", TensorType(result.type.shape[:1], INTEGER), statement.operands[0].range)
        kind = tensor(places.type)
        constant = self.new(f"arith.constant dense<{statement.attributes['places']}> : {kind}")
        constant = self.cast(constant, kind, self.tensor(places.type))
        others = [f"%i{axis}" for axis in range(1, result.type.rank)]
        body = [
            "%i0 = arith.index_cast %a0 : i32 to index",
            *(f"{name} = linalg.index {axis} : index" for axis, name in enumerate(others, 1)),
            f"%r = tensor.extract {operands[0]}[{', '.join(['%i0', *others])}] : {self.tensor(given)}",
        ]
        self._generic(replace(statement, operands=(places,), form=Form.GENERIC), [constant], [[0]], body)

    def _window(self, statement: Statement, operands: Sequence[str], start: str, combine: str) -> None:
        """Write a generic operation with one more loop, over the places of a window, whose size an empty operand has."""
        result, kind, rank = statement.result, scalar(statement.result.type), statement.result.type.rank
        size, stride = statement.attributes["size"], statement.attributes["stride"]
        window = result.type.of_shape((size,))
        loops = [f"d{axis}" for axis in range(rank + 1)]
        read = [*loops[: rank - 1], f"d{rank - 1} * {stride} + d{rank}"]
        maps = ", ".join(
            f"affine_map<({', '.join(loops)}) -> ({', '.join(axes)})>" for axes in (read, loops[rank:], loops[:rank])
        )
        kinds = ", ".join(['"parallel"'] * rank + ['"reduction"'])
        self.write(
            f"%{result.name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}"
            f" ins({operands[0]}, {self.empty(window)} : {self.tensors(statement.operands)}, {self.tensor(window)})"
            f" outs({self.filled(result.type, start)} : {self.tensor(result.type)}) {{",
            f"^bb0(%a0: {kind}, %w: {kind}, %o: {kind}):",
            f"  %r = {combine} %o, %a0 : {kind}",
            f"  linalg.yield %r : {kind}",
            f"}} -> {self.tensor(result.type)}",
        )

    def window_sum(self, statement: Statement, operands: Sequence[str]) -> None:
        self._window(statement, operands, "0.0", "arith.addf")

    def window_max(self, statement: Statement, operands: Sequence[str]) -> None:
        self._window(statement, operands, *extreme(statement.result.type, "max"))

    def to_float(self, statement: Statement, operands: Sequence[str]) -> None:
        given, wanted = statement.operands[0].type, statement.result.type
        cast = "uitofp" if given.dtype == BOOL else "sitofp"
        body = [f"%r = arith.{cast} %a0 : {scalar(given)} to {scalar(wanted)}"]
        self._generic(statement, operands, [list(range(wanted.rank))], body)

    def to_integer(self, statement: Statement, operands: Sequence[str]) -> None:
        given, wanted = statement.operands[0].type, statement.result.type
        body = [f"%r = arith.extui %a0 : {scalar(given)} to {scalar(wanted)}"]
        self._generic(statement, operands, [list(range(wanted.rank))], body)


class NamedLinalg(Linalg):
    """Linalg with a name for each operation on elements."""

    def name_of(self, statement: Statement) -> str:
        return ELEMENTWISE[statement.operation].named
