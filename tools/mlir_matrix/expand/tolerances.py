"""Resolve the bounds of an output of a test by layers of tolerances, from general to specific.

The layer of the highest rank wins (:mod:`mlir_matrix.expand.layers`). Bounds are numbers or expressions
(:mod:`mlir_matrix.catalog.bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from mlir_matrix.actions.expr.expression import ExpressionError
from mlir_matrix.actions.numerics.formats import COMPLEX
from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.bounds import DERIVED, evaluate
from mlir_matrix.catalog.catalog import Catalog, LocatedLayer
from mlir_matrix.catalog.golden_files import is_sketched
from mlir_matrix.catalog.models.base import FLOATS, Layer
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.layers import LayerRanking, Query
from mlir_matrix.expand.numerics import Numerics

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
    #: The layers that match, a bit each. Outputs of one workload with equal ones have equal bounds.
    matching: int = field(repr=False, compare=False)
    #: The layer itself, with keys that reports do not show.
    layer: LocatedLayer[Layer] = field(repr=False, compare=False)
    #: Computed on demand, because planning resolves many bounds and explains few.
    _consider: Callable[[], tuple[Considered, ...]] = field(repr=False, compare=False)

    @property
    def considered(self) -> tuple[Considered, ...]:
        """Return every layer, from general to specific, and why it applies or not."""
        return self._consider()


def resolve_everywhere(catalog: Catalog, numerics: Numerics, name: str) -> list[tuple[Resolved, ...]]:
    """Return the bounds of all outputs of a workload, once for each set that applies in some cell.

    A cell in which no layer applies to some output is left out.
    """
    document = catalog.workloads[name].document
    layers = ranking(catalog.layers)
    dtypes = {output: COMPLEX.get(tensor.dtype, tensor.dtype) for output, tensor in document.outputs.items()}
    seen: set[tuple[int, ...]] = set()
    found: dict[object, tuple[Resolved, ...]] = {}
    for framework, pipeline, target in product(catalog.frameworks, catalog.pipelines, catalog.targets):
        stated = numerics.of(name, target, framework, pipeline)
        queries = [(name, output, dtype, target, stated, pipeline, framework) for output, dtype in dtypes.items()]
        # Where the same layers match, the bounds are the same.
        matching = tuple(map(layers.matching, queries))
        if matching in seen:
            continue
        seen.add(matching)
        try:
            bounds = tuple(layers.resolve(query, document.dims, query[2]) for query in queries)
        except CatalogError:
            continue
        found.setdefault(tuple((bound.atol, bound.rtol, bound.max_ulp) for bound in bounds), bounds)
    return list(found.values())


_rankings: dict[int, tuple[tuple[LocatedLayer[Layer], ...], ToleranceRanking]] = {}


def ranking(layers: tuple[LocatedLayer[Layer], ...]) -> ToleranceRanking:
    """Return the ranking of these layers. The last four are kept, by identity."""
    kept = _rankings.get(id(layers))
    if kept is None:
        if len(_rankings) >= 4:
            _rankings.clear()
        kept = _rankings[id(layers)] = (layers, ToleranceRanking(layers))
    return kept[1]


class ToleranceRanking(LayerRanking[Layer]):
    """The layers of tolerances by rank."""

    def resolve(self, query: Query, dims: Mapping[str, int], dtype: str) -> Resolved:
        """Return the bounds of one output. Raise CatalogError if none apply or the expressions are wrong for this workload."""
        # The bounds of complex numbers are those of their parts.
        dtype = COMPLEX.get(dtype, dtype)
        query = (*query[:2], dtype, *query[3:])
        mask = self.matching(query)
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
            matching=mask,
            layer=layer,
            _consider=lambda: tuple(self._consider(query, winner)),
        )

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


def _bound(layer: LocatedLayer[Layer], name: str, dims: Mapping[str, int], dtype: str) -> float:
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
        numerics = self.numerics.of(test.workload, test.target, test.framework, test.pipeline)
        query = (test.workload, output, dtype, test.target, numerics, test.pipeline, test.framework)
        return ranking(self._catalog.layers).resolve(query, workload.dims, dtype)

    def outputs(self, test: Test) -> Collection[str]:
        """Return the outputs of a test; of a program in a foreign form the dtypes that they may have, if layers differ."""
        if not test.executes:
            return ()
        document = self._catalog.workloads[test.workload].document
        if not document.source:
            return document.outputs
        return {self.of(test, dtype).location: dtype for dtype in ("f64", "f16", "bf16", "f32")}.values()

    def derived_outputs(self, test: Test) -> list[str]:
        """Return the outputs of a test that are judged by bounds of their elements, derived from the reference: no sketches."""
        document = self._catalog.workloads[test.workload].document
        whole = [
            name
            for name, output in document.outputs.items()
            if output.compare != "exact" and not is_sketched(document, output)
        ]
        return [name for name in whole if self._is_derived(test, name, self.of(test, name))]

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
