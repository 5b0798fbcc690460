"""Compose programs of two to four operations, or more, from a seed, and write them as a catalog with the suite ``pairs``.

An operation reads the newest value; its second operand is any value of the same shape, so that operands are shared.
Some programs return an earlier value as well. The tolerance of an output is the largest a-priori bound of the forward
error of its float64 reference: it depends on no compiler and no machine.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.runtime.source import Tensor
from mlir_matrix.actions.tools.forward_error import bounded_reference
from support import inputs
from support.downstream import write_record

PIPELINES = ("linalg-loops", "linalg-vectorized", "linalg-named", "tosa-loops", "stablehlo-loops")
#: Neither a multiple of a vector's length nor of a tile's.
_SIZES = (5, 8, 13, 17, 33)
_MOST = 4000
#: The largest bound, relative to the standard deviation of the output.
_LOOSEST = 1e-3

_HEADERS = {
    "reference.py": """\
import math
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

erf = np.vectorize(math.erf, otypes=[np.float64])


def softmax(x, axis):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def hot(i, m):
    return (np.arange(m)[:, None] == i[None, :]).astype(np.float64)


def reference""",
    "pytorch.py": "import torch\nimport torch.nn.functional as F\n\n\ndef workload",
    "jax.py": "import jax\nimport jax.numpy as np\n\n\ndef workload",
}

Shape = tuple[int, int]


@dataclass(frozen=True)
class Operation:
    """Hold an operation on ``{a}``, and perhaps ``{b}``, of m × n elements as source text for each framework.

    ``{d}`` is an axis; ``{w}`` and ``{i}`` are inputs of their own. Where a framework has no text, the reference's holds.
    """

    name: str
    shape: Callable[[int, int, int], Shape]
    reference: str
    pytorch: str = ""
    jax: str = ""
    #: The sizes of ``{w}``, and of ``{i}`` with the bound of its elements.
    weight: Callable[[int, int], Shape] | None = None
    index: Callable[[int, int], Shape] | None = None
    #: The least m and n.
    least: int = 1

    def text(self, file: str) -> str:
        """Return the expression for one of the sources."""
        return {"pytorch.py": self.pytorch, "jax.py": self.jax}.get(file, "") or self.reference


def _same(m: int, n: int, d: int) -> Shape:
    return m, n


def _kept(m: int, n: int, d: int) -> Shape:
    return (1, n) if d == 0 else (m, 1)


OPERATIONS = (
    Operation("mul", _same, "{a} * {b}"),
    Operation("add", _same, "{a} + {b}"),
    Operation("sub", _same, "{a} - 0.5 * {b}"),
    Operation("div", _same, "{a} / (1 + {b} * {b})"),
    Operation("larger", _same, "np.maximum({a}, {b})", "torch.maximum({a}, {b})"),
    Operation("affine", _same, "1 - 2 * {a}"),
    Operation("relu", _same, "np.maximum({a}, 0)", "torch.relu({a})"),
    Operation("tanh", _same, "np.tanh({a})", "torch.tanh({a})"),
    Operation("exp", _same, "np.exp(-np.abs({a}))", "torch.exp(-torch.abs({a}))"),
    Operation("rsqrt", _same, "1 / np.sqrt({a} * {a} + 1)", "torch.rsqrt({a} * {a} + 1)", "jax.lax.rsqrt({a} * {a} + 1)"),
    Operation("sigmoid", _same, "1 / (1 + np.exp(-{a}))", "torch.sigmoid({a})", "jax.nn.sigmoid({a})"),
    Operation(
        "gelu", _same, "0.5 * {a} * (1 + erf({a} / math.sqrt(2)))", "F.gelu({a})", "jax.nn.gelu({a}, approximate=False)"
    ),
    Operation("clip", _same, "np.clip({a}, -0.5, 0.75)", "torch.clamp({a}, -0.5, 0.75)"),
    Operation("softmax", _same, "softmax({a}, axis={d})", "F.softmax({a}, dim={d})", "jax.nn.softmax({a}, axis={d})"),
    Operation(
        "layernorm", _same,
        "({a} - np.mean({a}, axis=1, keepdims=True)) / np.sqrt(np.var({a}, axis=1, keepdims=True) + 0.125)",
        "F.layer_norm({a}, ({n},), eps=0.125)", least=2,
    ),
    Operation("center", _same, "{a} - np.mean({a}, axis={d}, keepdims=True)", "{a} - torch.mean({a}, {d}, keepdim=True)"),
    Operation("sum", _kept, "np.sum({a}, axis={d}, keepdims=True)", "torch.sum({a}, {d}, keepdim=True)"),
    Operation("largest", _kept, "np.max({a}, axis={d}, keepdims=True)", "torch.amax({a}, {d}, keepdim=True)"),
    Operation(
        "spread", _same, "np.broadcast_to(np.sum({a}, axis={d}, keepdims=True), ({m}, {n}))",
        "torch.sum({a}, {d}, keepdim=True).expand({m}, {n})",
    ),
    Operation("cumsum", _same, "np.cumsum({a}, axis={d})", "torch.cumsum({a}, dim={d})"),
    Operation("sort", _same, "np.sort({a}, axis={d})", "torch.sort({a}, dim={d}).values"),
    Operation(
        "topk", lambda m, n, d: (m, n - 1), "np.sort({a}, axis=1)[:, :0:-1]",
        "torch.topk({a}, {n} - 1).values", "jax.lax.top_k({a}, {n} - 1)[0]", least=2,
    ),
    Operation("transpose", lambda m, n, d: (n, m), "{a}.T", "{a}.t()"),
    Operation("slice", lambda m, n, d: (m - 1, (n + 1) // 2), "{a}[1:, ::2]", least=2),
    Operation("diff", lambda m, n, d: (m, n - 1), "{a}[:, 1:] - {a}[:, :-1]", least=2),
    Operation("pad", lambda m, n, d: (m + 1, n + 2), "np.pad({a}, ((1, 0), (0, 2)))", "F.pad({a}, (0, 2, 1, 0))"),
    Operation(
        "join", lambda m, n, d: (2 * m, n) if d == 0 else (m, 2 * n), "np.concatenate([{a}, {b}], axis={d})",
        "torch.cat([{a}, {b}], dim={d})",
    ),
    Operation("repeat", lambda m, n, d: (m, 2 * n), "np.tile({a}, (1, 2))", "{a}.repeat(1, 2)"),
    Operation("roll", _same, "np.roll({a}, 1, axis={d})", "torch.roll({a}, 1, dims={d})"),
    Operation("flip", _same, "np.flip({a}, axis={d})", "torch.flip({a}, [{d}])"),
    Operation("reshape", lambda m, n, d: (n, m), "np.reshape({a}, ({n}, {m}))", "{a}.reshape({n}, {m})"),
    Operation("tril", _same, "np.tril({a})", "torch.tril({a})"),
    Operation(
        "select", _same, "np.where(np.tri({m}, {n}, dtype=bool), {a}, {b})",
        "torch.where(torch.ones({m}, {n}, dtype=torch.bool).tril(), {a}, {b})",
    ),
    Operation(
        "update", _same, "np.concatenate([{b}[:1], {a}[:-1]], axis=0)",
        "torch.slice_scatter({b}, {a}[:-1], dim=0, start=1, end={m})",
        "jax.lax.dynamic_update_slice({b}, {a}[:-1], (1, 0))", least=2,
    ),
    Operation(
        "gather", lambda m, n, d: (7, n), "np.take({a}, {i}, axis=0)", "torch.index_select({a}, 0, {i})",
        index=lambda m, n: (7, m),
    ),
    Operation(
        "scatter", lambda m, n, d: (11, n), "hot({i}, 11) @ {a}",
        "torch.zeros(11, {n}).scatter_add(0, {i}.long()[:, None].expand({m}, {n}), {a})",
        "np.zeros((11, {n})).at[{i}].add({a})", index=lambda m, n: (m, 11),
    ),
    Operation(
        "index_add", _same, "{b} + hot({i}, {m}) @ {a}",
        "torch.index_add({b}, 0, {i}, {a})", "{b}.at[{i}].add({a})", index=lambda m, n: (m, m),
    ),
    Operation("matmul", lambda m, n, d: (m, 19), "{a} @ {w}", weight=lambda m, n: (n, 19)),
    Operation("gram", lambda m, n, d: (m, m), "{a} @ {b}.T / {n}", "{a} @ {b}.t() / {n}"),
    Operation(
        "attention", _same, "softmax({a} @ {b}.T / math.sqrt({n}), axis=1) @ {a}",
        "F.scaled_dot_product_attention({a}[None, None], {b}[None, None], {a}[None, None])[0, 0]",
        "jax.nn.softmax({a} @ {b}.T / {n} ** 0.5, axis=1) @ {a}",
    ),
    Operation(
        "conv", lambda m, n, d: (m - 2, n - 2), "np.einsum('ijkl,kl->ij', sliding_window_view({a}, (3, 3)), {w})",
        "F.conv2d({a}[None, None], {w}[None, None])[0, 0]",
        "jax.lax.conv({a}[None, None], {w}[None, None], (1, 1), 'VALID')[0, 0]", weight=lambda m, n: (3, 3), least=3,
    ),
    Operation(
        "max_pool", lambda m, n, d: (m - 1, n - 1), "np.max(sliding_window_view({a}, (2, 2)), axis=(2, 3))",
        "F.max_pool2d({a}[None, None], 2, 1)[0, 0]",
        "jax.lax.reduce_window({a}, -np.inf, jax.lax.max, (2, 2), (1, 1), 'VALID')", least=2,
    ),
    Operation(
        "avg_pool", lambda m, n, d: (m - 1, n - 1), "np.mean(sliding_window_view({a}, (2, 2)), axis=(2, 3))",
        "F.avg_pool2d({a}[None, None], 2, 1)[0, 0]",
        "jax.lax.reduce_window({a}, 0.0, jax.lax.add, (2, 2), (1, 1), 'VALID') / 4", least=2,
    ),
)  # fmt: skip

#: Operations that a pipeline cannot lower in any program: cells, operations, reason.
GAPS = (
    ("jax/{linalg,stablehlo}-*", ("sort", "topk"), "stablehlo-legalize-to-linalg has no stablehlo.sort."),
    ("jax/{linalg,stablehlo}-*", ("scatter", "index_add"), "stablehlo-legalize-to-linalg has no stablehlo.scatter."),
    ("pytorch/stablehlo-loops", ("sort", "topk"), "stablehlo-legalize-to-linalg has no stablehlo.sort."),
    (
        "pytorch/stablehlo-loops", ("scatter", "index_add", "update"),
        "stablehlo-legalize-to-linalg has no stablehlo.scatter.",
    ),
    ("pytorch/tosa-loops", ("sort", "topk"), "Both become tosa.scatter, which tosa-to-linalg does not lower."),
    (
        "pytorch/tosa-loops", ("scatter", "index_add", "update", "roll"),
        "torch-mlir has no lowering to TOSA of scatter_add, index_put that adds, slice_scatter and roll's slices.",
    ),
)  # fmt: skip
#: Operations that a pipeline lowers or not depending on what they are fused with.
EXCLUDED = (
    (
        "jax/linalg-vectorized",
        "flip",
        "linalg's tiling cannot slice an operand whose index counts down (smoke expects it).",
    ),
)


@dataclass
class Program:
    """Collect the statements of each source, and the values with their shapes, the newest last."""

    name: str = ""
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, Shape] = field(default_factory=dict)
    statements: dict[str, list[str]] = field(default_factory=lambda: {file: [] for file in _HEADERS})
    returned: list[str] = field(default_factory=list)

    def input(self, kind: str, shape: tuple[int, ...], formula: str, dtype: str = "f32") -> str:
        """Add an input and return its name."""
        name = f"{kind}{len(self.inputs)}"
        self.inputs[name] = {"shape": list(shape), "dtype": dtype, "formula": formula, "seed": len(self.inputs) + 1}
        return name

    def apply(self, operation: Operation, draw: random.Random) -> bool:
        """Add an operation on the newest value; return False where the shape does not allow it."""
        newest, (m, n) = list(self.values.items())[-1]
        d = draw.randrange(2)
        shape = operation.shape(m, n, d)
        if min(m, n) < operation.least or shape[0] * shape[1] > _MOST:
            return False
        names: dict[str, Any] = {"a": newest, "m": m, "n": n, "d": d}
        if "{b}" in operation.reference:
            names["b"] = self._second(draw, (m, n))
        if operation.weight:
            names["w"] = self.input("w", operation.weight(m, n), "uniform(-0.5, 0.5)")
        if operation.index:
            length, bound = operation.index(m, n)
            names["i"] = self.input("i", (length,), f"integers(0, {bound})", "i32")
        result = f"v{len(self.values)}"
        for file, statements in self.statements.items():
            statements.append(f"    {result} = {operation.text(file).format(**names)}\n")
        self.values[result] = shape
        return True

    def _second(self, draw: random.Random, shape: Shape) -> str:
        """Return any value of that shape, the newest included, or sometimes a new input."""
        known = [name for name, each in self.values.items() if each == shape]
        if draw.random() < (0.3 if len(known) == 1 else 0.1):
            known = [self.input("x", shape, "normal(0, 1)")]
            self.values = {known[0]: shape, **self.values}
        return draw.choice(known)

    def source(self, file: str) -> str:
        """Return the text of a source."""
        body = "".join(self.statements[file])
        return f"{_HEADERS[file]}({', '.join(self.inputs)}):\n{body}    return {', '.join(self.returned)}\n"

    def document(self) -> dict[str, Any]:
        """Return the content of ``workload.yaml``."""
        outputs = {
            f"y{at}": {"shape": list(self.values[name]), "dtype": "f32"} for at, name in enumerate(self.returned)
        }
        absent = dict.fromkeys(("onnx", "mlir"), "Programs are composed for pytorch and jax.")
        return {"description": "Composed at random.", "inputs": self.inputs, "outputs": outputs, "absent": absent}

    def judged(self, source: Path) -> tuple[list[Any], list[float]] | None:
        """Return the expected outputs and their bounds; None where a bound is too wide to find an error."""
        given = [
            dtypes.decode(
                inputs.tensor(each["formula"], each["seed"], {}, each["shape"], dtype=each["dtype"]), each["dtype"]
            )
            for each in self.inputs.values()
        ]
        specs = [{"name": name, **each} for name, each in self.document()["outputs"].items()]
        named = [Tensor(name=name, shape=(), dtype="f32") for name in self.inputs]
        expected, errors = bounded_reference(str(source), given, specs, named)
        bounds = [float(error.max()) for error in errors]
        deviations = [float(right.std()) for right in expected]
        if all(spread > 0 and bound <= _LOOSEST * spread for bound, spread in zip(bounds, deviations, strict=True)):
            return expected, bounds
        return None


def compose(
    count: int, seed: int, lengths: tuple[int, int] = (2, 4), operations: Sequence[Operation] = OPERATIONS
) -> Iterator[Program]:
    """Yield programs, each with the pairs of successive operations that were used least so far.

    ``lengths``: the least and the largest number of operations.
    """
    draw = random.Random(seed)
    pairs: Counter[tuple[str, str]] = Counter()
    singles: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "reference.py")
        done = 0
        while done < count:
            program = _one(draw, pairs, singles, lengths, operations)
            source.write_text(program.source("reference.py"))
            names = program.name.split("-")
            pairs.update(pairwise(names))
            singles.update(names)
            if program.judged(source) is None:
                continue
            program.name = f"p{done:03}-{program.name}"
            done += 1
            yield program


def _one(
    draw: random.Random,
    pairs: Counter[tuple[str, str]],
    singles: Counter[str],
    lengths: tuple[int, int],
    operations: Sequence[Operation],
) -> Program:
    program = Program()
    shape = (draw.choice(_SIZES), draw.choice(_SIZES))
    program.values[program.input("x", shape, "normal(0, 1)")] = shape
    names: list[str] = []
    length = draw.randint(*lengths)
    while len(names) < length:
        last = names[-1] if names else ""
        rarest = sorted(operations, key=lambda each: (pairs[last, each.name], singles[each.name], draw.random()))
        applied = next(each for each in rarest if program.apply(each, draw))
        names.append(applied.name)
    program.name = "-".join(names)
    program.returned = [list(program.values)[-1]]
    earlier = [name for name in program.values if name.startswith("v") and name not in program.returned]
    if draw.random() < 0.3:
        program.returned.append(draw.choice(earlier))
    return program


def write(root: Path, programs: Iterable[Program]) -> None:
    """Write a catalog of programs with the suite ``pairs``."""
    names = []
    for program in programs:
        folder, golden = root / "matrix/workloads" / program.name, root / "golden" / program.name
        for each in (folder, golden):
            each.mkdir(parents=True)
        for file in _HEADERS:
            (folder / file).write_text(program.source(file))
        _dump(folder / "workload.yaml", program.document())
        judged = program.judged(folder / "reference.py")
        assert judged is not None
        layers = []
        for at, (right, bound) in enumerate(zip(*judged, strict=True)):
            np.save(golden / f"y{at}.npy", right)
            layers.append(
                {"match": {"output": f"y{at}"}, "atol": bound, "rtol": 0, "rationale": "The largest a-priori bound."}
            )
        _dump(golden / "tolerances.yaml", {"layers": layers})
        write_record(root, program.name)
        names.append(program.name)
    present = {operation for name in names for operation in name.split("-")}
    expect = [
        {"tests": [_globs(tests, present.intersection(operations))], "outcome": "lower-failed", "reason": reason}
        for tests, operations, reason in GAPS
        if present.intersection(operations)
    ]
    exclude = [
        {"tests": [_globs(tests, {operation})], "reason": reason}
        for tests, operation, reason in EXCLUDED
        if operation in present
    ]
    product = {
        "framework": ["pytorch", "jax"],
        "pipeline": list(PIPELINES),
        "target": ["x86_64"],
        "workload": ["p[0-9]*"],
    }
    (root / "matrix/suites").mkdir(parents=True)
    suite = {
        "description": "Operations in pairs.",
        "blocks": [{"product": product}],
        "expect": expect,
        "exclude": exclude,
    }
    _dump(root / "matrix/suites/pairs.yaml", suite)


def _globs(tests: str, operations: set[str]) -> str:
    """Return the glob of the tests of all programs with one of these operations."""
    return f"{tests}/x86_64/{{{','.join(f'*-{each},*-{each}-*' for each in sorted(operations))}}}"


def _dump(path: Path, document: dict[str, Any]) -> None:
    # JSON is YAML.
    path.write_text(json.dumps(document, indent=1))
