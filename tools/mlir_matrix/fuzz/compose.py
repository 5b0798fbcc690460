"""Compose programs, each with the pairs of operations that were made least so far."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mlir_matrix.fuzz.elementwise import ELEMENTWISE, LARGEST, Elementwise
from mlir_matrix.fuzz.profiles import Profile
from mlir_matrix.fuzz.structural import MOST_ELEMENTS, SIZES, STRUCTURAL, Drawn
from mlir_matrix.fuzz.values import (
    BOOL,
    INTEGER,
    MOST_SIZES,
    Flow,
    Interval,
    Program,
    ProgramValue,
    Statement,
    TensorType,
)

#: How often the second operand is an input of its own, though there is a value of its type.
_NEW_INPUT = 0.15
#: How often the second operand may be the first one.
_TWICE = 0.05
_MOST_RETURNED = 2
#: How often a statement is in a branch or a loop, where conditions are read from an input.
_IN_FLOW = 0.2


@dataclass
class Coverage:
    """How often each operation was made, and each after the one before it."""

    operations: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def note(self, program: Program) -> None:
        """Count the operations of a program."""
        self.operations.update(program.operations)
        self.pairs.update(pairwise(["", *program.operations]))


class Composer:
    """Composes programs of a profile from a seed."""

    def __init__(self, seed: str, profile: Profile, coverage: Coverage) -> None:
        self._chance = random.Random(seed)
        self._known = profile.operations
        self._forms = profile.forms
        self._coverage = coverage
        self._dtype = profile.dtype
        self._dynamic: frozenset[int] | None = None
        if profile.dynamic:
            # Programs of a batch have it in common.
            self._dynamic = frozenset(self._chance.sample(range(MOST_SIZES), MOST_SIZES // 2))
        self._number = 0

    def programs(self, lengths: tuple[int, int]) -> Iterator[Program]:
        """Yield programs without end. ``lengths``: the least and the largest number of operations."""
        while True:
            program = self._program(self._chance.randint(*lengths))
            if program.statements:
                self._coverage.note(program)
                yield program

    def _program(self, length: int) -> Program:
        program = Program(dynamic=self._dynamic)
        values = [self._input(program, self._drawn_type())]
        last = ""
        for _ in range(length):
            statement = self._statement(program, values, last)
            if statement is None:
                break
            program.statements.append(statement)
            values.append(statement.result)
            last = statement.operation
        results = [statement.result for statement in program.statements]
        earlier = self._chance.sample(
            results[:-1], min(len(results) - 1, self._chance.randrange(_MOST_RETURNED)) if results else 0
        )
        program.returned = [*results[-1:], *earlier]
        return program

    def _drawn_type(self) -> TensorType:
        while True:
            shape = tuple(self._chance.choice(SIZES) for _ in range(self._chance.randint(1, 3)))
            if (
                made := TensorType(shape, INTEGER if self._chance.random() < 0.15 else self._dtype)
            ).elements <= MOST_ELEMENTS:
                return made

    def _input(self, program: Program, wanted: TensorType) -> ProgramValue:
        ends = {BOOL: Interval(0, 1), INTEGER: Interval(-9, 9)}.get(wanted.dtype) or self._chance.choice(
            [Interval(-2, 2), Interval(0.25, 3)]
        )
        value = ProgramValue(self._name("x"), wanted, ends, exact=True)
        program.inputs.append(value)
        return value

    def _name(self, letter: str) -> str:
        self._number += 1
        return f"{letter}{self._number}"

    def _statement(self, program: Program, values: Sequence[ProgramValue], last: str) -> Statement | None:
        """Return a statement with the operation that was made least after the last one; None if no operation is possible."""
        uses = self._coverage
        rarest = sorted(
            self._known, key=lambda name: (uses.pairs[last, name], uses.operations[name], self._chance.random())
        )
        inputs = len(program.inputs)
        for name in rarest:
            drawn = self._drawn(program, name, values)
            if drawn is None or drawn.type.elements > MOST_ELEMENTS or drawn.range.size > LARGEST:
                # Nothing reads the inputs that were made for it.
                del program.inputs[inputs:]
                continue
            result = ProgramValue(self._name("v"), drawn.type, drawn.range, drawn.exact)
            form = self._chance.choice(self._forms)
            return Statement(name, result, drawn.operands, drawn.attributes, form, self._flow())
        return None

    def _flow(self) -> Flow:
        if self._dynamic is None or self._chance.random() > _IN_FLOW:
            return Flow.STRAIGHT
        return self._chance.choice((Flow.THEN, Flow.ELSE, Flow.LOOP))

    def _drawn(self, program: Program, name: str, values: Sequence[ProgramValue]) -> Drawn | None:
        if name in STRUCTURAL:
            return STRUCTURAL[name](self._chance, values)
        operation = ELEMENTWISE[name]
        newest = values[-1]
        operands = self._operands(program, operation, values)
        if not operands or (operation.decides and not all(each.exact for each in operands)):
            return None
        ends = operation.ends(*(each.range for each in operands))
        if ends is None:
            return None
        dtype = operation.result or operands[-1].type.dtype
        exact = operation.exact and all(each.exact for each in operands)
        return Drawn(operands, newest.type.of_dtype(dtype), ends, exact)

    def _operands(
        self, program: Program, operation: Elementwise, values: Sequence[ProgramValue]
    ) -> tuple[ProgramValue, ...]:
        """Return operands, one of them the newest value; empty where that is of another dtype."""
        newest = values[-1]
        if operation.operands == 3:
            # A selection, by a mask that is the newest value or another.
            if newest.type.dtype == BOOL:
                wanted = newest.type.of_dtype(self._dtype)
                return (newest, self._other(program, values, wanted), self._other(program, values, wanted))
            mask = self._other(program, values, newest.type.of_dtype(BOOL))
            return (mask, newest, self._other(program, values, newest.type))
        if newest.type.dtype != (self._dtype if operation.dtype == "float" else operation.dtype):
            return ()
        if operation.operands == 1:
            return (newest,)
        pair = [newest, self._other(program, values, newest.type)]
        self._chance.shuffle(pair)
        return tuple(pair)

    def _other(self, program: Program, values: Sequence[ProgramValue], wanted: TensorType) -> ProgramValue:
        known = [value for value in (*program.inputs, *values) if value.type == wanted]
        # Twice the same one often gives a constant, which tells nothing.
        others = [value for value in known if value is not values[-1]]
        if self._chance.random() > _TWICE:
            known = others
        if known and self._chance.random() > _NEW_INPUT:
            return self._chance.choice(known)
        return self._input(program, wanted)
