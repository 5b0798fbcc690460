"""``matrix golden explain`` on the repository's own tests, and on what a stranger's catalog gets wrong."""

from __future__ import annotations

import pytest

from support.workspace import Workspace

TEST = "mlir/linalg-loops/x86_64/transpose"


def test_the_json_has_all_of_it(workspace: Workspace) -> None:
    workspace.run(TEST)
    done = workspace("golden", "explain", TEST, "--format", "json")
    assert done.code == 0, done.stderr
    assert done.document["id"] == TEST
    assert {each["name"] for each in done.document["attributes"]} >= {"contraction", "math", "libm"}
    (output,) = done.document["outputs"]
    assert output["layer"].startswith("golden/transpose/tolerances.yaml:")
    assert output["bounds"]["atol"] == {"text": "0", "substituted": "0", "value": 0}
    assert [row["at"] for row in output["meaning"]] == ["zero", "median", "largest"]
    assert output["last"]["outcome"] == "pass"
    assert output["last"]["error_used"] == 0
    assert sum(layer["layer"] == output["layer"] for layer in output["layers"]) == 1


def test_a_pattern_explains_each_test_that_has_a_tolerance(workspace: Workspace) -> None:
    pattern = "mlir/linalg-{loops,fuse}/{x86_64,ir}/{dot,chain}"
    documents = workspace("golden", "explain", pattern, "--format", "json").document
    assert [document["id"] for document in documents] == ["mlir/linalg-loops/x86_64/dot"]
    text = workspace("golden", "explain", "mlir/linalg-{loops,named}/x86_64/dot").stdout
    assert [line for line in text.splitlines() if line.startswith("mlir/")] == [
        "mlir/linalg-loops/x86_64/dot",
        "mlir/linalg-named/x86_64/dot",
    ]


def test_bounds_of_elements_are_measured(workspace: Workspace) -> None:
    document = workspace(
        "golden", "explain", "mlir/linalg-loops/x86_64/frontier_custom_op", "--format", "json"
    ).document
    (output,) = document["outputs"]
    bounds = output["element_bounds"]
    assert bounds["rationale"].startswith("derived from reference.py, per element")
    assert 0 < bounds["median"] <= bounds["largest"] < 1e-3


def test_no_layer_bounds_what_must_be_equal(workspace: Workspace) -> None:
    text = workspace("golden", "explain", "mlir/linalg-loops/x86_64/argmax").stdout
    assert "must be equal; no layer applies" in text
    assert "tolerances.yaml" not in text


def test_what_was_never_run_is_explained_all_the_same(copied: Workspace) -> None:
    assert copied.root is not None
    (copied.root / "golden" / "mlp" / "y.npy").unlink()
    done = copied("golden", "explain", "mlir/linalg-loops/x86_64/mlp")
    assert done.code == 0, done.stderr
    assert "atol = 2 * sqrt(I + H) * eps(f32) = 2 * sqrt(60 + 100) * 1.19e-07 = 3.02e-06" in done.stdout
    assert "Last verdict: none in the cache" in done.stdout
    assert "the golden's median" not in done.stdout


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("mlir/linalg-loops/x86_64/mlpp", "did you mean 'mlp'?"),
        ("mlir/linalg-loops/x86_64", "is not the identifier of a test"),
        ("mlir/bufferize/ir/*", "mlir/bufferize/ir/*: no tolerance applies to any of these tests"),
        ("mlir/linalg-loops/x86_64/mpl*", "no workload matches 'mpl*'"),
        ("mlir/bufferize/ir/owned", "is an IR test: FileCheck checks its text, and no tolerance applies"),
    ],
)
def test_what_is_no_test_with_a_tolerance(workspace: Workspace, identifier: str, words: str) -> None:
    done = workspace("golden", "explain", identifier)
    assert done.code == 2
    assert words in done.stderr
