"""The importer in its real environment, which has ONNX and torch-mlir and no PyTorch."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

X = {"name": "x", "dtype": "f32", "shape": [3, 4], "dynamic": []}
Y = {"name": "y", "dtype": "f32", "shape": [3, 4]}

SOURCE = """
from onnx import parser
def workload(dims):
    return parser.parse_model('''<ir_version: 10, opset_import: ["": %d]> %s'''.replace("M", str(dims["M"])))
"""


class Importer:
    """Imports models, each in a folder of its own."""

    def __init__(self, environments: Any, folder: Path) -> None:
        self._environments = environments
        self._folder = folder
        self._count = count()

    def perform(
        self, graph: str, *, opset: int = 21, x: dict[str, Any] = X, y: dict[str, Any] = Y, source: str = ""
    ) -> Any:
        return self._environments.perform(
            "onnx",
            "matrix/frameworks/onnx/importer.py",
            self._folder / str(next(self._count)),
            params={"kind": "torch-onnx", "inputs": [x], "outputs": [y], "dims": {"M": 3}},
            inputs={"source": source or SOURCE % (opset, graph)},
            outputs={"out": "ir.mlir"},
            stage="import",
        )

    def imported(self, graph: str, **more: Any) -> str:
        done = self.perform(graph, **more)
        assert done.ok, done.outcome
        return str(done.text("out"))

    def failure(self, graph: str, **more: Any) -> dict[str, str]:
        done = self.perform(graph, **more)
        assert done.outcome["outcome"] == "import-failed"
        outcome: dict[str, str] = done.outcome
        return outcome


@pytest.fixture
def onnx(environments: Any, tmp_path: Path) -> Importer:
    return Importer(environments, tmp_path)


def test_the_graph_becomes_main_without_locations(onnx: Importer) -> None:
    text = onnx.imported("other (float[M, 4] x) => (float[3, 4] y) { y = Relu(x) }")
    assert "func.func @main(%arg0: !torch.vtensor<[3,4],f32>) -> !torch.vtensor<[3,4],f32>" in text
    assert 'torch.operator "onnx.Relu"' in text
    assert "loc(" not in text
    assert "other" not in text


def test_the_bytes_repeat(onnx: Importer) -> None:
    graph = "g (float[M, 4] x) => (float[3, 4] y) <float one = {1}> { z = Add(x, one) y = Relu(z) }"
    assert onnx.imported(graph) == onnx.imported(graph)


def test_an_open_size_stays_open(onnx: Importer) -> None:
    text = onnx.imported("g (float[B, 4] x) => (float[B, 4] y) { y = Relu(x) }", x={**X, "dynamic": [0]})
    assert "!torch.vtensor<[?,4],f32>) -> !torch.vtensor<[?,4],f32>" in text


def test_an_older_model_is_brought_to_the_opset(onnx: Importer) -> None:
    # Until 12, axes was an attribute.
    graph = "g (float[M, 4] x) => (float[3] y) { y = ReduceSum <axes = [1], keepdims = 0>(x) }"
    text = onnx.imported(graph, opset=11, y={**Y, "shape": [3]})
    assert "torch.onnx_meta.opset_version = 21" in text
    assert "torch.onnx.axes" not in text


def test_an_initialized_input_is_a_constant_not_an_argument(onnx: Importer) -> None:
    text = onnx.imported("g (float[M, 4] x, float one = {1}) => (float[3, 4] y) { y = Add(x, one) }")
    assert "@main(%arg0: !torch.vtensor<[3,4],f32>)" in text


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (
            "g (float[4, M] x) => (float[4, 3] y) { y = Relu(x) }",
            "input x: declared f32[3, 4], the model takes f32[4, 3]",
        ),
        ("g (double[3, 4] x) => (double[3, 4] y) { y = Relu(x) }", "the model takes f64[3, 4]"),
        ("g (float[B, 4] x) => (float[B, 4] y) { y = Relu(x) }", "the model takes f32[?, 4]"),
        ("g (uint32[3, 4] x) => (uint32[3, 4] y) { y = Identity(x) }", "the model takes u32[3, 4]"),
        ("g (uint4[3, 4] x) => (uint4[3, 4] y) { y = Identity(x) }", "the model takes UINT4[3, 4]"),
        ("g (float x, float z) => (float y) { y = Add(x, z) }", "declared 1 inputs, the model takes 2"),
        (
            "g (float[3, 4] x) => (float[4, 3] y) { y = Transpose <perm = [1, 0]>(x) }",
            "output y: declared f32[3, 4], got f32[4, 3]",
        ),
    ],
)
def test_a_model_that_is_not_the_declared_one_is_refused(onnx: Importer, graph: str, reason: str) -> None:
    assert reason in onnx.failure(graph)["reason"]


def test_a_declared_output_that_contradicts_the_graph_is_refused(onnx: Importer) -> None:
    error = onnx.failure("g (float[3, 4] x) => (float[3, 4] y) { y = Transpose <perm = [1, 0]>(x) }")
    assert error["reason"].startswith("ONNX cannot infer types and shapes: Inferred shape and existing shape differ")
    assert error["diagnostics"]


def test_an_invalid_model_is_refused(onnx: Importer) -> None:
    error = onnx.failure("g (float[3, 4] x) => (float[3, 4] y) { y = NoSuchOperator(x) }")
    assert error["reason"] == "the model is not valid ONNX"
    assert "NoSuchOperator" in error["diagnostics"]


def test_what_is_not_a_model_is_refused(onnx: Importer) -> None:
    error = onnx.failure("", source="def workload(dims):\n    return 3\n")
    assert error["reason"] == "workload returned int, not an onnx.ModelProto"
