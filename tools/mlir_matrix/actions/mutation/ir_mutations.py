"""Plant miscompiles in loops, each of a kind that compilers have made, and transformations that are allowed.

A mutation is a function from a module to its *sites*: calls without arguments, in the order of the text, each of which changes
the module in one place (liberties: in all places). They are found before anything is changed, and one of them is then called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from types import ModuleType

from mlir_matrix.actions.mutation.loops import (
    CONSTANT,
    LOAD,
    LOOP,
    STORE,
    Attribute,
    IrOperation,
    IrValue,
    ValueType,
    accumulator,
    any_order,
    body,
    constant,
    definition,
    maker,
    named,
    reduces,
    trips,
    walk,
)
from mlir_matrix.actions.numerics.formats import FORMATS

Site = Callable[[], None]
#: Iterations that a vector or a tile takes at once; what it does not divide is the remainder.
_TILE = 8
#: Relative error of a constant with a digit wrong: that of torch-mlir's 0.797724 for sqrt(2/pi) is 2e-4.
_DIGIT = 2.0**-12
_BF16, _F16 = (FORMATS[name].digits - 1 for name in ("bf16", "f16"))
_SWAPPED = frozenset(
    ("arith.subf", "arith.divf", "arith.remf", "arith.subi", "arith.divsi", "arith.divui", "arith.cmpf", "arith.cmpi",
     "math.powf", "math.atan2")
)  # fmt: skip
_ARITHMETIC = ("arith.addf", "arith.subf", "arith.mulf", "arith.divf")


@dataclass(frozen=True, kw_only=True)
class Editor:
    """Make operations by the ``ir`` module of the bindings in use."""

    ir: ModuleType

    @property
    def index(self) -> ValueType:
        kind: ValueType = self.ir.IndexType.get()
        return kind

    def integer(self, bits: int) -> ValueType:
        kind: ValueType = self.ir.IntegerType.get_signless(bits)
        return kind

    def new(self, name: str, operands: Sequence[IrValue], result: ValueType, **attributes: Attribute) -> IrValue:
        """Return the result of a new operation at the current insertion point."""
        made: IrOperation = self.ir.Operation.create(name, results=[result], operands=operands, attributes=attributes)
        return made.results[0]

    def number(self, value: float, kind: ValueType) -> IrValue:
        attribute = self.ir.FloatAttr if isinstance(value, float) else self.ir.IntegerAttr
        return self.new(CONSTANT, [], kind, value=attribute.get(kind, value))

    def before(self, operation: IrOperation) -> AbstractContextManager[object]:
        place: AbstractContextManager[object] = self.ir.InsertionPoint(operation)
        return place

    def after(self, operation: IrOperation) -> AbstractContextManager[object]:
        """Insert after an operation that is not the last of its block."""
        siblings = [each.operation for each in operation.block.operations]
        return self.before(siblings[siblings.index(operation) + 1])


Finder = Callable[[Editor, IrOperation], list[Site]]


def drop_last_iteration(edit: Editor, module: IrOperation) -> list[Site]:
    """End a reduction loop one iteration early."""
    return [partial(_shorten, edit, loop, 1) for loop in named(module, LOOP) if reduces(loop)]


def skip_remainder(edit: Editor, module: IrOperation) -> list[Site]:
    """Skip the remainder of a parallel loop after whole tiles, at least one iteration."""
    free = [loop for loop in named(module, LOOP) if not reduces(loop)]
    return [partial(_shorten, edit, loop, (trips(loop) or 0) % _TILE or 1) for loop in free]


def _shorten(edit: Editor, loop: IrOperation, turns: int) -> None:
    with edit.before(loop):
        skipped = edit.new("arith.muli", [loop.operands[2], edit.number(turns, edit.index)], edit.index)
        loop.operands[1] = edit.new("arith.subi", [loop.operands[1], skipped], edit.index)


def swap_operands(edit: Editor, module: IrOperation) -> list[Site]:
    """Swap the operands of an operation that does not commute."""
    sites: list[Site] = []
    for each in walk(module):
        first = 1 if each.name == "arith.select" else 0
        if each.name in _SWAPPED or first:
            one, other = each.operands[first], each.operands[first + 1]
            if one != other and one.type != edit.index:
                sites.append(partial(_swap, each, first))
    return sites


def _swap(operation: IrOperation, first: int) -> None:
    one, other = operation.operands[first], operation.operands[first + 1]
    operation.operands[first], operation.operands[first + 1] = other, one


def round_to_bf16(edit: Editor, module: IrOperation) -> list[Site]:
    """Round a result to bf16. Accumulators have their own mutations."""
    sums = _sums(module)
    results = [each for each in walk(module) if _computes(each) and each not in sums]
    moved = [maker(store.operands[0]) for store in named(module, STORE)]
    results += [made for made in moved if made is not None and made.name == LOAD and _mantissa(made) > _BF16]
    return [partial(_round, edit, each, _BF16) for each in results if _mantissa(each) > _BF16]


def _computes(operation: IrOperation) -> bool:
    return operation.name in _ARITHMETIC or operation.name.startswith("math.")


def _mantissa(operation: IrOperation) -> int:
    """Return the stored bits of the significand of a result; 0 for what is not floating point."""
    kind = str(operation.results[0].type)
    return FORMATS[kind].digits - 1 if kind in FORMATS else 0


def narrow_accumulator(kept: int, edit: Editor, module: IrOperation) -> list[Site]:
    """Round the accumulator of a loop to ``kept`` bits of mantissa, with the range of its type."""
    return [partial(_round, edit, each, kept) for each in _sums(module) if _mantissa(each) > kept]


def _sums(module: IrOperation) -> list[IrOperation]:
    return [each for each in named(module, "arith.addf") if accumulator(each)]


def _round(edit: Editor, operation: IrOperation, kept: int) -> None:
    """Round to nearest, ties to even, by operations on bits: not every target has one for bf16."""
    value = operation.results[0]
    # Of f64, f32 or f16: bf16 has no more than is kept.
    bits, cut = edit.integer(int(str(value.type)[1:])), _mantissa(operation) - kept
    with edit.after(operation):
        word = edit.new("arith.bitcast", [value], bits)
        last = edit.new("arith.shrui", [word, edit.number(cut, bits)], bits)
        odd = edit.new("arith.andi", [last, edit.number(1, bits)], bits)
        half = edit.new("arith.addi", [word, edit.number((1 << (cut - 1)) - 1, bits)], bits)
        up = edit.new("arith.addi", [half, odd], bits)
        cleared = edit.new("arith.andi", [up, edit.number(-(1 << cut), bits)], bits)
        rounded = edit.new("arith.bitcast", [cleared], value.type)
    value.replace_all_uses_except(rounded, definition(word))


def narrow_integers(edit: Editor, module: IrOperation) -> list[Site]:
    """Cut the integer accumulator of a loop to half of its bits."""
    sums = [each for each in named(module, "arith.addi") if accumulator(each) and each.results[0].type != edit.index]
    return [partial(_cut, edit, each) for each in sums]


def _cut(edit: Editor, operation: IrOperation) -> None:
    value = operation.results[0]
    half = edit.integer(value.type.width // 2)
    with edit.after(operation):
        low = edit.new("arith.trunci", [value], half)
        back = edit.new("arith.extsi", [low], value.type)
    value.replace_all_uses_except(back, definition(low))


def off_by_one_index(edit: Editor, module: IrOperation) -> list[Site]:
    """Load the next element along an axis, or the last one, so that nothing outside is read."""
    return [
        partial(_shift, edit, load, axis)
        for load in named(module, LOAD)
        for axis, size in enumerate(load.operands[0].type.shape)
        if size != 1
    ]


def _shift(edit: Editor, load: IrOperation, axis: int) -> None:
    memref = load.operands[0]
    with edit.before(load):
        one = edit.number(1, edit.index)
        size = edit.new("memref.dim", [memref, edit.number(axis, edit.index)], edit.index)
        following = edit.new("arith.addi", [load.operands[1 + axis], one], edit.index)
        last = edit.new("arith.subi", [size, one], edit.index)
        load.operands[1 + axis] = edit.new("arith.minsi", [following, last], edit.index)


def wrong_constant(edit: Editor, module: IrOperation) -> list[Site]:
    """Replace one use of a constant: 0 by 1, an extreme by 0, any other by one with a wrong digit."""
    sites: list[Site] = []
    for each in named(module, CONSTANT):
        value = constant(each.results[0])
        kind = str(each.results[0].type)
        if value is not None and kind not in ("index", "i1"):
            uses = [(use.owner.operation, use.operand_number) for use in each.results[0].uses]
            # Uses come last first.
            sites += [partial(_replace, edit, user, at, _mistaken(value)) for user, at in reversed(uses)]
    return sites


def _mistaken(value: float) -> float:
    if isinstance(value, int):
        return value + 1
    extreme = math.isinf(value) or abs(value) > 1e30
    return 0.0 if extreme else 1.0 if value == 0 else value * (1 + _DIGIT)


def _replace(edit: Editor, user: IrOperation, at: int, value: float) -> None:
    with edit.before(user):
        user.operands[at] = edit.number(value, user.operands[at].type)


def stale_buffer(_edit: Editor, module: IrOperation) -> list[Site]:
    """Remove the initialisation of a buffer."""
    sites: list[Site] = []
    for each in named(module, STORE, "memref.copy", "vector.transfer_write"):
        made = maker(each.operands[0])
        if each.name == "memref.copy" or (made is not None and made.name == CONSTANT):
            sites.append(each.erase)
    return sites


def contract(edit: Editor, module: IrOperation) -> list[Site]:
    """Fuse every product with the addition that follows, so that both are rounded once."""
    pairs = [(each, at) for each in named(module, "arith.addf") if (at := _product(each)) is not None]
    return [partial(_fuse_all, edit, pairs)] if pairs else []


def _product(addition: IrOperation) -> int | None:
    made = [maker(operand) for operand in addition.operands]
    return next((at for at, each in enumerate(made) if each is not None and each.name == "arith.mulf"), None)


def _fuse_all(edit: Editor, pairs: list[tuple[IrOperation, int]]) -> None:
    for addition, at in pairs:
        product = definition(addition.operands[at])
        with edit.before(addition):
            operands = [*product.operands, addition.operands[1 - at]]
            fused = edit.new("math.fma", operands, addition.results[0].type)
        addition.results[0].replace_all_uses_with(fused)
        addition.erase()


def fast_math(flags: str, edit: Editor, module: IrOperation) -> list[Site]:
    """Give the code generator a permission: ``contract`` or ``reassoc``."""
    found = named(module, *_ARITHMETIC)
    return [partial(_permit, edit, found, flags)] if found else []


def _permit(edit: Editor, operations: list[IrOperation], flags: str) -> None:
    for each in operations:
        each.attributes["fastmath"] = edit.ir.Attribute.parse(f"#arith.fastmath<{flags}>")


def reverse(edit: Editor, module: IrOperation) -> list[Site]:
    """Reverse every innermost loop that only reduces."""
    found = [loop for loop in named(module, LOOP) if any_order(loop) and constant(loop.operands[2]) == 1]
    return [partial(_reverse_all, edit, found)] if found else []


def _reverse_all(edit: Editor, loops: list[IrOperation]) -> None:
    for loop in loops:
        turn = body(loop).arguments[0]
        with edit.ir.InsertionPoint.at_block_begin(body(loop)):
            ends = edit.new("arith.addi", [loop.operands[0], loop.operands[1]], edit.index)
            last = edit.new("arith.subi", [ends, loop.operands[2]], edit.index)
            backwards = edit.new("arith.subi", [last, turn], edit.index)
        turn.replace_all_uses_except(backwards, definition(backwards))


#: What must not pass, where it matters.
MISTAKES: Mapping[str, Finder] = {
    "drop-last-iteration": drop_last_iteration,
    "skip-remainder": skip_remainder,
    "swap-operands": swap_operands,
    "round-to-bf16": round_to_bf16,
    "narrow-accumulator-bf16": partial(narrow_accumulator, _BF16),
    "narrow-accumulator-f16": partial(narrow_accumulator, _F16),
    "narrow-accumulator-int": narrow_integers,
    "off-by-one-index": off_by_one_index,
    "wrong-constant": wrong_constant,
    "stale-buffer": stale_buffer,
}
#: What must pass: the same sums, rounded otherwise.
LIBERTIES: Mapping[str, Finder] = {
    "allowed-fma": contract,
    "allowed-contract": partial(fast_math, "contract"),
    "allowed-reverse": reverse,
    "allowed-reassociate": partial(fast_math, "reassoc"),
}
