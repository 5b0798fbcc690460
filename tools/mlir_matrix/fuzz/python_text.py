"""Programs as Python: the reference in NumPy, a function of PyTorch, and one of JAX."""

from __future__ import annotations

from collections.abc import Callable

from mlir_matrix.fuzz.elementwise import ELEMENTWISE
from mlir_matrix.fuzz.structural import before_broadcast, sliced
from mlir_matrix.fuzz.values import FLOATS, Program, Statement

REFERENCE, TORCH, JAX = "reference.py", "pytorch.py", "jax.py"
_HEADERS = {
    REFERENCE: "import numpy as np\n\n\ndef reference",
    TORCH: "import torch\n\n\ndef workload",
    JAX: "import jax.numpy as np\n\n\ndef workload",
}
_NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32"}


def text_of(program: Program, source: str) -> str:
    """Return the text of one of the sources."""
    lines = [f"{_HEADERS[source]}({', '.join(program.parameters)}):"]
    lines += [f"    {each.result.name} = {_expression(each, source)}" for each in program.statements]
    lines.append(f"    return {', '.join(value.name for value in program.returned)}")
    return "\n".join(lines) + "\n"


def _expression(statement: Statement, source: str) -> str:
    names = [value.name for value in statement.operands]
    if statement.operation in ELEMENTWISE:
        operation = ELEMENTWISE[statement.operation]
        text = operation.torch if source == TORCH and operation.torch else operation.python
        return text.format(*names)
    texts = _OF_TORCH if source == TORCH else _OF_NUMPY
    if statement.operation in ("to_float", "to_integer"):
        return _converted(statement, source)
    return texts[statement.operation](statement, *names)


def _converted(statement: Statement, source: str) -> str:
    name, dtype = statement.operands[0].name, statement.result.type.dtype
    if source == TORCH:
        return f"{name}.to(torch.{_NAMES[dtype]})"
    # The reference is in double.
    wide = "f64" if source == REFERENCE and dtype in FLOATS else dtype
    return f"{name}.astype(np.{_NAMES[wide]})"


def _sides(statement: Statement) -> list[tuple[int, int]]:
    return list(zip(statement.attributes["low"], statement.attributes["high"], strict=True))


def _torch_sides(statement: Statement) -> list[int]:
    """Return the sides as PyTorch has them, the last axis first."""
    return [side for pair in reversed(_sides(statement)) for side in pair]


def _shifted(statement: Statement, name: str) -> list[str]:
    """Return the slices that hold one element of each window."""
    size, stride = statement.attributes["size"], statement.attributes["stride"]
    reach = (statement.result.type.shape[-1] - 1) * stride + 1
    return [f"{name}[..., {start}:{start + reach}:{stride}]" for start in range(size)]


def _as_integer(statement: Statement) -> str:
    """Return what makes a sum of integers one of their own dtype, as frameworks do."""
    return "" if statement.result.type.is_float else ".astype(np.int32)"


_Texts = dict[str, Callable[..., str]]
_OF_NUMPY: _Texts = {
    "transpose": lambda s, a: f"np.transpose({a}, {tuple(s.attributes['order'])})",
    "reshape": lambda s, a: f"np.reshape({a}, {s.result.type.shape})",
    "broadcast": lambda s, a: f"np.broadcast_to(np.reshape({a}, {before_broadcast(s)}), {s.result.type.shape})",
    "slice": lambda s, a: f"{a}[{sliced(s)}]",
    "pad": lambda s, a: f"np.pad({a}, {_sides(s)}, constant_values={s.attributes['value']})",
    "concat": lambda s, a, b: f"np.concatenate([{a}, {b}], axis={s.attributes['axis']})",
    "reverse": lambda s, a: f"np.flip({a}, axis={s.attributes['axis']})",
    "reduce_sum": lambda s, a: f"np.sum({a}, axis={s.attributes['axis']}){_as_integer(s)}",
    "reduce_max": lambda s, a: f"np.max({a}, axis={s.attributes['axis']})",
    "reduce_min": lambda s, a: f"np.min({a}, axis={s.attributes['axis']})",
    "matmul": lambda s, a, b: f"{a} @ {b}",
    "take": lambda s, a: f"{a}[np.array({s.attributes['places']})]",
    "window_sum": lambda s, a: " + ".join(_shifted(s, a)),
    "window_max": lambda s, a: f"np.max(np.stack([{', '.join(_shifted(s, a))}]), axis=0)",
}
_OF_TORCH: _Texts = _OF_NUMPY | {
    "transpose": lambda s, a: f"{a}.permute({s.attributes['order']})",
    "reshape": lambda s, a: f"{a}.reshape({s.result.type.shape})",
    "broadcast": lambda s, a: f"{a}.reshape({before_broadcast(s)}).expand({s.result.type.shape})",
    "pad": lambda s, a: f"torch.nn.functional.pad({a}, {_torch_sides(s)}, value={s.attributes['value']})",
    "concat": lambda s, a, b: f"torch.cat([{a}, {b}], dim={s.attributes['axis']})",
    "reverse": lambda s, a: f"torch.flip({a}, [{s.attributes['axis']}])",
    "reduce_sum": lambda s, a: f"torch.sum({a}, {s.attributes['axis']}, dtype=torch.{_NAMES[s.result.type.dtype]})",
    "reduce_max": lambda s, a: f"torch.amax({a}, {s.attributes['axis']})",
    "reduce_min": lambda s, a: f"torch.amin({a}, {s.attributes['axis']})",
    "take": lambda s, a: f"{a}[{s.attributes['places']}]",
    "window_max": lambda s, a: f"torch.amax(torch.stack([{', '.join(_shifted(s, a))}]), 0)",
}
