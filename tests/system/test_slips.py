"""What people get wrong in catalogs and commands, and are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.downstream import Downstream
from support.workspace import Report, Workspace


def test_more_memory_may_help(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    """What failed with less memory is tried again with more, and not with less; the limit is part of what repeats it."""
    workspace = fresh("home")
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("large", jax="hog = bytearray(700 << 20)\ndef workload(x):\n    return x * 2\n")
    test = "jax/linalg-loops/x86_64/large"
    words = ("run", test, "--catalog", catalog.root, "--quiet")
    small = workspace(*words, "--memory", "256")
    assert small.code == 1
    assert "out of memory within the action's limit" in small.stdout
    assert f"--memory 256 {test}" in small.stdout
    again = Report(workspace(*words, "--memory", "128", "--format", "json"))
    assert (again.outcomes, again.executed) == ({test: "import-failed"}, 0)
    assert Report(workspace(*words, "--format", "json")).outcomes == {test: "pass"}
    less = Report(workspace(*words, "--memory", "128", "--format", "json"))
    assert (less.outcomes, less.executed) == ({test: "pass"}, 0)


def test_arguments_in_another_order(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    """They are given in the order of workload.yaml: a source that takes them in another one is told so."""
    document = (
        "description: Not symmetric.\ninputs:\n  a: {shape: [4], dtype: f32, formula: iota()}\n"
        "  b: {shape: [4], dtype: f32, formula: '0 * iota() + 1'}\noutputs:\n  y: {shape: [4], dtype: f32}\n"
    )
    onnx = (
        "import onnx.parser\ndef workload(dims):\n    return onnx.parser.parse_model('<ir_version: 8, opset_import: "
        '["": 21]> m (float[4] b, float[4] a) => (float[4] y) { y = Sub(a, b) }\')\n'
    )
    catalog = Downstream(tmp_path / "catalog")
    source = "def workload(b, a):\n    return a - b\n"
    catalog.workload("swapped", document=document, jax=source, pytorch=source, onnx=onnx)
    tests = [f"{framework}/linalg-loops/x86_64/swapped" for framework in ("jax", "pytorch", "onnx")]
    report = Report(fresh("home")("run", *tests, "--catalog", catalog.root, "--format", "json", "--quiet"))
    assert set(report.outcomes.values()) == {"import-failed"}
    assert {test["reason"] for test in report.tests.values()} == {"declared inputs (a, b), the source has (b, a)"}


def test_a_layer_is_named_where_it_is(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("off", jax="def workload(x):\n    return x * 2 + 1\n")
    layer = catalog.write(
        "golden/off/tolerances.yaml", "layers:\n  - atol: 0.5\n    rtol: 0\n    rationale: Because.\n"
    )
    done = fresh("home")("run", "jax/linalg-loops/x86_64/off", "--catalog", catalog.root, "--quiet")
    assert done.code == 1
    assert f"from {layer}:2:5" in done.stdout


def test_a_misspelt_room_is_told(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax="def workload(x):\n    return x * 2\n")
    for name in ("tools", "recipe"):
        (catalog.root / name).mkdir()
    done = fresh("home")("plan", "--catalog", catalog.root)
    assert done.code == 2
    assert done.stderr.splitlines() == [f"matrix: {catalog.root}/recipe: unknown folder; did you mean 'recipes'?"]


def test_a_report_that_has_no_place(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    """Told before anything is run."""
    done = fresh("home")("run", "mlir/linalg-loops/x86_64/mlp", "--junit", tmp_path / "none" / "x.xml")
    assert (done.code, done.stdout) == (2, "")
    assert "there is no such folder" in done.stderr
