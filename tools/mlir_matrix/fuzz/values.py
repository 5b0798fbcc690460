"""Programs that are independent of any framework: statements on tensors, whose elements lie in a known interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar


class Form(StrEnum):
    """How MLIR has a statement on tensors."""

    GENERIC = "generic"
    NAMED = "named"
    #: Loops of scf that insert elements.
    LOOPS = "loops"
    #: Operations on vectors with all elements.
    VECTOR = "vector"


class Flow(StrEnum):
    """Which control flow a statement is in. All conditions are read from an input."""

    STRAIGHT = "straight"
    #: One arm of a condition, which is taken; the other one gives zeros.
    THEN = "then"
    ELSE = "else"
    #: The only iteration of a loop, which carries the result.
    LOOP = "loop"


#: The bits of a dtype that is a floating-point format.
FLOATS = {"f64": 64, "f32": 32, "bf16": 16, "f16": 16}
BOOL, INTEGER = "bool", "i32"
#: The input of which a program reads sizes: element ``n`` is ``n``.
SIZES, MOST_SIZES = "sizes", 64


@dataclass(frozen=True)
class TensorType:
    """A tensor's shape and dtype."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def of_shape(self, shape: tuple[int, ...]) -> TensorType:
        """Return a type of the same dtype."""
        return TensorType(shape, self.dtype)

    def of_dtype(self, dtype: str) -> TensorType:
        """Return a type of the same shape."""
        return TensorType(self.shape, dtype)


@dataclass(frozen=True)
class Interval:
    """Between which numbers all elements are. Both ends are finite."""

    low: float
    high: float

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    def joined(self, other: Interval) -> Interval:
        """Return the smallest interval with both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))


@dataclass(frozen=True)
class ProgramValue:
    """An input of a program, or what a statement gives."""

    name: str
    type: TensorType
    range: Interval
    #: Whether every program computes the same bits, so that a decision about it has one outcome.
    exact: bool = False


@dataclass(frozen=True)
class Statement:
    """One operation. ``attributes`` are its own, such as an axis."""

    operation: str
    result: ProgramValue
    operands: tuple[ProgramValue, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    form: Form = Form.GENERIC
    flow: Flow = Flow.STRAIGHT


@dataclass
class Program:
    """Statements in their order, and the values that are returned."""

    inputs: list[ProgramValue] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    returned: list[ProgramValue] = field(default_factory=list)
    #: Chooses the elements of the inputs.
    seed: int = 0
    #: Sizes that are ``?`` in MLIR's types: the program reads them from its first input. ``None``: there is no such input.
    dynamic: frozenset[int] | None = None
    #: The workload of the catalog that it is made of: none.
    origin: ClassVar[str] = ""

    def with_inputs(self, seed: int) -> Program:
        """Return the program with other elements in its inputs."""
        return replace(self, seed=seed)

    @property
    def parameters(self) -> list[str]:
        """The names of all inputs, in their order."""
        names = [value.name for value in self.inputs]
        return names if self.dynamic is None else [SIZES, *names]

    @property
    def operations(self) -> list[str]:
        """The operations by name, in their order."""
        return [statement.operation for statement in self.statements]


def merged(programs: Iterable[Program]) -> Program:
    """Return one program with the statements of all, which are of one profile, and whose names differ."""
    whole = Program()
    for program in programs:
        whole.dynamic = program.dynamic
        whole.inputs += program.inputs
        whole.statements += program.statements
        whole.returned += program.returned
    return whole
