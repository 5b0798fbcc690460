"""Analyse loops over loads and stores as far as mutations need it: which ones carry a sum, which are parallel.

Everything is read off the structure of the IR (``scf.for``, ``memref.load``, ``memref.store``), without MLIR's analyses, which
its Python bindings do not have. Where that does not tell, a loop is taken for one that carries nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

LOOP, LOAD, STORE, CONSTANT = "scf.for", "memref.load", "memref.store", "arith.constant"
#: Operations that may be done in any order, rounding apart.
COMMUTATIVE = frozenset(
    f"arith.{name}"
    for name in (
        "addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf", "addi", "muli", "maxsi", "minsi", "maxui", "minui",
    )
)  # fmt: skip


def walk(operation: Any) -> Iterator[Any]:
    """Yield every operation inside this one, in the order of the text."""
    for region in operation.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                yield from walk(each.operation)


def named(operation: Any, *names: str) -> list[Any]:
    """Return the operations inside with one of these names."""
    return [each for each in walk(operation) if each.name in names]


def maker(value: Any) -> Any:
    """Return the operation that defines a value; None for an argument of a block."""
    owner = value.owner
    return owner.operation if hasattr(owner, "operands") else None


def body(loop: Any) -> Any:
    """Return the block of an ``scf.for``: its first argument counts, the others are carried."""
    return loop.regions[0].blocks[0]


def constant(value: Any) -> int | float | None:
    """Return the constant that a value is; None if it is unknown."""
    made = maker(value)
    if made is None or made.name != CONSTANT:
        return None
    attribute = made.attributes["value"]
    number = getattr(attribute, "value", None)
    return number if isinstance(number, (int, float)) else None


def trips(loop: Any) -> int | None:
    """Return the trip count of a loop; None if it is unknown before the run."""
    low, high, step = (constant(operand) for operand in list(loop.operands)[:3])
    if isinstance(low, int) and isinstance(high, int) and isinstance(step, int) and step > 0:
        return max(0, -((low - high) // step))
    return None


def depends(value: Any, on: Any) -> bool:
    """Return whether a value is computed from another: by arithmetic and loads, not by what loops carry."""
    todo, seen = [value], set()
    while todo:
        each = todo.pop()
        if each == on:
            return True
        made = maker(each)
        if made is not None and made.name != LOOP and hash(each) not in seen:
            seen.add(hash(each))
            todo.extend(made.operands)
    return False


def same_place(load: Any, store: Any) -> bool:
    """Return whether a load reads the very element that a store writes."""
    return list(load.operands) == list(store.operands)[1:]


def reduces(loop: Any) -> bool:
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


def accumulator(operation: Any) -> bool:
    """Return whether an operation updates an accumulator: one that is read and written at one place, or is carried."""
    return any(_writes_back(use.owner.operation, operation) for use in operation.results[0].uses)


def _writes_back(user: Any, operation: Any) -> bool:
    operands = list(operation.operands)
    if user.name == STORE and maker(user.operands[0]) == operation:
        made = [maker(operand) for operand in operands]
        return any(each is not None and each.name == LOAD and same_place(each, user) for each in made)
    if user.name == "scf.yield" and user.parent.name == LOOP:
        carried = list(body(user.parent.operation).arguments)[1:]
        return any(operand == argument for operand in operands for argument in carried)
    return False


def any_order(loop: Any) -> bool:
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


def _steady(loop: Any, stores: Sequence[Any]) -> bool:
    turn = body(loop).arguments[0]
    return not any(depends(index, turn) for store in stores for index in list(store.operands)[2:])


def _adds(value: Any) -> bool:
    made = maker(value)
    return made is not None and made.name in COMMUTATIVE and accumulator(made)
