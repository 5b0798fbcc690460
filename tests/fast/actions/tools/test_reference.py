"""References: given what the inputs really are, believed only when they return what the workload says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.numerics import dtypes, lazy_array
from mlir_matrix.actions.tools import reference

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def refer(source: str, outputs: list[dict[str, Any]]) -> list[Any]:
    """Run on x = bf16 [1.5, -2] and n = i8 [3, 4]."""
    Path("reference.py").write_text(source, encoding="utf-8")
    dtypes.save_npy("x.npy", dtypes.encode(np.array([1.5, -2.0]), "bf16"))
    dtypes.save_npy("n.npy", np.array([3, 4], dtype="i1"))
    inputs = [{"name": "x", "dtype": "bf16", "shape": [2]}, {"name": "n", "dtype": "i8", "shape": [2]}]
    files = {f"expected-{output['name']}": f"{output['name']}.golden" for output in outputs}
    given = {"source": "reference.py", "arg-x": "x.npy", "arg-n": "n.npy"}
    reference.run(Action(params={"inputs": inputs, "outputs": outputs}, inputs=given, outputs=files))
    return [dtypes.load_npy(path) for path in files.values()]


def out(name: str = "y", dtype: str = "f32", shape: tuple[int, ...] = (2,)) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def test_floats_come_as_double_and_integers_as_they_are() -> None:
    source = "def reference(x, n):\n    assert (x.dtype, n.dtype) == ('float64', 'int8')\n    return x * 2, n + n\n"
    y, m = refer(source, [out(), out("m", "i8")])
    assert (y.dtype, y.tolist()) == (np.dtype("<f8"), [3.0, -4.0])
    assert (m.dtype, m.tolist()) == (np.dtype("i1"), [6, 8])


@pytest.mark.parametrize(
    "body",
    ["x * 2 + np.exp(x), x[::-1]", "np.take(x, [1, 0]), x.take([0, 0])", "np.concatenate([x, x])[1:3], x @ np.eye(2)",
     "np.where(n > 3, x, -x), x.T.copy()", "np.stack((x, x)).max(axis=0), np.array([x[1], len(x) + x.ndim + x.size])",
     "np.add.reduce(np.outer(x, x)), np.clip(x, a_min=0, a_max=1)", "np.asarray(x).astype('f4').astype('f8'), +x"],
)  # fmt: skip
def test_large_inputs_are_converted_where_they_are_looked_at(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the same numbers; indexing converts what it selects and nothing else."""
    source = f"import numpy as np\ndef reference(x, n):\n    assert x.dtype == np.float64\n    return {body}\n"
    right = [array.copy() for array in refer(source, [out(), out("m")])]
    monkeypatch.setattr(dtypes, "MAPPED", 0)
    for array, expected in zip(refer(source, [out(), out("m")]), right, strict=True):
        np.testing.assert_array_equal(array, expected)
    monkeypatch.setattr(lazy_array.LazyDoubles, "__array__", None)
    chosen = "def reference(x, n):\n    return x[n[:1] - 3].repeat(2), x[1:].repeat(2)\n"
    assert [array.tolist() for array in refer(chosen, [out(), out("m")])] == [[1.5, 1.5], [-2.0, -2.0]]


def test_scalars_are_arrays_of_rank_0() -> None:
    (y,) = refer("def reference(x, n):\n    return x.sum()\n", [out(shape=())])
    assert (y.shape, float(y)) == ((), -0.5)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return x, x", "returns 2 arrays, the workload has 1 outputs"),
        ("return x.astype('float32')", "returns float32, not float64 (references compute in double)"),
        ("return n", "returns int8, not float64"),
        ("return x[:1]", "the shape [1], not [2]"),
        ("return x * float('nan')", "NaN in 2 of 2 elements"),
        ("return [1.0, 2.0]", "returns a list, not a NumPy array"),
        ("return None", "returns a NoneType"),
    ],
)
def test_what_is_not_what_the_workload_says_fails(body: str, words: str) -> None:
    with pytest.raises(ActionFailed) as caught:
        refer(f"def reference(x, n):\n    {body}\n", [out()])
    assert words in caught.value.reason
    assert not Path("y.golden").exists()


def test_integers_must_have_their_own_width() -> None:
    with pytest.raises(ActionFailed, match="returns int8, not int32"):
        refer("def reference(x, n):\n    return n\n", [out(dtype="i32")])


def test_a_source_without_a_reference_fails() -> None:
    with pytest.raises(ActionFailed, match="defines no function"):
        refer("reference = 3\n", [out()])


def test_what_the_reference_raises_is_its_own_and_names_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        refer("def reference(x, n):\n    return 1 // 0\n", [out()])
    frame = caught.traceback[-1]
    assert (frame.frame.code.raw.co_filename, frame.lineno, frame.name) == ("reference.py", 1, "reference")


def test_an_input_that_is_not_what_it_should_be_fails() -> None:
    params = {"inputs": [{"name": "x", "dtype": "f32", "shape": [2]}], "outputs": [out()]}
    Path("reference.py").write_text("def reference(x):\n    return x\n", encoding="utf-8")
    dtypes.save_npy("x.npy", np.ones(2))
    files = {"source": "reference.py", "arg-x": "x.npy"}
    with pytest.raises(ActionFailed, match=r"the input x is <f8 \[2\], not f32 \[2\]"):
        reference.run(Action(params=params, inputs=files, outputs={"expected-y": "y.npy"}))
