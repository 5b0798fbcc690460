"""``matrix golden calibrate``: many draws, proposals that can be applied, and nothing hidden about what failed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.machine import program
from support.workspace import Workspace

MATMUL = "golden/matmul/tolerances.yaml"
TESTS = "mlir/linalg-{loops,vectorized}/x86_64/{matmul,exp,transpose}"


def calibrated(workspace: Workspace, *arguments: str | Path, code: int = 0) -> Any:
    done = workspace("golden", "calibrate", *arguments, "--seeds", "10", "--format", "json")
    assert done.code == code, done.stderr
    return done.document


def test_the_numbers_of_each_layer(workspace: Workspace) -> None:
    first = calibrated(workspace, TESTS)
    matmul, exp = first["layers"]
    assert matmul["layer"].startswith(MATMUL)
    assert (matmul["tests"], matmul["runs"]) == (2, 20)
    assert matmul["distinct_runs"] in (10, 20)
    assert 0 < matmul["p50"] <= matmul["p99"] <= matmul["largest"] < matmul["factor"]
    assert matmul["rate_proposed"] < first["false_alarm"] == 1e-6
    assert matmul["fit"]["size"] == 10
    assert 0 < matmul["fit"]["gap"] < 0.5
    assert set(matmul["proposed"]) == {"atol", "rtol"}
    assert matmul["proposed"]["atol"].endswith(" * sqrt(K) * eps(f32)")
    # Its inputs are listed in the workload: all draws are the same.
    assert (exp["distinct_runs"], exp["proposed"]) == (1, None)
    assert exp["why_not"]
    assert [layer.partition(":")[0] for layer in first["exact"]] == ["golden/transpose/tolerances.yaml"]
    assert (first["tests"], first["failed"], first["targets"]) == (4, [], ["x86_64"])
    again = calibrated(workspace, TESTS)
    assert again["executed"] == 0
    assert again | {"executed": first["executed"]} == first


def test_a_proposal_can_be_applied_and_right_programs_still_pass(copied: Workspace, tmp_path: Path) -> None:
    assert copied.root is not None
    before = (copied.root / MATMUL).read_text()
    patch = tmp_path / "bounds.patch"
    found = calibrated(copied, "mlir/linalg-*/x86_64/matmul", "--patch", patch)
    assert (copied.root / MATMUL).read_text() == before, "it proposes"
    assert patch.read_text() == found["patch"]
    subprocess.run([program("git"), "apply", str(patch)], cwd=copied.root, check=True)
    after = (copied.root / MATMUL).read_text()
    (row,) = found["layers"]
    assert f"atol: {row['proposed']['atol']}\n" in after
    assert "Calibrated over 10 draws of 3 tests on x86_64 (known-good pins)" in " ".join(after.split())
    copied.run("mlir/linalg-*/x86_64/matmul")
    (row,) = calibrated(copied, "mlir/linalg-*/x86_64/matmul")["layers"]
    assert row["largest"] < 1
    assert row["factor"] is None or row["factor"] == pytest.approx(1, abs=0.1)


def test_a_wrong_program_is_told_and_its_layer_left_as_it_is(copied: Workspace) -> None:
    assert copied.root is not None
    source = copied.root / "matrix/workloads/matmul/jax.py"
    source.write_text(source.read_text().replace("return ", "return 1.001 * "))
    found = calibrated(copied, "{mlir,jax}/linalg-loops/x86_64/matmul", code=1)
    (failed,) = found["failed"]
    assert (failed["test"], failed["outcome"]) == ("jax/linalg-loops/x86_64/matmul", "mismatch")
    assert failed["draws"] == list(range(10))
    (row,) = found["layers"]
    assert row["tests"] == 1
    assert (row["proposed"], found["patch"]) == (None, "")
    assert row["why_not"] == "1 test that it decides gave a mismatch, e.g. jax/linalg-loops/x86_64/matmul"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mlir/linalg-loops/x86_64/transpose"], "nothing to calibrate: no test that can run"),
        (["mlir/linalg-loops/x86_64/matmul", "--seeds", "3"], "3 is not in the range 10<=x<=10000"),
        (["mlir/linalg-loops/x86_64/matmul", "--false-alarm", "0"], "0.0 is not in the range"),
        (["mlir/linalg-loops/x86_64/matmul", "--patch", "nowhere/x.patch"], "there is no such folder"),
        (["mlir/linalg-loops/x86_64/matmull"], "did you mean 'matmul'?"),
    ],
)
def test_what_cannot_be_calibrated(workspace: Workspace, arguments: list[str], words: str) -> None:
    done = workspace("golden", "calibrate", *arguments)
    assert done.code == 2
    assert words in done.stderr
