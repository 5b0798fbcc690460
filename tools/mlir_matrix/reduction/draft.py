"""A copy of a module that is being changed, so that every value still has its definition before its uses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from mlir_matrix.reduction.constants import constant_text
from mlir_matrix.reduction.tree import Block, Module, Operation, Value, attribute, blocks_of, copy_of, walk
from mlir_matrix.reduction.types import element_of, is_float, kind_of

#: Operations that are kept although their results are not used: they may do more.
_ACTING = re.compile(r"call|atomic|rmw|asm|barrier|wait|launch")
#: Operations whose regions see no value from outside of them, and those whose blocks end as they like.
_ISOLATED = re.compile(r"(^|[._])(func|module|package|program)$")
_OPEN_ENDED = re.compile(r"(^|[._])module$")


#: Functions whose types are known here, and what ends them.
RETURNS = {"func.func": "func.return", "llvm.func": "llvm.return"}


def is_function(operation: Operation) -> bool:
    """Return True for a function with a body."""
    return operation.name in RETURNS and any(blocks_of(operation))


def returns_of(function: Operation) -> list[Operation]:
    """Return the operations that end a function, one for each block that does."""
    last = [block.operations[-1] for block in blocks_of(function) if block.operations]
    return [one for one in last if one.name == RETURNS[function.name]]


def is_constant(operation: Operation) -> bool:
    """Return True for what needs nothing: a constant, an empty tensor of known sizes."""
    return bool(operation.results) and not operation.operands and not operation.regions


class Draft:
    """A copy of a module, and the formulas of those of its inputs that do not have the test's."""

    def __init__(self, module: Module, formulas: Mapping[str, str]) -> None:
        self.module = copy_of(module)
        self.formulas = dict(formulas)
        #: In the order of the text, as they were before any change: edits name operations by their numbers.
        self.operations = list(walk(self.module.operation))
        self.block_of: dict[Operation, Block] = {}
        self.parent_of: dict[Block, Operation] = {}
        self.definition: dict[Value, Operation] = {}
        self.uses = Counter(value for one in self.operations for value in one.operands)
        for one in self.operations:
            self.definition.update(dict.fromkeys(one.results, one))
            for block in blocks_of(one):
                self.parent_of[block] = one
                self.block_of.update(dict.fromkeys(block.operations, block))
        #: Releases before 17 have no properties.
        self._inherent = any(one.properties for one in self.operations)
        #: By the kind of its type: the name of an operation that gives a constant, and of its attribute.
        self._constants = {"!torch.vtensor": ("torch.vtensor.literal", "value")}
        for one in filter(is_constant, self.operations):
            if one.name.endswith((".constant", ".const", ".literal")):
                key = next(iter(one.properties | one.attributes), "")
                self._constants.setdefault(kind_of(one.results[0].type), (one.name, key))
        self._replaced: dict[Value, Value] = {}
        self._erased: set[Operation] = set()

    def parent(self, operation: Operation) -> Operation | None:
        block = self.block_of.get(operation)
        return None if block is None else self.parent_of[block]

    def is_last(self, operation: Operation) -> bool:
        """Return True for what ends a block: it cannot go."""
        block = self.block_of.get(operation)
        if block is None:
            return True
        return block.operations[-1] is operation and not _OPEN_ENDED.search(self.parent_of[block].name)

    def visible(self, operation: Operation) -> Iterator[Value]:
        """Yield the values that an operation may use, the nearest first."""
        block = self.block_of.get(operation)
        while block is not None:
            before = block.operations[: block.operations.index(operation)]
            yield from (value for one in reversed(before) for value in one.results)
            yield from block.arguments
            parent = self.parent_of[block]
            if _ISOLATED.search(parent.name):
                return
            operation, block = parent, self.block_of.get(parent)

    def replace(self, old: Value, new: Value) -> None:
        """Let what uses a value use another one, which must be defined before the old one."""
        self._replaced[old] = new
        self.uses[new] += self.uses[old]

    def erase(self, operation: Operation) -> None:
        """Erase an operation; uses of its results must have been replaced."""
        self._erased.add(operation)

    def insert(self, before: Operation, operation: Operation) -> None:
        operations = self.block_of[before].operations
        operations.insert(operations.index(before), operation)
        self.block_of[operation] = self.block_of[before]

    def new_constant(self, before: Operation, type_: str, number: float) -> Value | None:
        """Insert a constant; None if the type has none that is known here."""
        text = constant_text(type_, number)
        if not text:
            return None
        name, key = self._constants.get(kind_of(type_), ("arith.constant", "value"))
        constant = Operation(name=name, results=[Value(type=type_)])
        (constant.properties if self._inherent else constant.attributes)[key] = text
        self.insert(before, constant)
        return constant.results[0]

    def new_argument(self, function: Operation, type_: str) -> Value:
        """Give a function another argument; one of @main is an input with a formula."""
        value = Value(type=type_)
        if attribute(function, "sym_name") == '"main"':
            taken = {argument.input for argument in function.regions[0][0].arguments}
            names = (f"new{number}" for number in range(len(taken) + 1))
            value.input = next(name for name in names if name not in taken)
            self.formulas[value.input] = "normal(0, 1)" if is_float(element_of(type_)) else "integers(0, 2)"
        function.regions[0][0].arguments.append(value)
        return value

    def finish(self) -> None:
        """Carry out replacements and erasures, erase what is then not used, and write the types of functions anew."""
        for one in walk(self.module.operation):
            one.operands = [self._new(value) for value in one.operands]
        self._sweep()
        for one in self.operations:
            if is_function(one) and one not in self._erased:
                self._write_type(one)
        inputs = {value.input for one in self.operations for block in blocks_of(one) for value in block.arguments}
        self.formulas = {name: text for name, text in self.formulas.items() if name in inputs}

    def _new(self, value: Value) -> Value:
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def _sweep(self) -> None:
        """Erase operations, and those of which no result is used and that do nothing else."""
        uses = Counter(value for one in walk(self.module.operation) for value in one.operands)

        def kept_of(block: Block) -> list[Operation]:
            kept = []
            for one in reversed(block.operations):
                if one in self._erased or self._is_dead(one, uses):
                    for inner in walk(one):
                        uses.subtract(inner.operands)
                    continue
                for inner_block in reversed(list(blocks_of(one))):
                    inner_block.operations = kept_of(inner_block)
                kept.append(one)
            return kept[::-1]

        for block in blocks_of(self.module.operation):
            block.operations = kept_of(block)

    def _is_dead(self, operation: Operation, uses: Counter[Value]) -> bool:
        if not operation.results or any(uses[value] for value in operation.results):
            return False
        return not any(_ACTING.search(one.name) or self._acts(one) for one in walk(operation))

    def _acts(self, operation: Operation) -> bool:
        """Return True for what may store something: it has no result, but does not end its block."""
        return not operation.results and not self.is_last(operation)

    def _write_type(self, function: Operation) -> None:
        """Give a function the types of its arguments, and of what it returns; one that never does keeps its results."""
        types = ", ".join(value.type for value in function.regions[0][0].arguments)
        old = attribute(function, "function_type")
        returned = [", ".join(value.type for value in one.operands) for one in returns_of(function)]
        if function.name == "llvm.func":
            result = old.removeprefix("!llvm.func<").partition(" (")[0]
            if returned:
                result = returned[0] or "void"
            written = f"!llvm.func<{result} ({types})>"
        else:
            result = f"({returned[0]})" if returned else old.rpartition("-> ")[2]
            written = f"({types}) -> {result}"
        if re.sub(r"[() ]|!llvm\.", "", old) == re.sub(r"[() ]|!llvm\.", "", written):
            return
        for attributes in (function.properties, function.attributes):
            # Attributes of single arguments and results would have to be as many.
            attributes.pop("arg_attrs", None)
            attributes.pop("res_attrs", None)
            if "function_type" in attributes:
                attributes["function_type"] = written
