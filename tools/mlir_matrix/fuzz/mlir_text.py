"""Programs as MLIR: functions of linalg on tensors, of TOSA and of StableHLO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from mlir_matrix.fuzz.elementwise import ELEMENTWISE
from mlir_matrix.fuzz.mlir_types import extreme, number, scalar, tensor, vector
from mlir_matrix.fuzz.structural import STRUCTURAL
from mlir_matrix.fuzz.values import BOOL, Form, Program, Statement, Type, Value
from mlir_matrix.fuzz.vector_text import has_vector, write_vector

LINALG, TOSA, STABLEHLO = "linalg.mlir", "tosa.mlir", "stablehlo.mlir"


def text_of(program: Program, source: str) -> str:
    """Return the text of one of the sources."""
    return {LINALG: Linalg, TOSA: Tosa, STABLEHLO: StableHlo}[source](program).text()


def _types(values: Iterable[Value]) -> str:
    return ", ".join(tensor(value.type) for value in values)


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
            f"func.func @main({inputs}) -> ({_types(returned)}) {{\n{body}  return {names} : {_types(returned)}\n}}\n"
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


class Linalg(Writer):
    """Linalg on tensors, and the same as loops of scf or as operations on vectors: a statement has a form."""

    def statement(self, statement: Statement, operands: Sequence[str]) -> None:
        if statement.form == Form.VECTOR and has_vector(statement):
            self._vector(statement, operands)
        else:
            super().statement(statement, operands)

    def _vector(self, statement: Statement, operands: Sequence[str]) -> None:
        """Read whole tensors as vectors, and write one."""
        result = statement.result.type
        zero = self.new("arith.constant 0 : index")

        def places(type: Type) -> str:
            return f"[{', '.join([zero] * type.rank)}]"

        def bounds(type: Type) -> str:
            return f"{{in_bounds = [{', '.join(['true'] * type.rank)}]}}"

        read = []
        for name, value in zip(operands, statement.operands, strict=True):
            filler = self.new(f"arith.constant {number(0, value.type)} : {scalar(value.type)}")
            read.append(
                self.new(
                    f"vector.transfer_read {name}{places(value.type)}, {filler} {bounds(value.type)}"
                    f" : {tensor(value.type)}, {vector(value.type)}"
                )
            )
        made = write_vector(self, statement, read)
        self.write(
            f"%{statement.result.name} = vector.transfer_write {made}, {self._empty(result)}{places(result)} {bounds(result)}"
            f" : {vector(result)}, {tensor(result)}"
        )

    def elementwise(self, statement: Statement, operands: Sequence[str]) -> None:
        operation, result = ELEMENTWISE[statement.operation], statement.result
        if statement.form == Form.NAMED and operation.named:
            types = _types(statement.operands)
            self.write(
                f"%{result.name} = linalg.{operation.named} ins({', '.join(operands)} : {types})"
                f" outs({self._empty(result.type)} : {tensor(result.type)}) -> {tensor(result.type)}"
            )
            return
        arguments = [f"%a{at}" for at in range(len(operands))]
        kind = scalar(statement.operands[-1].type)
        body = operation.scalar.format(*arguments, r="%r", t=kind).split("\n")
        identity = list(range(result.type.rank))
        self._generic(statement, operands, [identity] * len(operands), body)

    def _empty(self, type: Type) -> str:
        return self.new(f"tensor.empty() : {tensor(type)}")

    def _filled(self, type: Type, value: float | str) -> str:
        text = value if isinstance(value, str) else number(value, type)
        constant = self.new(f"arith.constant {text} : {scalar(type)}")
        return self.new(
            f"linalg.fill ins({constant} : {scalar(type)}) outs({self._empty(type)} : {tensor(type)}) -> {tensor(type)}"
        )

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
            f" ins({', '.join(operands)} : {_types(statement.operands)})"
            f" outs({self._empty(result.type)} : {tensor(result.type)}) {{",
            f"^bb0({', '.join(arguments)}):",
            *(f"  {line}" for line in body),
            f"  linalg.yield {'%r' if body else '%a0'} : {scalar(result.type)}",
            f"}} -> {tensor(result.type)}",
        )

    def _loops(
        self, statement: Statement, operands: Sequence[str], maps: Sequence[Sequence[int | str]], body: Sequence[str]
    ) -> None:
        """Write the same as loops that insert one element after the other."""
        result, indent = statement.result, ""
        kind, rank = tensor(result.type), result.type.rank
        zero, one = (self.new(f"arith.constant {each} : index") for each in (0, 1))
        ends = [self.new(f"arith.constant {size} : index") for size in result.type.shape]
        target = self._empty(result.type)
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
            self.write(f"{indent}%a{at} = tensor.extract {operand}[{', '.join(places)}] : {tensor(value.type)}")
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
            f"%{result.name} = linalg.transpose ins({operands[0]} : {_types(statement.operands)})"
            f" outs({self._empty(result.type)} : {tensor(result.type)}) permutation = {statement.attributes['order']}"
        )

    def reshape(self, statement: Statement, operands: Sequence[str]) -> None:
        before, after = statement.operands[0].type, statement.result.type
        wide, narrow = (after, before) if after.rank > before.rank else (before, after)
        if wide.rank == narrow.rank:
            groups = [[axis] for axis in range(wide.rank)]
        else:
            joined = next(
                at
                for at in range(narrow.rank)
                if narrow.shape[:at] == wide.shape[:at] and narrow.shape[at + 1 :] == wide.shape[at + 2 :]
            )
            groups = [[axis] for axis in range(joined)] + [[joined, joined + 1]]
            groups += [[axis] for axis in range(joined + 2, wide.rank)]
        if after.rank > before.rank:
            form = f"tensor.expand_shape {operands[0]} {groups} output_shape {list(after.shape)}"
        else:
            form = f"tensor.collapse_shape {operands[0]} {groups}"
        self.write(f"%{statement.result.name} = {form} : {tensor(before)} into {tensor(after)}")

    def broadcast(self, statement: Statement, operands: Sequence[str]) -> None:
        shape = statement.operands[0].type.shape
        axes = statement.attributes["axes"]
        result = statement.result.type.shape
        read: list[int | str] = [
            "0" if size == 1 and result[axis] != 1 else axis for axis, size in zip(axes, shape, strict=True)
        ]
        self._generic(statement, operands, [read], [])

    def slice(self, statement: Statement, operands: Sequence[str]) -> None:
        sizes, starts = list(statement.result.type.shape), statement.attributes["starts"]
        self.write(
            f"%{statement.result.name} = tensor.extract_slice {operands[0]}{starts} {sizes} {[1] * len(sizes)}"
            f" : {_types(statement.operands)} to {tensor(statement.result.type)}"
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
            f"}} : {_types(statement.operands)} to {tensor(statement.result.type)}",
        )

    def concat(self, statement: Statement, operands: Sequence[str]) -> None:
        result, axis = statement.result, statement.attributes["axis"]
        target, start = self._empty(result.type), 0
        for name, value in zip(operands, statement.operands, strict=True):
            starts = [start if each == axis else 0 for each in range(result.type.rank)]
            inserted = (
                f"tensor.insert_slice {name} into {target}{starts} {list(value.type.shape)} {[1] * result.type.rank}"
                f" : {tensor(value.type)} into {tensor(result.type)}"
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
            f"%{result.name} = linalg.reduce {{{combine}}} ins({operands[0]} : {_types(statement.operands)})"
            f" outs({self._filled(result.type, start)} : {tensor(result.type)}) dimensions = [{statement.attributes['axis']}]"
        )

    def reduce_sum(self, statement: Statement, operands: Sequence[str]) -> None:
        is_float = statement.result.type.is_float
        self._reduce(statement, operands, "0.0" if is_float else "0", "arith.addf" if is_float else "arith.addi")

    def reduce_max(self, statement: Statement, operands: Sequence[str]) -> None:
        self._reduce(statement, operands, *extreme(statement.result.type, "max"))

    def reduce_min(self, statement: Statement, operands: Sequence[str]) -> None:
        self._reduce(statement, operands, *extreme(statement.result.type, "min"))

    def matmul(self, statement: Statement, operands: Sequence[str]) -> None:
        result = statement.result
        name = "matmul" if result.type.rank == 2 else "batch_matmul"
        self.write(
            f"%{result.name} = linalg.{name} ins({', '.join(operands)} : {_types(statement.operands)})"
            f" outs({self._filled(result.type, 0.0)} : {tensor(result.type)}) -> {tensor(result.type)}"
        )

    def to_float(self, statement: Statement, operands: Sequence[str]) -> None:
        given, wanted = statement.operands[0].type, statement.result.type
        cast = "uitofp" if given.dtype == BOOL else "sitofp"
        body = [f"%r = arith.{cast} %a0 : {scalar(given)} to {scalar(wanted)}"]
        self._generic(statement, operands, [list(range(wanted.rank))], body)

    def to_integer(self, statement: Statement, operands: Sequence[str]) -> None:
        given, wanted = statement.operands[0].type, statement.result.type
        body = [f"%r = arith.extui %a0 : {scalar(given)} to {scalar(wanted)}"]
        self._generic(statement, operands, [list(range(wanted.rank))], body)


class Tosa(Writer):
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
            statement, "transpose", operands, [_types(statement.operands)], f" {{perms = array<i32: {order}>}}"
        )

    def reshape(self, statement: Statement, operands: Sequence[str]) -> None:
        self._with_shapes(statement, "reshape", operands[0], statement.result.type.shape)

    def broadcast(self, statement: Statement, operands: Sequence[str]) -> None:
        value, result = statement.operands[0], statement.result
        shape = [1] * result.type.rank
        for axis, size in zip(statement.attributes["axes"], value.type.shape, strict=True):
            shape[axis] = size
        name, kind = self._shape(shape)
        between = value.type.of_shape(tuple(shape))
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
        self._operation(statement, "pad", [operands[0], shape, filler], [_types(statement.operands), kind, one])

    def concat(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, "concat", operands, [_types(statement.operands)], _axis(statement))

    def reverse(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, "reverse", operands, [_types(statement.operands)], _axis(statement))

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
        self._operation(statement, "cast", operands, [_types(statement.operands)])


def _axis(statement: Statement) -> str:
    return f" {{axis = {statement.attributes['axis']} : i32}}"


class StableHlo(Writer):
    """StableHLO."""

    def elementwise(self, statement: Statement, operands: Sequence[str]) -> None:
        name, _, direction = ELEMENTWISE[statement.operation].stablehlo.partition(" ")
        result = tensor(statement.result.type)
        if name == "compare":
            types = f"({_types(statement.operands)}) -> {result}"
            operands = [direction, *operands]
        elif name == "select":
            types = _types(statement.operands[:2])
        else:
            types = result
        self.write(f"%{statement.result.name} = stablehlo.{name} {', '.join(operands)} : {types}")

    def _operation(self, statement: Statement, form: str, operands: Sequence[Value] = (), more: str = "") -> None:
        types = _types(operands or statement.operands)
        self.write(f"%{statement.result.name} = stablehlo.{form} : ({types}{more}) -> {tensor(statement.result.type)}")

    def _constant(self, text: str, type: Type) -> tuple[str, str]:
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
        starts, shape = statement.attributes["starts"], statement.result.type.shape
        window = ", ".join(f"{start}:{start + size}" for start, size in zip(starts, shape, strict=True))
        self._operation(statement, f"slice {operands[0]} [{window}]")

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

    def to_float(self, statement: Statement, operands: Sequence[str]) -> None:
        self._operation(statement, f"convert {operands[0]}")

    to_integer = to_float
