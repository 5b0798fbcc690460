"""Compose pipelines: the steps of the catalog with other parameters, and steps of passes in another order."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlir_matrix.base.files import write_text
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.base import Step

#: Passes that change no meaning, by the kind of IR that they take and give. ``func.func(…)``: they run on functions. Passes that
#: move allocations are not among them: loops have their deallocations already, which would then be in another place.
PASSES: Mapping[str, Sequence[str]] = {
    "linalg": (
        "canonicalize",
        "cse",
        "linalg-generalize-named-ops",
        "linalg-specialize-generic-ops",
        "linalg-fold-unit-extent-dims",
        "linalg-fold-unit-extent-dims{use-rank-reducing-slices}",
        "linalg-fuse-elementwise-ops",
        "linalg-inline-scalar-operands",
        "linalg-morph-ops{category-to-generic}",
        "linalg-morph-ops{named-to-category}",
        "fold-tensor-subset-ops",
        "convert-elementwise-to-linalg",
        "eliminate-empty-tensors",
    ),
    "affine": (
        "canonicalize",
        "cse",
        "func.func(affine-data-copy-generate{generate-dma=false fast-mem-space=0})",
        "func.func(affine-expand-index-ops)",
        "func.func(affine-loop-coalescing)",
        "func.func(affine-loop-fusion)",
        "func.func(affine-loop-fusion{maximal})",
        "func.func(affine-loop-invariant-code-motion)",
        "func.func(affine-loop-normalize)",
        "func.func(affine-loop-tile{tile-size=3})",
        "func.func(affine-loop-tile{tile-size=8 separate})",
        "func.func(affine-loop-unroll{unroll-factor=3})",
        "func.func(affine-loop-unroll{unroll-factor=4 cleanup-unroll})",
        "func.func(affine-loop-unroll-jam{unroll-jam-factor=2})",
        "func.func(affine-parallelize)",
        "func.func(affine-parallelize{parallel-reductions})",
        "func.func(affine-scalrep)",
        "func.func(affine-simplify-structures)",
        "func.func(affine-super-vectorize{virtual-vector-size=4})",
        "func.func(affine-super-vectorize{virtual-vector-size=8 vectorize-reductions})",
    ),
    "parallel": (
        "canonicalize",
        "cse",
        "loop-invariant-code-motion",
        "fold-memref-alias-ops",
        "func.func(scf-parallel-loop-fusion)",
        "func.func(scf-parallel-loop-specialization)",
        "func.func(scf-parallel-loop-tiling{parallel-loop-tile-sizes=3})",
        "func.func(scf-parallel-loop-tiling{parallel-loop-tile-sizes=8 no-min-max-bounds})",
        "func.func(scf-parallel-for-to-nested-fors)",
    ),
    "loops": (
        "canonicalize",
        "cse",
        "sccp",
        "loop-invariant-code-motion",
        "control-flow-sink",
        "int-range-optimizations",
        "func.func(scf-for-loop-peeling)",
        "func.func(scf-for-loop-peeling{peel-front})",
        "func.func(scf-for-loop-peeling{skip-partial=false})",
        "func.func(scf-for-loop-range-folding)",
        "func.func(scf-for-loop-specialization)",
        "func.func(scf-for-loop-canonicalization)",
        "fold-memref-alias-ops",
        "expand-strided-metadata",
        "normalize-memrefs",
        "mem2reg",
        "sroa",
        "remove-dead-values",
        "arith-expand",
        "arith-unsigned-when-equivalent",
        "math-uplift-to-fma",
        "inline",
        "topological-sort",
    ),
}  # fmt: skip
#: The kinds that steps of each route keep.
_KEPT = ("linalg", "loops")
#: The step that gives a route loops of scf.
_TO_SCF = "linalg-to-loops"
#: The passes that give it loops of other kinds instead.
TO_LOOPS = {
    "affine": "func.func(convert-linalg-to-affine-loops)",
    "parallel": "func.func(convert-linalg-to-parallel-loops)",
}
#: The pass that makes loops of scf of these.
FROM_LOOPS = "func.func(lower-affine)"
#: How often a route has other loops.
_OTHER_LOOPS = 0.6
#: With a number, the names of composed routes.
COMPOSED = "composed"
#: The names of their own steps.
COMPOSED_STEP = re.compile(rf"{COMPOSED}[\d-]+-[a-z]+\d+")
#: A step of the catalog with its parameters, or the passes of a step of its own.
_Step = dict[str, Any] | list[str]
_MOST_PASSES, _MOST_STEPS = 5, 3
#: Sizes of tiles: not larger than any dimension, a divisor of none, and larger than all.
_TILES = (1, 2, 3, 4, 5, 8, 16, 64)
#: What is drawn works in this environment.
ENVIRONMENT = "mlir"
#: The steps from each kind of frameworks to linalg.
_ENTRY = {
    "linalg": [],
    "stablehlo": ["stablehlo-to-linalg"],
    "tosa": ["tosa-to-linalg"],
    "torch": ["torch-to-linalg"],
    "torch-onnx": ["onnx-to-torch", "torch-to-linalg"],
}
#: Steps after which functions are less exact than those of libm.
_INEXACT = frozenset(("math-expand", "math-polynomial"))
#: The step without which a route has no vectors.
LOWERS_VECTORS = "vector-lowering"


@dataclass(frozen=True)
class ComposedRoute:
    """A composed pipeline from linalg to LLVM. ``steps``: those that were drawn, by the kind that they keep."""

    steps: Mapping[str, Sequence[_Step]]
    opt_level: int
    #: The kind of its loops before they are those of scf, if it is another one.
    loops: str = ""

    @property
    def parts(self) -> set[str]:
        """The passes and the steps of the catalog that were drawn."""
        return {part for steps in self.steps.values() for step in steps for part in _parts_of(step)}

    def without(self, left_out: Collection[str]) -> ComposedRoute:
        """Return the route without some of its parts."""
        return replace(self, steps={kind: _without(steps, left_out) for kind, steps in self.steps.items()})


def draw_routes(
    catalog: Catalog, count: int, chance: random.Random, wanted: str = "", loops: Sequence[str] = tuple(TO_LOOPS)
) -> dict[str, ComposedRoute]:
    """Return composed pipelines by name.

    ``wanted``: a step that each has, if it can. ``loops``: of which kinds loops may be before they are those of scf.
    """
    if wanted == _TO_SCF:
        loops = ()
    routes = {}
    for number in range(count):
        steps = {kind: _drawn(kind, catalog, chance, wanted) for kind in _KEPT}
        other = chance.choice(loops) if loops and chance.random() < _OTHER_LOOPS else ""
        if other:
            steps[other] = [chance.sample(PASSES[other], chance.randint(1, _MOST_PASSES))]
        routes[f"{COMPOSED}{number}"] = ComposedRoute(steps, chance.choice((0, 2, 3)), other)
    return routes


def composed_passes(name: str) -> list[str]:
    """Return the passes of this name, with their options, that routes are composed of."""
    return [each for passes in PASSES.values() for each in passes if re.search(rf"(?<![\w-]){name}(?![\w-])", each)]


def write_route(root: Path, name: str, route: ComposedRoute) -> None:
    """Write a pipeline and its own steps into a catalog."""
    before, after = (_written(root, name, kind, route.steps[kind]) for kind in _KEPT)
    to_loops = _write_other_loops(root, f"{name}-{route.loops}0", route) if route.loops else _TO_SCF
    document = {
        "description": "Composed at random.",
        "entry": _ENTRY,
        "steps": [*before, "bufferize", to_loops, *after, "loops-to-llvm"],
        "codegen": {"opt-level": route.opt_level},
        "numerics": {"contraction": "on", "fast-math": "off", "math": "libm", "vectorized": True},
    }
    write_text(root / f"recipes/pipelines/{name}.yaml", json.dumps(document))


def _drawn(kind: str, catalog: Catalog, chance: random.Random, wanted: str) -> list[_Step]:
    """Draw steps that keep the kind, of the catalog and of random passes, in a random order."""
    known = {step: entry.document for step, entry in catalog.steps.items() if _keeps(entry.document, kind)}
    exact = sorted({*known} - _INEXACT)
    chosen = chance.sample(exact, chance.randint(0, min(_MOST_STEPS, len(exact))))
    required = {wanted, LOWERS_VECTORS} & {*known}
    steps: list[_Step] = [_with_sizes(step, known[step], chance) for step in sorted({*chosen} | required)]
    steps += [chance.choices(PASSES[kind], k=chance.randint(1, _MOST_PASSES)) for _ in range(chance.randint(1, 2))]
    chance.shuffle(steps)
    return steps


def _parts_of(step: _Step) -> list[str]:
    return step if isinstance(step, list) else [step["step"]]


def _without(steps: Sequence[_Step], left_out: Collection[str]) -> list[_Step]:
    kept: list[_Step] = []
    for step in steps:
        parts = [part for part in _parts_of(step) if part not in left_out]
        if parts and isinstance(step, list):
            kept.append(parts)
        elif parts:
            kept.append(step)
    return kept


def _written(root: Path, name: str, kind: str, steps: Sequence[_Step]) -> list[Any]:
    """Write the steps of passes; return all as a pipeline has them."""
    written: list[Any] = []
    for number, step in enumerate(steps):
        if isinstance(step, list):
            written.append(_write_step(root, f"{name}-{kind}{number}", kind, step))
        else:
            written.append(step)
    return written


def _keeps(step: Step, kind: str) -> bool:
    """Return whether a step transforms IR of a kind, and needs no other environment."""
    transforms = step.stage == "lower" and (step.passes is not None or bool(step.variants))
    return transforms and step.environment == ENVIRONMENT and step.kinds().get(kind) == kind


def _with_sizes(name: str, step: Step, chance: random.Random) -> dict[str, Any]:
    """Return the use of a step, with other numbers where it takes numbers."""
    numbers = [parameter for parameter, each in step.parameters.items() if type(each.default) is int]
    return {"step": name, "with": {parameter: chance.choice(_TILES) for parameter in numbers}}


def _write_other_loops(root: Path, name: str, route: ComposedRoute) -> str:
    """Write the step of a route from buffers to loops of scf, by way of those of another kind, which it may leave as they are."""
    passes = [part for step in route.steps[route.loops] for part in _parts_of(step)]
    return _write_step(root, name, "bufferized", [TO_LOOPS[route.loops], *passes, FROM_LOOPS], gives="loops")


def _write_step(root: Path, name: str, kind: str, passes: Sequence[str], gives: str = "") -> str:
    """Write a step of passes on a kind, and return its name. ``gives``: the kind that they give, if it is another one."""
    document = {
        "description": f"Passes in a random order, on {kind}.",
        "environment": ENVIRONMENT,
        "accepts": [kind],
        "gives": gives or kind,
        "passes": ",".join(passes),
    }
    write_text(root / f"recipes/steps/{name}/step.yaml", json.dumps(document))
    return name
