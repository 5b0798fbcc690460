"""Compose pipelines: the steps of the catalog with other parameters, and steps of passes in another order."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlir_matrix.base.files import write_text

#: Passes that change no meaning, by the kind of IR that they take and give. ``func.func(…)``: they run on functions.
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
        "func.func(promote-buffers-to-stack)",
        "func.func(buffer-hoisting)",
        "func.func(buffer-loop-hoisting)",
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
_MOST_PASSES = 5
#: Sizes of tiles: not larger than any dimension, a divisor of none, and larger than all.
_TILES = (1, 2, 3, 4, 5, 8, 16, 64)


def write_routes(root: Path, count: int, chance: random.Random) -> list[str]:
    """Write pipelines with the steps that they need into a catalog; return their names."""
    names = []
    for number in range(count):
        name = f"composed{number}"
        steps: list[Any] = [_passes(root, f"{name}-linalg", "linalg", chance)]
        vectorized = chance.random() < 0.5
        if vectorized:
            tiles = {each: chance.choice(_TILES) for each in ("rows", "columns", "depth", "vector")}
            steps.append({"step": "linalg-tile-vectorize", "with": tiles})
        steps += ["bufferize", "linalg-to-loops", _passes(root, f"{name}-loops", "loops", chance), "vector-lowering"]
        document = {
            "description": "Composed at random.",
            "entry": {"linalg": [], "stablehlo": ["stablehlo-to-linalg"], "tosa": ["tosa-to-linalg"]},
            "steps": [*steps, "loops-to-llvm"],
            "codegen": {"opt-level": chance.choice((0, 2, 3))},
            "numerics": {"contraction": "on", "fast-math": "off", "math": "libm", "vectorized": True},
        }
        write_text(root / f"recipes/pipelines/{name}.yaml", json.dumps(document))
        names.append(name)
    return names


def _passes(root: Path, name: str, kind: str, chance: random.Random) -> str:
    """Write a step of random passes, and return its name."""
    passes = chance.choices(PASSES[kind], k=chance.randint(1, _MOST_PASSES))
    document = {
        "description": f"Passes in a random order, on {kind}.",
        "environment": "mlir",
        "accepts": [kind],
        "gives": kind,
        "passes": ",".join(passes),
    }
    write_text(root / f"recipes/steps/{name}/step.yaml", json.dumps(document))
    return name
