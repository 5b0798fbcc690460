"""Error bounds: what single precision really does stays within them, they are those of the textbook, and gaps are said."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.runtime.source import Tensor
from mlir_matrix.actions.tools import forward_error

pytestmark = pytest.mark.usefixtures("in_tmp_path")

U = 2.0**-24


def bounds(
    body: str, *arguments: Any, dtype: str = "f32", names: str = "xyz", before: str = "", after: str = ""
) -> tuple[Any, Any]:
    """What is right, and the bound, for a reference with this body."""
    given = names[: len(arguments)]
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    source = f"import math\nimport numpy as np\n{before}\n\ndef reference({', '.join(given)}):\n{lines}\n{after}"
    Path("reference.py").write_text(source, encoding="utf-8")
    arrays = [np.asarray(each) for each in arguments]
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    shape = list(np.shape(namespace["reference"](*arrays)))
    inputs = [Tensor(name=name, shape=(), dtype="f32") for name in given]
    spec = {"name": "y", "dtype": dtype, "shape": shape}
    (right,), (bound,) = forward_error.bounded_reference("reference.py", arrays, [spec], inputs)
    assert bound.dtype == np.float64
    assert bound.shape == right.shape
    return right, bound


def singles(seed: int, *shape: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).normal(0, scale, shape)).astype(np.float32).astype(np.float64)


#: Programs as references are written; each takes x and y of [4, 6] and is as good in single precision.
PROGRAMS = {
    "add": "return x + y",
    "chain": "return (x - y) * (x + 0.1) / (y * y + 1)",
    "in place": "z = x.copy()\nz += y\nz *= 3.0\nz[1:, ::2] = y[1:, ::2] / 7\nreturn z",
    "matmul": "return x @ y.T",
    "einsum": "return np.einsum('ij,kj,k->i', x, y, y[:, 0])",
    "einsum over one": "return np.einsum('ij->j', x)",
    "tensordot": "return np.tensordot(x, y, axes=([1], [1]))",
    "outer": "return np.outer(x[0], y[0])",
    "softmax": "e = np.exp(x - x.max(axis=-1, keepdims=True))\nreturn e / e.sum(axis=-1, keepdims=True)",
    "variance": "return np.asarray(np.var(x, axis=1) + np.std(y, axis=1))",
    "layernorm": "d = x - x.mean(-1, keepdims=True)\nreturn d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * y",
    "functions": "return np.sin(x) * np.cos(y) + np.tanh(x * y) - np.arctan(x) + np.cbrt(y) + np.exp2(x) + np.expm1(y)",
    "logarithms": "return np.log(np.abs(x) + 1.5) + np.log1p(np.abs(y)) + np.log2(x * x + 2.0) + np.log10(y * y + 3)",
    "hyperbolic": "return np.sinh(x) + np.cosh(y) + np.arcsinh(x) + np.arccosh(np.abs(y) + 2) + np.tan(x / 4)",
    "inverses": "return np.arcsin(x / 32) + np.arccos(y / 32) + np.arctan2(x, np.abs(y) + 1) + np.hypot(x, y)",
    "powers": "return x**2 + np.abs(y) ** 1.5 + x**3 + (np.abs(x) + 1.0) ** y",
    "math": "return np.vectorize(math.erf, otypes=[np.float64])(x) * np.vectorize(math.erfc, otypes=[np.float64])(y)",
    "where": "return np.where(x > 0, x * y, 0.01 * x)",
    "concatenate": "return np.concatenate([x * 3, y / 3], axis=0)",
    "stack": "return np.stack([np.asarray(a * b) for a, b in zip(x, y, strict=True)])",
    "pad": "return np.pad(x * 1.1, 1, constant_values=0.1).cumsum(axis=0)",
    "windows": "w = np.lib.stride_tricks.sliding_window_view(x, (2, 3))\nreturn w.sum(axis=(-1, -2)) + w.max(axis=(-1, -2))",
    "sort": "return np.sort(x * y, axis=-1)",
    "gather": "return np.take_along_axis(x * y, np.argsort(-x, axis=-1), axis=-1)",
    "empty": "z = np.empty(x.shape)\nfor i in range(len(x)):\n    z[i] = x[i] * y[i].sum()\nreturn z",
    "scatter": "z = np.zeros_like(x)\nfor (i, j), v in np.ndenumerate(y):\n    z[i // 2, j] += v\nreturn z",
    "fsum": "return np.array([math.fsum(row) for row in x * y])",
    "clip": "return np.clip(x * y, -0.5, 0.3) - np.minimum(x, y)",
    "product": "return np.prod(x, axis=1) + np.cumsum(y, axis=1)[:, -1]",
    "norm": "return x / np.linalg.norm(y)",
    "split": "a, b = np.split(x * y, 2, axis=1)\nreturn a.reshape(-1) * b.T.ravel()",
    "quantized": "q = np.rint(np.clip(x * 4, -8, 7)).astype(np.int8)\nreturn q.astype(np.float64) * 0.3 * y",
}


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), scale=st.sampled_from([0.01, 1.0, 3.0]))
def test_single_precision_stays_within(program: str, seed: int, scale: float) -> None:
    x, y = singles(seed, 4, 6, scale=scale), singles(seed + 1, 4, 6, scale=scale)
    body = PROGRAMS[program]
    right, bound = bounds(body, x, y)
    namespace: dict[str, Any] = {}
    exec(f"import math\nimport numpy as np\ndef reference(x, y):\n{textwrap.indent(body, '    ')}", namespace)
    single = namespace["reference"](x.astype(np.float32), y.astype(np.float32))
    stored = np.asarray(single).astype(np.float32).astype(np.float64)
    assert (np.abs(stored - right) <= bound).all()
    # And they mean something: nothing here is off by a thousandth of its size.
    assert (bound <= 1e-3 * (1 + np.abs(right).max())).all() or program in ("quantized",)


def test_a_sum_and_a_product_have_the_bounds_of_the_textbook() -> None:
    x, y = singles(1, 3, 50), singles(2, 50, 4)
    _, bound = bounds("return x @ y", x, y)
    assert bound == pytest.approx(50 * U * (np.abs(x) @ np.abs(y)), rel=1e-6)
    _, bound = bounds("return x.sum(axis=1)", x)
    assert bound == pytest.approx(49 * U * np.abs(x).sum(axis=1), rel=1e-6)


def test_what_is_exact_has_no_error() -> None:
    x = singles(3, 5, 5)
    for body in (
        "return -x.T[::-1]", "return x * 4.0 / 0.5", "return np.maximum(x, 0.0)", "return np.abs(x) + 0",
        "return np.floor(x)", "return np.where(x > 0.1, x, -1.0)", "return np.sort(x)", "return x.max(axis=0)",
    ):  # fmt: skip
        assert not bounds(body, x)[1].any(), body


def test_constants_that_the_dtype_does_not_hold_are_rounded() -> None:
    _, bound = bounds("return x * 0 + 0.1", np.zeros(1))
    assert bound == pytest.approx(0.1 * U, rel=1e-6)
    assert not bounds("return x * 0 + 0.25", np.zeros(1))[1].any()


def test_each_dtype_has_its_own_unit() -> None:
    x = dtypes.decode(dtypes.encode(singles(4, 9), "bf16"), "bf16")
    found = {dtype: bounds("return x * x + x", x, dtype=dtype)[1] for dtype in ("f64", "f32", "f16", "bf16")}
    assert (found["f64"] > 0).all()
    # The reference's own roundings are as large there.
    assert found["f64"] == pytest.approx(found["f32"] * 2.0**-28, rel=1e-3)
    assert (found["bf16"] > 7 * found["f16"]).all()


def test_whole_numbers_have_the_bound_0_and_floats_made_of_them_have_errors() -> None:
    x = np.arange(-4, 4, dtype=np.int8)
    right, bound = bounds("return x.astype(np.int32) @ x.astype(np.int32)", x, dtype="i32")
    assert (right, bound) == (44, 0)
    for body in ("return x.astype(np.float64) * 0.1", "return x * 0.1", "return x / 3"):
        assert (bounds(body, x)[1] > 0).sum() == 7, body


@pytest.mark.parametrize("decision", ["x > 0", "np.rint(x).astype(np.int8)", "np.argsort(x)"])
def test_floats_made_of_a_decision_have_errors(decision: str) -> None:
    right, bound = bounds(f"return np.tanh(({decision}).astype(np.float64))", np.array([1.0, 2.0, 3.0]))
    inexact = right != 0
    assert inexact.any()
    assert (bound[inexact] > 2.0**-24 * right[inexact]).all()


def test_cancellation_leaves_the_errors_of_what_cancelled() -> None:
    _, bound = bounds("return (x + 1.0) - 1.0", np.array([1e-6]))
    assert bound >= 2.0**-24
    assert bound < 2.0**-22


def test_a_quotient_may_be_a_product_with_the_reciprocal() -> None:
    x, y = singles(5, 1000), np.abs(singles(6, 1000))
    right, bound = bounds("return x / np.sqrt(y)", x, y)
    reciprocal = np.float32(1) / np.sqrt(y.astype(np.float32))
    assert (np.abs(x.astype(np.float32) * reciprocal - right) <= bound).all()
    assert bound == pytest.approx(3 * U * np.abs(right), rel=1e-6)


@pytest.mark.parametrize(
    ("body", "near"),
    [("np.log(z)", 0), ("np.log2(z)", 0), ("np.log10(z)", 0), ("np.log1p(z)", -1), ("np.arctanh(z)", 1), ("np.arctanh(-z)", 1),
     ("np.tan(z)", np.pi / 2), ("np.tan(z)", -3 * np.pi / 2)],
)  # fmt: skip
def test_nothing_is_known_of_what_may_be_on_either_side_of_a_pole(body: str, near: float) -> None:
    """``z`` is next to the pole, and comes with an error larger than the distance."""
    away = -1.0 if body.startswith("np.arctanh") else 1.0
    x, y = np.array([1e7]), np.array([near + away * 1e-3])
    _, bound = bounds(f"z = (x + y) - x\nreturn {body}", x, y)
    assert bound[0] > 1e20
    _, bound = bounds(f"z = y + 0\nreturn {body}", x, dtypes.decode(dtypes.encode(y, "f32"), "f32"))
    assert bound[0] < 0.1, "where the argument is exact it is the function that errs"


def test_infinities_are_right_or_wrong_and_what_overflows_is_not_known() -> None:
    x = np.array([np.inf, -np.inf, 1 + 2.0**-23, 3e38])
    right, bound = bounds("return x * 2.2", x)
    assert right[0] == np.inf
    assert bound[:2].tolist() == [0, 0]
    assert 0 < bound[2] < 1e-6
    assert bound[3] == np.inf


def test_a_bound_that_the_reference_states_wins() -> None:
    after = "\ndef forward_error(roundoff, x, y):\n    return np.abs(x) * roundoff * 5 + y * 0\n"
    _, bound = bounds("return x + y", np.array([2.0, -4.0]), np.array([1.0, 1.0]), after=after)
    assert bound.tolist() == [10 * U, 20 * U]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("return np.abs(x)[:1]", "forward_error() returns float64 [1], not float64 [2]"),
        ("return x", "NaN or less than 0"),
        ("return x * float('nan')", "NaN or less than 0"),
        ("return x, x", "forward_error() returns 2 arrays, the workload has 1 outputs"),
        ("return x.astype('f4')", "returns float32 [2], not float64 [2]"),
    ],
)
def test_a_stated_bound_that_is_none_fails(after: str, words: str) -> None:
    with pytest.raises(ActionFailed) as raised:
        bounds("return x", np.array([2.0, -4.0]), after=f"\ndef forward_error(roundoff, x):\n    {after}\n")
    assert words in raised.value.reason


def test_a_stated_bound_is_given_the_inputs_by_their_names() -> None:
    with pytest.raises(ActionFailed, match="the source has"):
        bounds("return x + y", np.ones(1), np.ones(1), after="\ndef forward_error(roundoff, y, x):\n    return x\n")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return np.i0(x)", "i0"),
        ("return np.fft.fft(x).real", "numpy.fft"),
        ("return np.remainder(x, 0.3)", "numpy.remainder"),
        ("return np.add.reduceat(x, [0])", "numpy.add.reduceat"),
        ("return np.vectorize(math.gamma)(x)", "math.gamma"),
        ("return np.asarray([float(v) for v in x])", "float()"),
        ("return np.linalg.norm(x, ord=1)", "with ord 1"),
        ("return x.round(2)", "to decimals"),
    ],
)
def test_what_is_not_known_is_said(body: str, what: str) -> None:
    with pytest.raises(ActionFailed) as raised:
        bounds(body, np.array([1.5, 2.5]))
    assert what in raised.value.reason
    assert "define forward_error(roundoff, ...) in reference.py" in raised.value.reason


def test_the_action_writes_what_is_right_and_the_bound() -> None:
    Path("reference.py").write_text("def reference(x):\n    return x * x, x > 1\n")
    dtypes.save_npy("x.npy", np.array([1.5, 0.1], dtype=np.float32))
    outputs = [{"name": "y", "dtype": "f32", "shape": [2]}, {"name": "n", "dtype": "bool", "shape": [2]}]
    files = {f"{what}-{name}": f"{what}-{name}.npy" for name in "yn" for what in ("expected", "bound")}
    params = {"inputs": [{"name": "x", "dtype": "f32", "shape": [2]}], "outputs": outputs}
    forward_error.run(Action(params=params, inputs={"source": "reference.py", "arg-x": "x.npy"}, outputs=files))
    read = {name: dtypes.load_npy(path) for name, path in files.items()}
    assert read["expected-n"].tolist() == [True, False]
    assert read["bound-n"].tolist() == [0, 0]
    assert read["expected-y"] == pytest.approx([2.25, 0.01])
    assert read["bound-y"] == pytest.approx(read["expected-y"] * U, rel=1e-6)
