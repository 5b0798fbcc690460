"""The operations that change shapes or dtypes: what is drawn for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from mlir_matrix.fuzz.values import BOOL, INTEGER, Interval, ProgramValue, Statement, TensorType

#: Neither multiples of a vector's length nor of a tile's, and those that are, and 1.
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 33)
MOST_ELEMENTS, MOST_RANK = 2500, 4


class Drawn(NamedTuple):
    """A statement but for its result's name."""

    operands: tuple[ProgramValue, ...]
    type: TensorType
    range: Interval
    exact: bool
    attributes: Mapping[str, Any] = MappingProxyType({})


#: Takes the values so far, the newest last; returns None where the newest does not allow it.
Draw = Callable[[random.Random, Sequence[ProgramValue]], Drawn | None]


def _moved(value: ProgramValue, shape: Sequence[int], **attributes: Any) -> Drawn:
    return Drawn((value,), value.type.of_shape(tuple(shape)), value.range, value.exact, attributes)


def _transpose(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    shape = values[-1].type.shape
    order = chance.sample(range(len(shape)), len(shape))
    if order == sorted(order):
        return None
    return _moved(values[-1], [shape[axis] for axis in order], order=order)


def _reshape(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    """Join two axes that are beside each other, or split one."""
    shape = values[-1].type.shape
    splits = [
        (*shape[:axis], part, size // part, *shape[axis + 1 :])
        for axis, size in enumerate(shape)
        for part in range(1, size)
        if size % part == 0 and len(shape) < MOST_RANK
    ]
    joins = [
        (*shape[:axis], first * second, *shape[axis + 2 :]) for axis, (first, second) in enumerate(pairwise(shape))
    ]
    found = [each for each in (splits, joins) if each]
    if not found:
        return None
    return _moved(values[-1], chance.choice(chance.choice(found)))


def _broadcast(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    """Repeat along new axes and along those of size 1."""
    shape = values[-1].type.shape
    if len(shape) == MOST_RANK:
        return None
    place = chance.randint(0, len(shape))
    stretched = [chance.choice(SIZES) if size == 1 else size for size in shape]
    wanted = (*stretched[:place], chance.choice(SIZES), *stretched[place:])
    axes = [axis + (axis >= place) for axis in range(len(shape))]
    return _moved(values[-1], wanted, axes=axes)


def _slice(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    shape = values[-1].type.shape
    starts = [chance.randrange(max(1, size // 2)) for size in shape]
    sizes = [chance.randint(1, size - start) for size, start in zip(shape, starts, strict=True)]
    if tuple(sizes) == shape:
        return None
    return _moved(values[-1], sizes, starts=starts)


def _pad(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    value = values[-1]
    if not value.type.is_float:
        return None
    low, high = ([chance.choice((0, 0, 1, 2)) for _ in value.type.shape] for _ in range(2))
    if not any((*low, *high)):
        return None
    filler = chance.choice((0.0, 1.5))
    shape = [before + size + after for before, size, after in zip(low, value.type.shape, high, strict=True)]
    joined = value.range.joined(Interval(filler, filler))
    return Drawn(
        (value,), value.type.of_shape(tuple(shape)), joined, value.exact, {"low": low, "high": high, "value": filler}
    )


def _concat(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    first = values[-1]
    axis = chance.randrange(first.type.rank)
    others = [
        value
        for value in values
        if value.type.rank == first.type.rank and _without(value, axis) == _without(first, axis)
    ]
    second = chance.choice(others)
    shape = list(first.type.shape)
    shape[axis] += second.type.shape[axis]
    joined = first.range.joined(second.range)
    return Drawn(
        (first, second), first.type.of_shape(tuple(shape)), joined, first.exact and second.exact, {"axis": axis}
    )


def _reverse(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    return _moved(values[-1], values[-1].type.shape, axis=chance.randrange(values[-1].type.rank))


def _without(value: ProgramValue, axis: int) -> TensorType:
    shape = value.type.shape
    return value.type.of_shape((*shape[:axis], *shape[axis + 1 :]))


def _sum(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    value, axis = values[-1], chance.randrange(values[-1].type.rank)
    count = value.type.shape[axis]
    if value.type.rank == 1 or value.type.dtype == BOOL:
        return None
    total = Interval(min(0, value.range.low * count), max(0, value.range.high * count))
    return Drawn((value,), _without(value, axis), total, not value.type.is_float, {"axis": axis})


def _largest(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    value, axis = values[-1], chance.randrange(values[-1].type.rank)
    if value.type.rank == 1 or value.type.dtype == BOOL:
        return None
    return Drawn((value,), _without(value, axis), value.range, value.exact, {"axis": axis})


def _matmul(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    """Multiply by any value that fits; the axes before the last two are the same."""
    first = values[-1]
    if first.type.rank not in (2, 3) or not first.type.is_float:
        return None
    others = [
        value
        for value in values
        if value.type.dtype == first.type.dtype
        and value.type.rank == first.type.rank
        and value.type.shape[:-2] == first.type.shape[:-2]
        and value.type.shape[-2] == first.type.shape[-1]
    ]
    if not others:
        return None
    second = chance.choice(others)
    reach = first.range.size * second.range.size * first.type.shape[-1]
    shape = (*first.type.shape[:-1], second.type.shape[-1])
    return Drawn((first, second), first.type.of_shape(shape), Interval(-reach, reach), exact=False)


def _to_float(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    """Convert integers and booleans, which floating point has exactly."""
    value = values[-1]
    floats = [each for each in values if each.type.is_float]
    if value.type.is_float or not floats:
        return None
    return Drawn((value,), value.type.of_dtype(floats[0].type.dtype), value.range, exact=True)


def _to_integer(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    value = values[-1]
    if value.type.dtype != BOOL:
        return None
    return Drawn((value,), value.type.of_dtype(INTEGER), value.range, exact=True)


def _take(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    """Take slices of the first axis, some of them twice, in any order."""
    value = values[-1]
    places = [chance.randrange(value.type.shape[0]) for _ in range(chance.choice(SIZES))]
    return _moved(value, (len(places), *value.type.shape[1:]), places=places)


def _window(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    """Combine elements that are beside each other along the last axis."""
    value = values[-1]
    size, stride = chance.choice((2, 3, 5)), chance.choice((1, 2))
    last = value.type.shape[-1]
    if not value.type.is_float or last < size:
        return None
    shape = (*value.type.shape[:-1], (last - size) // stride + 1)
    return _moved(value, shape, size=size, stride=stride)


def _window_sum(chance: random.Random, values: Sequence[ProgramValue]) -> Drawn | None:
    drawn = _window(chance, values)
    if drawn is None:
        return None
    size = drawn.attributes["size"]
    return drawn._replace(range=Interval(drawn.range.low * size, drawn.range.high * size), exact=False)


STRUCTURAL: Mapping[str, Draw] = {
    "transpose": _transpose,
    "reshape": _reshape,
    "broadcast": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "reverse": _reverse,
    "reduce_sum": _sum,
    "reduce_max": _largest,
    "reduce_min": _largest,
    "matmul": _matmul,
    "take": _take,
    "window_sum": _window_sum,
    "window_max": _window,
    "to_float": _to_float,
    "to_integer": _to_integer,
}


def before_broadcast(statement: Statement) -> tuple[int, ...]:
    """Return the shape of a broadcast's operand with 1 for its new axes."""
    shape = [1] * statement.result.type.rank
    for axis, size in zip(statement.attributes["axes"], statement.operands[0].type.shape, strict=True):
        shape[axis] = size
    return tuple(shape)


def joined_axes(statement: Statement) -> list[list[int]]:
    """Return the axes of a reshape's longer shape, those in one list that are one axis of the shorter one."""
    before, after = statement.operands[0].type.shape, statement.result.type.shape
    narrow, wide = sorted((before, after), key=len)
    if len(wide) == len(narrow):
        return [[axis] for axis in range(len(wide))]
    joined = next(at for at in range(len(narrow)) if narrow[:at] == wide[:at] and narrow[at + 1 :] == wide[at + 2 :])
    others = [[axis] for axis in range(len(wide)) if axis not in (joined, joined + 1)]
    return [*others[:joined], [joined, joined + 1], *others[joined:]]


def sliced(statement: Statement) -> str:
    """Return the ranges of a slice as ``2:5, 0:3``."""
    starts, shape = statement.attributes["starts"], statement.result.type.shape
    return ", ".join(f"{start}:{start + size}" for start, size in zip(starts, shape, strict=True))
