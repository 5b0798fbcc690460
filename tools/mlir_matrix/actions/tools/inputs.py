"""Make a workload's inputs from their formulas and seeds: one ``.npy`` output for each.

Each element is computed in double from its index alone, in blocks that fit the cache, and rounded once to the dtype. The formula of
complex numbers is computed for real and for imaginary parts, with other random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.expr.expression import Binary, Call, ExpressionError, ExpressionInterpreter, Node
from mlir_matrix.actions.expr.formula import ARITHMETIC, LARGEST_WHOLE, Constants, parse_formula
from mlir_matrix.actions.numerics import prng
from mlir_matrix.actions.numerics.dtypes import STORAGE, Array, DtypeError, encode, write_npy
from mlir_matrix.actions.numerics.formats import COMPLEX
from mlir_matrix.actions.numerics.prng import Doubles, Words
from mlir_matrix.actions.params import InputsParams

_BLOCK = 1 << 15
#: The first stream of random numbers for imaginary parts; no formula has as many calls.
_IMAGINARY = 1 << 20


def run(action: Action[InputsParams]) -> None:
    """Write every input. Raise ActionFailed for a formula whose numbers do not fit its dtype."""
    for spec in action.params["inputs"]:
        try:
            dtype, shape = spec["dtype"], tuple(spec["shape"])
            made = blocks(spec["formula"], spec["seed"], action.params["dims"], shape, dtype=dtype)
            write_npy(action.outputs[spec["name"]], STORAGE[dtype], shape, made)
        except ExpressionError as error:
            raise ActionFailed(f"input {spec['name']}: formula {error}") from None


def blocks(formula: str, seed: int, dims: Mapping[str, int], shape: Sequence[int], *, dtype: str) -> Iterator[Array]:
    """Yield the elements in C order, in the storage of ``dtype``. Raise :class:`ExpressionError`."""
    node = parse_formula(formula, dims)
    total = math.prod(shape)
    for start in range(0, total, _BLOCK):
        stop = min(start + _BLOCK, total)
        index = np.arange(start, stop, dtype=np.uint64)
        values: Array = Elements(formula, seed, dims, shape, index).compute(node)
        if dtype in COMPLEX:
            imaginary = Elements(formula, seed, dims, shape, index, first=_IMAGINARY).compute(node)
            values = np.stack([values, imaginary], axis=-1).view(np.complex128)[:, 0]
        try:
            yield encode(values, dtype)
        except DtypeError as error:
            value = values[error.index].item()
            message = f"element {start + error.index} is {value!r}, which {dtype} cannot hold"
            raise ExpressionError(message, text=formula) from None


class Elements(ExpressionInterpreter["float | Doubles"]):
    """Compute a formula at some linear indices. A subexpression that is equal for all of them stays a float."""

    def __init__(
        self, text: str, seed: int, dims: Mapping[str, int], shape: Sequence[int], index: Words, *, first: int = 0
    ) -> None:
        super().__init__(text, dims)
        self._constants = Constants(text, dims)
        self._seed, self._index, self._first = seed, index, first
        self._length = shape[-1] if shape else 1

    def compute(self, node: Node) -> Doubles:
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.asarray(self.value(node), dtype=np.float64), self._index.shape)

    def binary(self, node: Binary, left: float | Doubles, right: float | Doubles) -> float | Doubles:
        if isinstance(left, float) and isinstance(right, float):
            return cast(float, self._constants.binary(node, left, right))
        if isinstance(right, float):
            self._constants.check_right(node, right)
        elif node.operator in ("/", "//", "%"):
            self._refuse(node.right, right == 0, "division by zero")
        elif node.operator == "**":
            self._constants.check_right(node, None)
        if node.operator == "**" and cast(float, right) < 0:
            self._refuse(node.right, left == 0, "zero to a negative power")
        return self._finite(node, ARITHMETIC[node.operator](left, right))

    def call(self, node: Call, arguments: list[float | Doubles]) -> float | Doubles:
        known = [argument if isinstance(argument, float) else None for argument in arguments]
        if node.function in ("sqrt", "abs", "floor"):
            return self._unary(node, arguments[0])
        if node.function == "inf":
            return math.inf
        if node.function == "values":
            turns = (self._index % np.uint64(len(arguments))).astype(np.int64)
            every = np.stack([np.broadcast_to(argument, self._index.shape) for argument in arguments])
            return cast(Doubles, np.take_along_axis(every, turns[np.newaxis], axis=0)[0])
        self._constants.check_range(node, known)
        key = prng.stream_key(self._seed, self._first + node.ordinal)
        if node.function == "iota":
            return self._index.astype(np.float64)
        if node.function == "permutation":
            return prng.permutation(key, self._index, self._length).astype(np.float64)
        first, second = (np.asarray(argument, dtype=np.float64) for argument in arguments)
        if node.function == "normal":
            self._refuse(node.arguments[1], second < 0, "a negative standard deviation")
            return self._finite(node, first + second * prng.normal(key, self._index))
        whole = node.function == "integers"
        self._refuse(node, first >= second if whole else first > second, "the range is empty")
        if not whole:
            # Rounding may raise the last values to the upper bound, never above it.
            return self._finite(node, np.minimum(first + (second - first) * prng.uniform(key, self._index), second))
        return self._integers(node, key, first, second)

    def _unary(self, node: Call, argument: float | Doubles) -> float | Doubles:
        if isinstance(argument, float):
            return cast(float, self._constants.call(node, [argument]))
        if node.function == "sqrt":
            self._refuse(node, argument < 0, "the square root of a negative number")
            return np.sqrt(argument)
        return np.abs(argument) if node.function == "abs" else np.floor(argument)

    def _integers(self, node: Call, key: Words, low: Doubles, high: Doubles) -> Doubles:
        for part, bound in zip(node.arguments, (low, high), strict=True):
            uneven = (bound != np.floor(bound)) | (np.abs(bound) > LARGEST_WHOLE)
            self._refuse(part, uneven, "integers() takes whole numbers up to 2**53")
        span = (high - low).astype(np.uint64)
        # Both are whole and at most 2**54, so their sum, which is below ``high``, is exact.
        return low + prng.below(key, self._index, span).astype(np.float64)

    def _finite(self, node: Node, values: float | Doubles) -> float | Doubles:
        self._refuse(node, ~np.isfinite(values), "the value does not fit a double")
        return values

    def _refuse(self, node: Node, wrong: object, message: str) -> None:
        wrong = np.asarray(wrong)
        if wrong.any():
            at = int(self._index[int(np.argmax(wrong))]) if wrong.ndim else int(self._index[0])
            raise self.error(node, f"{message} at element {at}")
