"""Check tolerance layers: the names in each exist, its bounds have values, and it wins for some test.

A layer that never wins misleads its readers, because no test uses its bounds. This check does not expand the tests. Outputs of
workloads, targets, pipelines and frameworks have few distinct masks of layers, and it combines only these masks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from itertools import product

from mlir_matrix.actions.expr.expression import ExpressionError
from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.bounds import evaluate, vacuous
from mlir_matrix.catalog.catalog import Catalog, LayerT, LocatedLayer
from mlir_matrix.catalog.models.base import Layer, Pipeline, Target
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.layers import KEYS, LayerRanking, asked
from mlir_matrix.expand.numerics import Numerics, NumericsAttributes, NumericsEntry, Value, shown, steps_of, vocabulary
from mlir_matrix.expand.tolerances import BOUNDS, ranking


def check(checker: Checker) -> None:
    """Check all tolerance layers."""
    stated = vocabulary(checker.catalog)
    for layer in checker.catalog.layers:
        _layer(checker, layer)
        _numerics(checker, layer, stated)
    # A misspelt layer never wins, too, but one problem is enough.
    if not checker.problems.found:
        _dead(checker)


def _layer(checker: Checker, layer: LocatedLayer[Layer]) -> None:
    """Check that the names that a layer matches exist, and that its bounds are 0 or more."""
    catalog, match = checker.catalog, layer.document.match
    workloads: Collection[str] = catalog.workloads
    if layer.workload is not None:
        workloads = [layer.workload]
        if not checker.known(layer.source, "workload", layer.workload, catalog.workloads):
            return
    chosen = {
        name: catalog.workloads[name].document.outputs for name in match_names(checker, layer, "workload", workloads)
    }
    outputs = match_names(checker, layer, "output", sorted({output for found in chosen.values() for output in found}))
    for axis in ("target", "pipeline", "framework"):
        match_names(checker, layer, axis, catalog.axes[axis])
    dtypes = _patterns(match.dtype)
    _bounds(
        checker,
        layer,
        (
            (name, output)
            for name, found in chosen.items()
            for output, tensor in found.items()
            if output in outputs and (not dtypes or tensor.dtype in dtypes)
        ),
    )


def _numerics(checker: Checker, layer: LocatedLayer[Layer], stated: Mapping[str, tuple[Value, ...]]) -> None:
    """Check that some file states each numerics attribute that a layer matches, with that value."""
    for name, values in asked(layer).items():
        at = ("layers", layer.index, "match", "numerics", name)
        if name not in stated:
            nothing = f"no file states the numerics attribute '{printable(name)}'"
            checker.wrong(layer.source, nothing + did_you_mean(name, stated), *at)
            continue
        for value in values:
            if value not in stated[name]:
                word = printable(shown(value))
                fix = did_you_mean(word, [shown(one) for one in stated[name]])
                if isinstance(value, bool) and {"on", "off"} & set(stated[name]):
                    fix = "; put on and off in quotes: YAML takes them for true and false"
                checker.wrong(layer.source, f"no file states '{name}: {word}'{fix}", *at)


def _bounds(checker: Checker, layer: LocatedLayer[Layer], outputs: Iterable[tuple[str, str]]) -> None:
    """Check that each bound is finite, 0 or more, and not vacuous for each output that the layer matches."""
    reported = set()

    def wrong(key: str, message: str) -> None:
        reported.add(key)
        checker.wrong(layer.source, message, "layers", layer.index, key)

    given = {key: bound for key in BOUNDS if (bound := getattr(layer.document, key)) is not None}
    for key, bound in given.items():
        if not isinstance(bound, str) and bound < 0:
            wrong(key, f"'{key}' is {bound}; a bound is 0 or more")
    for name, output in outputs:
        document = checker.catalog.workloads[name].document
        tensor, values = document.outputs[output], {}
        for key in given.keys() - reported:
            try:
                values[key] = evaluate(given[key], document.dims, tensor.dtype)
            except ExpressionError as error:
                wrong(key, f"{printable(str(error), 400)} (workload '{name}')")
        for key, why in vacuous(values, tensor.dtype).items() if tensor.compare != "exact" else ():
            wrong(key, f"'{key}' is {values[key]:g} for the {tensor.dtype} output {name}/{output}: {why}")


def match_names(checker: Checker, layer: LocatedLayer[LayerT], key: str, names: Collection[str]) -> list[str]:
    """Return the names that the patterns of a ``match`` key match; add a problem for each pattern without a match."""
    given = getattr(layer.document.match, key)
    if given is None:
        return list(names)
    at = ("layers", layer.index, "match", key)
    found: dict[str, None] = {}
    for index, pattern in enumerate(_patterns(given)):
        where = at if isinstance(given, str) else (*at, index)
        found.update(dict.fromkeys(checker.matches(layer.source, key, pattern, names, *where)))
    return list(found)


def _patterns(given: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given or ()


def _dead(checker: Checker) -> None:
    """Check that each layer matches some output and wins for some test.

    A later catalog may hide layers of an earlier one. So the layers of each catalog are compared only with its own layers
    and with those of earlier catalogs.
    """
    ranks = ranking(checker.catalog.layers)
    combined = _combined(checker.catalog, ranks)
    if not combined:
        return
    for root in sorted({layer.root for layer in checker.catalog.layers}):
        seen = sum(1 << bit for bit, ranked in enumerate(ranks.ranked) if ranked.layer.root <= root)
        masks = {mask & seen for mask in combined}
        winners = {mask.bit_length() - 1 for mask in masks}
        for bit, ranked in enumerate(ranks.ranked):
            if ranked.layer.root == root and bit not in winners:
                _report(checker, ranks, bit, masks)


def _report(checker: Checker, ranks: LayerRanking[Layer], bit: int, masks: Iterable[int]) -> None:
    """Add the problem of a layer that never wins, with the reason."""
    layer, wishes = ranks.ranked[bit].layer, ranks.ranked[bit].wishes
    hiding = {mask.bit_length() - 1 for mask in masks if mask >> bit & 1}
    if hiding:
        names = ", ".join(ranks.ranked[other].location for other in sorted(hiding, reverse=True))
        message = f"this layer never wins: wherever it matches, a more specific one matches too ({names})"
    else:
        message = f"this layer matches nothing: no output of any test is all of {wishes}"
    checker.wrong(layer.source, message, "layers", layer.index)


def _combined(catalog: Catalog, ranks: LayerRanking[Layer]) -> set[int]:
    """Return the distinct sets of layers that match outputs of tests; empty if no test is possible."""
    key = {name: number for number, name in enumerate(KEYS)}
    relevant = {name for ranked in ranks.ranked for name in ranked.attributes}
    numerics, attributes = Numerics(catalog), dict[NumericsAttributes, int]()

    def stated(*cell: str) -> int:
        found = tuple(attribute for attribute in numerics.of(*cell) if attribute[0] in relevant)
        mask = attributes.get(found)
        if mask is None:
            mask = attributes[found] = ranks.mask(key["numerics"], found)
        return mask

    outputs: dict[object, tuple[str, int]] = {}
    for name, workload in catalog.workloads.items():
        for output, tensor in workload.document.outputs.items():
            mask = ranks.mask(key["workload"], name) & ranks.mask(key["output"], output)
            mask &= ranks.mask(key["dtype"], tensor.dtype)
            outputs.setdefault((mask, _relevant(workload.document.numerics, relevant)), (name, mask))
    kinds: dict[str, Mapping[str, NumericsEntry]]
    kinds = {"target": catalog.targets, "framework": catalog.frameworks, "pipeline": catalog.pipelines}
    routes = list(product(*(_alike(catalog, ranks, key[kind], kinds[kind], relevant) for kind in kinds)))
    return {
        mask & of_target & of_framework & of_pipeline & stated(workload, target, framework, pipeline)
        for workload, mask in outputs.values()
        for (target, of_target), (framework, of_framework), (pipeline, of_pipeline) in routes
    }


def _alike(
    catalog: Catalog, ranks: LayerRanking[Layer], key: int, entries: Mapping[str, NumericsEntry], relevant: Set[str]
) -> list[tuple[str, int]]:
    """Return one of each group of targets, frameworks or pipelines that the same layers match, with these layers."""
    groups: dict[object, tuple[str, int]] = {}
    for name, entry in entries.items():
        mask = ranks.mask(key, name)
        steps = steps_of(catalog, name) if isinstance(entry.document, Pipeline) else []
        stated = [_relevant(each.document.numerics, relevant) for each in (*steps, entry)]
        if isinstance(entry.document, Target) and entry.document.mode:
            stated.append(_relevant(entry.document.mode[1].numerics, relevant))
        groups.setdefault((mask, *stated), (name, mask))
    return list(groups.values())


def _relevant(attributes: Mapping[str, Value], relevant: Set[str]) -> NumericsAttributes:
    """Return the numerics attributes that some layer matches on."""
    return tuple(sorted(attribute for attribute in attributes.items() if attribute[0] in relevant))
