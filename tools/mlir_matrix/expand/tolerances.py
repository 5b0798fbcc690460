"""Resolve the bounds of an output of a test by layers of tolerances, from general to specific.

A layer matches if all of its keys match. A layer from ``golden/WORKLOAD/`` has the workload as one more key. Of the matching
layers, the one with the most specific key wins, in the order of :data:`KEYS` (the framework is the most specific). Then the one
with more keys wins (each attribute under ``numerics`` is one), then the later one. Bounds are numbers or expressions
(:mod:`mlir_matrix.catalog.bounds`).

This is pure, and fast enough for each output of 100,000 tests: a bit mask, computed once, says which layers match a value of a
key. The bits are in the order of the layers' ranks, so the winner is the highest bit that is set in all seven masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from mlir_matrix.actions.expr.expression import ExpressionError
from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.names import NameGlob
from mlir_matrix.catalog.bounds import DERIVED, evaluate
from mlir_matrix.catalog.catalog import Catalog, LocatedLayer
from mlir_matrix.catalog.models.base import FLOATS
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.numerics import Numerics, NumericsAttributes, Value, shown

#: The keys that a layer can match, from general to specific.
KEYS = ("workload", "output", "dtype", "target", "numerics", "pipeline", "framework")
_NUMERICS = KEYS.index("numerics")
#: The bounds that a layer can have.
BOUNDS = ("atol", "rtol", "max_ulp")


@dataclass(frozen=True, kw_only=True)
class Considered:
    """A layer and whether it applies; ``why`` completes the sentence."""

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
    #: An element this many numbers of its dtype away passes regardless of the other bounds; None: only these decide.
    max_ulp: float | None
    max_ulp_text: str | None
    #: Whether each element has its own bound, from the error analysis of the reference.
    derived: bool
    #: The layer itself, with keys that reports do not show.
    layer: LocatedLayer = field(repr=False, compare=False)
    #: Computed on demand, because planning resolves many bounds and explains few.
    _consider: Callable[[], tuple[Considered, ...]] = field(repr=False, compare=False)

    @property
    def considered(self) -> tuple[Considered, ...]:
        """Return every layer, from general to specific, and why it applies or not."""
        return self._consider()


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
    numerics: NumericsAttributes = (),
) -> Resolved:
    """Return the bounds of one output; ``numerics`` are the numerics attributes of the test.

    Raise CatalogError if none apply or the expressions are wrong for this workload.
    """
    query = (workload, output, dtype, target, numerics, pipeline, framework)
    return ranking(tuple(layers)).resolve(query, dims, dtype)


def resolve_everywhere(catalog: Catalog, numerics: Numerics, name: str) -> list[tuple[Resolved, ...]]:
    """Return the bounds of all outputs of a workload, once for each set that applies in some cell.

    A cell in which no layer applies to some output is left out.
    """
    document = catalog.workloads[name].document
    found: dict[object, tuple[Resolved, ...]] = {}
    for framework, pipeline, target in product(catalog.frameworks, catalog.pipelines, catalog.targets):
        stated = numerics.of(name, target, framework, pipeline)
        rank = ranking(catalog.layers).resolve
        try:
            bounds = tuple(
                rank((name, output, tensor.dtype, target, stated, pipeline, framework), document.dims, tensor.dtype)
                for output, tensor in document.outputs.items()
            )
        except CatalogError:
            continue
        found.setdefault(tuple((bound.atol, bound.rtol, bound.max_ulp) for bound in bounds), bounds)
    return list(found.values())


_rankings: dict[int, tuple[tuple[LocatedLayer, ...], LayerRanking]] = {}


def ranking(layers: tuple[LocatedLayer, ...]) -> LayerRanking:
    """Return the ranking of these layers. The last four are kept, by identity."""
    kept = _rankings.get(id(layers))
    if kept is None:
        if len(_rankings) >= 4:
            _rankings.clear()
        kept = _rankings[id(layers)] = (layers, LayerRanking(layers))
    return kept[1]


#: The value of each key for an output.
Query = tuple[str | NumericsAttributes, ...]


class LayerRanking:
    """The layers by rank, and the masks of those that match a value of a key."""

    def __init__(self, layers: Sequence[LocatedLayer]) -> None:
        found = [(RankedLayer(layer), position) for position, layer in enumerate(layers)]
        #: From general to specific; the number of a layer is its bit.
        self.ranked = [ranked for ranked, _ in sorted(found, key=lambda entry: (entry[0].rank, entry[1]))]
        self._masks: dict[tuple[int, str | NumericsAttributes], int] = {}

    def resolve(self, query: Query, dims: Mapping[str, int], dtype: str) -> Resolved:
        mask = -1
        for key, value in enumerate(query):
            mask &= self.mask(key, value)
        if not mask:
            raise CatalogError(f"no tolerance layer applies to the output {query[1]} of {query[0]} ({dtype})")
        winner = mask.bit_length() - 1
        layer = self.ranked[winner].layer
        return Resolved(
            atol=_bound(layer, "atol", dims, dtype),
            rtol=_bound(layer, "rtol", dims, dtype),
            location=self.ranked[winner].location,
            rationale=layer.document.rationale,
            atol_text=str(layer.document.atol),
            rtol_text=str(layer.document.rtol),
            max_ulp=_bound(layer, "max_ulp", dims, dtype) if layer.document.max_ulp is not None else None,
            max_ulp_text=str(layer.document.max_ulp) if layer.document.max_ulp is not None else None,
            derived=layer.document.derived,
            layer=layer,
            _consider=lambda: tuple(self._consider(query, winner)),
        )

    def mask(self, key: int, value: str | NumericsAttributes) -> int:
        """Return the layers that match a value of a key, one bit each."""
        mask = self._masks.get((key, value))
        if mask is None:
            mask = sum(1 << bit for bit, ranked in enumerate(self.ranked) if ranked.matches(key, value))
            self._masks[key, value] = mask
        return mask

    def _consider(self, query: Query, winner: int) -> Iterator[Considered]:
        for bit, ranked in enumerate(self.ranked):
            failed = next((key for key, value in enumerate(query) if not ranked.matches(key, value)), None)
            if failed is not None:
                why = ranked.why_not(failed, query[failed])
            elif bit == winner:
                why = f"the most specific layer that matches: by {ranked.keys}" if ranked.keys else "default layer"
            else:
                how = f"matches by {ranked.keys}" if ranked.keys else "default layer"
                why = f"{how}; overridden by {self.ranked[winner].location} (more specific)"
            yield Considered(location=ranked.location, applies=failed is None, why=why)


class RankedLayer:
    """A layer with the values that it matches for each key (except the folder's workload), and its rank."""

    def __init__(self, layer: LocatedLayer) -> None:
        self.layer, self.location = layer, layer.position
        self._globs: dict[int, list[tuple[NameGlob, ...]]] = {}
        for key, name in enumerate(KEYS):
            wanted = getattr(layer.document.match, name)
            if wanted is not None and key != _NUMERICS:
                self._want(key, (wanted,) if isinstance(wanted, str) else wanted)
        if layer.workload is not None:
            self._want(0, (layer.workload,))
        #: The numerics attributes that it matches, each with the accepted values.
        self.attributes = asked(layer)

    def _want(self, key: int, patterns: Sequence[str]) -> None:
        self._globs.setdefault(key, []).append(tuple(NameGlob(pattern) for pattern in patterns))

    @property
    def rank(self) -> tuple[int, int]:
        return max(self._wanted(), default=-1), len(self._globs) + len(self.attributes)

    @property
    def keys(self) -> str:
        """Return the keys that the layer matches, in words."""
        return ", ".join(KEYS[key] for key in self._wanted())

    def _wanted(self) -> list[int]:
        return sorted([*self._globs, *([_NUMERICS] if self.attributes else [])])

    def matches(self, key: int, value: str | NumericsAttributes) -> bool:
        """Return whether the layer matches a value of a key."""
        if isinstance(value, str):
            return all(any(glob.matches(value) for glob in globs) for globs in self._globs.get(key, ()))
        stated = dict(value)
        return all(name in stated and stated[name] in wanted for name, wanted in self.attributes.items())

    def wanted(self, key: int) -> str:
        """Return the values of a key that the layer matches, in words."""
        if key == _NUMERICS:
            return ", ".join(f"{name}: {_or(wanted)}" for name, wanted in self.attributes.items())
        return " and ".join(" or ".join(glob.pattern for glob in globs) for globs in self._globs[key])

    @property
    def wishes(self) -> str:
        """Return everything that the layer matches, in words."""
        return ", ".join(f"{KEYS[key]} {self.wanted(key)}" for key in self._wanted())

    def why_not(self, key: int, value: str | NumericsAttributes) -> str:
        """Return why the layer does not apply for a value of a key."""
        if isinstance(value, str):
            return f"its {KEYS[key]} is {self.wanted(key)}, not {value}"
        stated = dict(value)
        name = next(
            name for name, wanted in self.attributes.items() if name not in stated or stated[name] not in wanted
        )
        found = f"not {shown(stated[name])}" if name in stated else "and here nothing states it"
        return f"its {name} is {_or(self.attributes[name])}, {found}"


def asked(layer: LocatedLayer) -> dict[str, tuple[Value, ...]]:
    """Return the numerics attributes that a layer matches, each with its accepted values."""
    wanted = layer.document.match.numerics or {}
    return {name: values if isinstance(values, tuple) else (values,) for name, values in wanted.items()}


def _or(values: Sequence[Value]) -> str:
    return " or ".join(shown(value) for value in values)


def _bound(layer: LocatedLayer, name: str, dims: Mapping[str, int], dtype: str) -> float:
    try:
        return evaluate(getattr(layer.document, name), dims, dtype)
    except ExpressionError as error:
        place = layer.source.position("layers", layer.index, name)
        raise CatalogError(f"{place}: {name}: {error}") from None


class ToleranceResolver:
    """The bounds of the outputs of tests in one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.numerics = Numerics(catalog)

    def of(self, test: Test, output: str) -> Resolved:
        """Return the bounds of one output of a test. Outputs that only the program knows are named by their dtype."""
        workload = self._catalog.workloads[test.workload].document
        dtype = output if workload.source else workload.outputs[output].dtype
        return resolve(
            self._catalog.layers,
            workload=test.workload,
            output=output,
            dtype=dtype,
            target=test.target,
            pipeline=test.pipeline,
            framework=test.framework,
            dims=workload.dims,
            numerics=self.numerics.of(test.workload, test.target, test.framework, test.pipeline),
        )

    def _is_derived(self, test: Test, output: str, bound: Resolved) -> bool:
        """Return whether the bounds of the elements of an output are derived from the reference."""
        workload = self._catalog.workloads[test.workload].document
        return bound.derived and not workload.source and workload.outputs[output].dtype in FLOATS

    def considered(self, test: Test, output: str) -> list[dict[str, object]]:
        """Return the layers that apply to an output; the last one wins."""
        bound = self.of(test, output)
        rows: list[dict[str, object]] = [
            {"layer": item.location, "applies": item.applies, "why": item.why}
            for item in bound.considered
            if item.applies and item.location != bound.location
        ]
        winner = {"layer": bound.location, "applies": True, "why": "wins"}
        winner |= {"atol": bound.atol_text, "rtol": bound.rtol_text}
        winner |= {"max_ulp": bound.max_ulp_text} if bound.max_ulp_text is not None else {}
        rationale = " ".join(bound.rationale.split())
        if self._is_derived(test, output, bound):
            rationale = f"{DERIVED}; elements without such a bound: {rationale}"
        winner |= {"rationale": rationale}
        return [*rows, winner]
