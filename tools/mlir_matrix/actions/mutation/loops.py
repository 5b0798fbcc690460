"""Analyse loops over loads and stores as far as mutations need it: which ones carry a sum, which are parallel.

Everything is read off the structure of the IR (``scf.for``, ``memref.load``, ``memref.store``), without MLIR's analyses, which
its Python bindings do not have. Where that does not tell, a loop is taken for one that carries nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, MutableSequence, Sequence
from typing import Protocol

LOOP, LOAD, STORE, CONSTANT = "scf.for", "memref.load", "memref.store", "arith.constant"
#: Operations that may be done in any order, rounding apart.
COMMUTATIVE = frozenset(
    f"arith.{name}"
    for name in (
        "addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf", "addi", "muli", "maxsi", "minsi", "maxui", "minui",
    )
)  # fmt: skip


# Of MLIR's bindings, what is read here; each release has classes of its own.


class ValueType(Protocol):
    """A type of IR: a memref has a ``shape``, an integer a ``width``."""

    shape: Sequence[int]
    width: int


class Attribute(Protocol):
    """An attribute. Without a ``value``, it is none of a number."""


class ValueUse(Protocol):
    """A use of a value, as an operand of ``owner``."""

    owner: IrOperation
    operand_number: int


class IrValue(Protocol):
    """A result of an operation, or an argument of a block."""

    owner: IrOperation | LoopBlock
    type: ValueType
    uses: Sequence[ValueUse]

    def replace_all_uses_with(self, new: IrValue, /) -> None: ...

    def replace_all_uses_except(self, new: IrValue, user: IrOperation, /) -> None: ...


class LoopBlock(Protocol):
    """Operations in their order, with arguments."""

    arguments: Sequence[IrValue]
    operations: Sequence[IrOperation]


class Region(Protocol):
    """The blocks of a loop or a function."""

    blocks: Sequence[LoopBlock]


class IrOperation(Protocol):
    """An operation of any dialect; ``operation`` is it without the class of its dialect."""

    name: str
    operation: IrOperation
    parent: IrOperation
    block: LoopBlock
    regions: Sequence[Region]
    operands: MutableSequence[IrValue]
    results: Sequence[IrValue]
    attributes: MutableMapping[str, Attribute]

    def erase(self) -> None: ...


def walk(operation: IrOperation) -> Iterator[IrOperation]:
    """Yield every operation inside this one, in the order of the text."""
    for region in operation.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                yield from walk(each.operation)


def named(operation: IrOperation, *names: str) -> list[IrOperation]:
    """Return the operations inside with one of these names."""
    return [each for each in walk(operation) if each.name in names]


def maker(value: IrValue) -> IrOperation | None:
    """Return the operation that defines a value; None for an argument of a block."""
    made: IrOperation | None = getattr(value.owner, "operation", None)
    return made


def definition(value: IrValue) -> IrOperation:
    """Return the operation that defines a value which is no argument of a block."""
    made = maker(value)
    assert made is not None
    return made


def body(loop: IrOperation) -> LoopBlock:
    """Return the block of an ``scf.for``: its first argument counts, the others are carried."""
    return loop.regions[0].blocks[0]


def constant(value: IrValue) -> int | float | None:
    """Return the constant that a value is; None if it is unknown."""
    made = maker(value)
    if made is None or made.name != CONSTANT:
        return None
    attribute = made.attributes["value"]
    number = getattr(attribute, "value", None)
    return number if isinstance(number, (int, float)) else None


def trips(loop: IrOperation) -> int | None:
    """Return the trip count of a loop; None if it is unknown before the run."""
    low, high, step = (constant(operand) for operand in list(loop.operands)[:3])
    if isinstance(low, int) and isinstance(high, int) and isinstance(step, int) and step > 0:
        return max(0, -((low - high) // step))
    return None


def depends(value: IrValue, on: IrValue) -> bool:
    """Return whether a value is computed from another: by arithmetic and loads, not by what loops carry."""
    todo, seen = [value], set[int]()
    while todo:
        each = todo.pop()
        if each == on:
            return True
        made = maker(each)
        if made is not None and made.name != LOOP and hash(each) not in seen:
            seen.add(hash(each))
            todo.extend(made.operands)
    return False


def same_place(load: IrOperation, store: IrOperation) -> bool:
    """Return whether a load reads the very element that a store writes."""
    return list(load.operands) == list(store.operands)[1:]


def reduces(loop: IrOperation) -> bool:
    """Return whether a loop reduces: it carries values, or reads and writes an element independent of the iteration."""
    if len(loop.results):
        return True
    turn = body(loop).arguments[0]
    loads = named(loop, LOAD)
    return any(
        not any(depends(index, turn) for index in list(store.operands)[2:])
        and any(same_place(load, store) for load in loads)
        for store in named(loop, STORE)
    )


def accumulator(operation: IrOperation) -> bool:
    """Return whether an operation updates an accumulator: one that is read and written at one place, or is carried."""
    return any(_writes_back(use.owner.operation, operation) for use in operation.results[0].uses)


def _writes_back(user: IrOperation, operation: IrOperation) -> bool:
    operands = list(operation.operands)
    if user.name == STORE and maker(user.operands[0]) == operation:
        made = [maker(operand) for operand in operands]
        return any(each is not None and each.name == LOAD and same_place(each, user) for each in made)
    if user.name == "scf.yield" and user.parent.name == LOOP:
        carried = list(body(user.parent.operation).arguments)[1:]
        return any(operand == argument for operand in operands for argument in carried)
    return False


def any_order(loop: IrOperation) -> bool:
    """Return whether an innermost loop may be reversed: it only computes sums, products and extremes."""
    if named(loop, LOOP) or not reduces(loop):
        return False
    stores = named(loop, STORE)
    written = [store.operands[0] for store in stores]
    if len(loop.results):
        if stores:
            return False
        written = list(named(loop, "scf.yield")[-1].operands)
    others = {each.name for each in walk(loop)} & {"memref.copy", "func.call", "scf.while", "scf.if"}
    return not others and _steady(loop, stores) and all(_adds(value) for value in written)


def _steady(loop: IrOperation, stores: Sequence[IrOperation]) -> bool:
    turn = body(loop).arguments[0]
    return not any(depends(index, turn) for store in stores for index in list(store.operands)[2:])


def _adds(value: IrValue) -> bool:
    made = maker(value)
    return made is not None and made.name in COMMUTATIVE and accumulator(made)
