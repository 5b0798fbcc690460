"""Which bounds apply to an output of a test, and why: layers of tolerances from general to specific.

A layer matches when all of its keys do; a layer from ``golden/WORKLOAD/`` has the workload as one more key. Of those
that match, the one with the most specific key wins, in the order of :data:`KEYS` (the framework is the most specific),
then the one with more keys, then the later one. Bounds are numbers or expressions over the workload's dimensions, like
``4 * sqrt(K) * eps(f32)``; ``eps(dtype)`` is that of the output, 0 for what is no floating point.

Pure, and fast enough to be asked for each output of 100,000 tests: which layers match a value of a key is one bit mask,
found once, and the bits are in the order of the layers' ranks, so that the winner is the highest bit of six masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from mlir_matrix.actions.expression import (
    Binary,
    Call,
    ExpressionError,
    Function,
    Grammar,
    Interpreter,
    Name,
    Negate,
    Node,
    Number,
    Word,
    parse,
)
from mlir_matrix.catalog.catalog import LocatedLayer
from mlir_matrix.errors import CatalogError
from mlir_matrix.names import NameGlob, did_you_mean

#: What a layer can match on, from general to specific.
KEYS = ("workload", "output", "dtype", "target", "pipeline", "framework")
#: The distance from 1 to the next number, which is twice the largest relative error of one rounding.
EPS = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}

GRAMMAR = Grammar(
    about="tolerance",
    operators=frozenset({"+", "-", "*", "/", "**"}),
    functions={
        "sqrt": Function(1, 1),
        "log2": Function(1, 1),
        "max": Function(2, 8),
        "min": Function(2, 8),
        "eps": Function(1, 1, words=("f32", "f16", "bf16", "f64", "dtype")),
    },
)

_FUNCTIONS: Mapping[str, Callable[..., float]] = {"sqrt": math.sqrt, "log2": math.log2, "max": max, "min": min}


@dataclass(frozen=True, kw_only=True)
class Considered:
    """A layer and whether it applies; ``why`` completes the sentence for people."""

    location: str
    applies: bool
    why: str


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The bounds of one output of one test, and the layer (``file:line:column``) that they come from."""

    atol: float
    rtol: float
    location: str
    rationale: str
    atol_text: str
    rtol_text: str
    #: Made when asked for: planning resolves many and explains few.
    _consider: Callable[[], tuple[Considered, ...]] = field(repr=False, compare=False)

    @property
    def considered(self) -> tuple[Considered, ...]:
        """Every layer, from general to specific, and why it applies or not."""
        return self._consider()


def evaluate(bound: float | str, dims: Mapping[str, int], dtype: str) -> float:
    """The value of a bound for an output of ``dtype``: finite and not negative, else :class:`ExpressionError`."""
    return _evaluate(bound if isinstance(bound, str) else repr(bound), tuple(dims.items()), dtype)


@lru_cache(maxsize=65536)
def _evaluate(text: str, dims: tuple[tuple[str, int], ...], dtype: str) -> float:
    # An infinite or undefined number of YAML arrives as «inf» or «nan»: unknown names, refused like any other.
    value = _Floats(text, dict(dims), dtype).value(parse(text, GRAMMAR, [name for name, _ in dims]))
    if not 0 <= value < math.inf:
        raise ExpressionError(f"a tolerance cannot be {value!r}", text=text)
    return value


class _Floats(Interpreter[float]):
    """The value of a tolerance."""

    def __init__(self, text: str, dims: Mapping[str, int], dtype: str) -> None:
        self._text, self._dims, self._dtype = text, dims, dtype

    def number(self, node: Number) -> float:
        return node.value

    def name(self, node: Name) -> float:
        return float(self._dims[node.name])

    def negate(self, node: Negate, operand: float) -> float:
        return -operand

    def binary(self, node: Binary, left: float, right: float) -> float:
        match node.operator:
            case "+":
                value = left + right
            case "-":
                value = left - right
            case "*":
                value = left * right
            case "/":
                value = self._guard(node.right, lambda: left / right)
            case _:
                value = self._guard(node, lambda: math.pow(left, right))
        return self._finite(node, value)

    def call(self, node: Call, arguments: list[float]) -> float:
        match node.arguments:
            case (Word(word=word),):
                return EPS.get(self._dtype if word == "dtype" else word, 0.0)
        return self._finite(node, self._guard(node, lambda: _FUNCTIONS[node.function](*arguments)))

    def _guard(self, node: Node, compute: Callable[[], float]) -> float:
        try:
            return compute()
        except ZeroDivisionError:
            raise ExpressionError("division by zero", text=self._text, column=node.column) from None
        except (ValueError, OverflowError):
            raise ExpressionError("this has no finite value", text=self._text, column=node.column) from None

    def _finite(self, node: Node, value: float) -> float:
        if not math.isfinite(value):
            raise ExpressionError("this has no finite value", text=self._text, column=node.column)
        return value


def resolve(
    layers: Sequence[LocatedLayer],
    *,
    workload: str,
    output: str,
    dtype: str,
    target: str,
    pipeline: str,
    framework: str,
    dims: Mapping[str, int],
) -> Resolved:
    """The bounds of one output. Raises CatalogError where none apply or the expressions are wrong for this workload."""
    query = (workload, output, dtype, target, pipeline, framework)
    return _resolver(tuple(layers)).resolve(query, dims)


_resolvers: dict[int, tuple[tuple[LocatedLayer, ...], _Resolver]] = {}


def _resolver(layers: tuple[LocatedLayer, ...]) -> _Resolver:
    """The resolver of these layers; the last ones are kept, by identity (layers are compared by nothing else)."""
    kept = _resolvers.get(id(layers))
    if kept is None:
        if len(_resolvers) >= 4:
            _resolvers.clear()
        kept = _resolvers[id(layers)] = (layers, _Resolver(layers))
    return kept[1]


Query = tuple[str, str, str, str, str, str]


class _Resolver:
    """The layers by rank, and the masks of those that match a value of a key."""

    def __init__(self, layers: Sequence[LocatedLayer]) -> None:
        found = [(_Ranked(layer), position) for position, layer in enumerate(layers)]
        self._ranked = [ranked for ranked, _ in sorted(found, key=lambda entry: (entry[0].rank, entry[1]))]
        self._masks: dict[tuple[int, str], int] = {}

    def resolve(self, query: Query, dims: Mapping[str, int]) -> Resolved:
        mask = -1
        for key, value in enumerate(query):
            mask &= self._mask(key, value)
        if not mask:
            raise CatalogError(f"no tolerance layer applies to the output {query[1]} of {query[0]} ({query[2]})")
        winner = mask.bit_length() - 1
        layer = self._ranked[winner].layer
        return Resolved(
            atol=_bound(layer, "atol", dims, query[2]),
            rtol=_bound(layer, "rtol", dims, query[2]),
            location=self._ranked[winner].location,
            rationale=layer.document.rationale,
            atol_text=str(layer.document.atol),
            rtol_text=str(layer.document.rtol),
            _consider=lambda: tuple(self._consider(query, winner)),
        )

    def _mask(self, key: int, value: str) -> int:
        mask = self._masks.get((key, value))
        if mask is None:
            mask = sum(1 << bit for bit, ranked in enumerate(self._ranked) if ranked.matches(key, value))
            self._masks[key, value] = mask
        return mask

    def _consider(self, query: Query, winner: int) -> Iterator[Considered]:
        for bit, ranked in enumerate(self._ranked):
            failed = next((key for key, value in enumerate(query) if not ranked.matches(key, value)), None)
            if failed is not None:
                why = f"its {KEYS[failed]} is {ranked.wanted(failed)}, not {query[failed]}"
            elif bit == winner:
                why = f"the most specific layer that matches: by {ranked.keys}"
            else:
                why = f"matches by {ranked.keys}, but {self._ranked[winner].location} is more specific"
            yield Considered(location=ranked.location, applies=failed is None, why=why)


class _Ranked:
    """A layer with what it wants of each key (the folder's workload apart), and its rank."""

    def __init__(self, layer: LocatedLayer) -> None:
        self.layer, self.location = layer, layer.position
        self._globs: dict[int, list[tuple[NameGlob, ...]]] = {}
        for key, name in enumerate(KEYS):
            wanted = getattr(layer.document.match, name)
            if wanted is not None:
                self._want(key, (wanted,) if isinstance(wanted, str) else wanted)
        if layer.workload is not None:
            self._want(0, (layer.workload,))

    def _want(self, key: int, patterns: Sequence[str]) -> None:
        self._globs.setdefault(key, []).append(tuple(NameGlob(pattern) for pattern in patterns))

    @property
    def rank(self) -> tuple[int, int]:
        return max(self._globs, default=-1), len(self._globs)

    @property
    def keys(self) -> str:
        """What it matches on, for people."""
        return ", ".join(KEYS[key] for key in sorted(self._globs)) or "nothing in particular"

    def matches(self, key: int, value: str) -> bool:
        return all(any(glob.matches(value) for glob in globs) for globs in self._globs.get(key, ()))

    def wanted(self, key: int) -> str:
        return " and ".join(" or ".join(glob.pattern for glob in globs) for globs in self._globs[key])


def _bound(layer: LocatedLayer, name: str, dims: Mapping[str, int], dtype: str) -> float:
    try:
        return evaluate(getattr(layer.document, name), dims, dtype)
    except ExpressionError as error:
        place = layer.source.position("layers", layer.index, name)
        raise CatalogError(f"{place}: {name}: {error}") from None


def problems(layers: Sequence[LocatedLayer], workloads: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What is wrong with the layers, each with its place: ``workloads`` gives the dimensions of all that there are.

    A bound must have a value for every workload that its layer matches; a workload that a layer names must exist.
    """
    found: dict[str, None] = {}
    for layer in layers:
        ranked = _Ranked(layer)
        matching = [workload for workload in workloads if ranked.matches(0, workload)]
        wanted = ranked.layer.document.match.workload
        for name in (wanted,) if isinstance(wanted, str) else wanted or ():
            if not NameGlob(name).select(workloads):
                place = layer.source.position("layers", layer.index, "match", "workload")
                found[f"{place}: no workload is {name}{did_you_mean(name, workloads)}"] = None
        for workload in matching:
            for name in ("atol", "rtol"):
                try:
                    _bound(layer, name, workloads[workload], "f32")
                except CatalogError as error:
                    found[f"{error} (workload {workload})"] = None
    return list(found)
