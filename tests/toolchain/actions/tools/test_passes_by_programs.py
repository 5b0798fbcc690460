"""Passes through mlir-opt of several releases, on IR small enough to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import METRICS, Action
from mlir_matrix.actions.mlir import by_programs
from mlir_matrix.actions.runtime import programs

SOURCE = """
func.func @main(%x: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%x : memref<4xf32>) {
  ^bb0(%e: f32):
    %y = math.exp %e : f32
    %z = math.log %y : f32
    linalg.yield %z : f32
  }
  return
}
"""
#: LLVM 18 brought the name.
NEWER = "func.func @main(%x: f32) -> f32 {\n  %y = arith.maximumf %x, %x : f32\n  return %y : f32\n}\n"
SCHEDULE = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%m: !transform.any_op) {
    %0 = transform.structured.match ops{["${op}"]} in %m : (!transform.any_op) -> !transform.any_op
    %1 = transform.structured.convert_to_loops %0 : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


@pytest.fixture
def passes(environments: Any, tmp_path: Path) -> Any:
    count = iter(range(100))

    def perform(pipeline: str, *, release: str = "22", ir: str = SOURCE, schedule: str = "", **parameters: Any) -> Any:
        return environments.perform(
            f"mlir@llvm={release}",
            "passes",
            tmp_path / str(next(count)),
            params={"passes": pipeline, "backend": "programs", "parameters": parameters},
            inputs={"ir": ir} | ({"schedule": schedule} if schedule else {}),
            outputs={"ir": "out.mlir"},
        )

    return perform


@pytest.mark.parametrize(
    ("release", "given"),
    [
        ("15.0.6", "cse"),
        ("16.0.6", "builtin.module(cse)"),
        ("24.0.0+deb.1", "builtin.module(cse)"),
        ("main", "builtin.module(cse)"),
    ],
)
def test_the_anchor_is_said_from_16_on(monkeypatch: pytest.MonkeyPatch, release: str, given: str) -> None:
    called = []
    monkeypatch.setattr(programs, "release", lambda _program: release)
    monkeypatch.setattr(programs, "call", lambda _program, words, **_: called.append(words))
    by_programs.transform(Action(params={}, inputs={"ir": __file__}, outputs={"ir": "out"}), "cse")
    assert called == [[__file__, f"--pass-pipeline={given}"]]


@pytest.mark.parametrize("release", ["15", "16", "22"])
def test_a_pipeline_over_several_lines(passes: Any, release: str) -> None:
    """Each release has its own syntax of pipelines; what it leaves is IR without locations."""
    done = passes("canonicalize,\n  func.func(\n  convert-linalg-to-loops\n)", release=release)
    assert done.ok, done.outcome
    assert "scf.for" in done.text("ir")
    assert "linalg" not in done.text("ir")
    assert "loc(" not in done.text("ir")


def test_no_passes_at_all(passes: Any) -> None:
    assert "linalg.generic" in passes("").text("ir")


def test_a_schedule_is_run_with_its_parameters_and_is_gone_afterwards(passes: Any) -> None:
    done = passes("transform-interpreter,canonicalize", schedule=SCHEDULE, op="linalg.generic")
    assert done.ok, done.outcome
    assert "scf.for" in done.text("ir")
    assert "transform" not in done.text("ir")
    kept = passes("transform-interpreter,canonicalize", schedule=SCHEDULE, op="linalg.matmul").text("ir")
    assert kept == passes("canonicalize").text("ir")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"pipeline": "no-such-pass"}, "the passes failed: "),
        ({"pipeline": "cse", "ir": "func.func @main("}, "the IR does not parse: expected"),
        (
            {"pipeline": "cse", "ir": NEWER, "release": "17"},
            "the IR does not parse: custom op 'arith.maximumf' is unknown",
        ),
        ({"pipeline": "", "ir": "func.func @main("}, "the file does not parse: expected"),
        ({"pipeline": "cse", "ir": " \n"}, "the IR is empty"),
        ({"pipeline": "transform-interpreter", "schedule": "module {"}, "the passes failed: "),
    ],
)
def test_what_cannot_be_done(passes: Any, given: dict[str, str], reason: str) -> None:
    done = passes(given.pop("pipeline"), **given)
    assert done.outcome["outcome"] == "lower-failed"
    assert done.outcome["reason"].startswith(reason)
    assert str(done.folder) not in str(done.outcome)
    metrics = Path(done.folder) / METRICS
    assert not metrics.exists() or len(json.loads(metrics.read_text())["commands"]) == 1, "only the reason needs more"


def test_the_bytes_repeat(passes: Any) -> None:
    first, second = (passes("func.func(convert-linalg-to-loops)", release="15").read("ir") for _ in range(2))
    assert first == second


@pytest.mark.parametrize("release", ["15.0.6", "16.0.6", "22"])
def test_every_release_counts_operations_and_places_what_a_kind_does_not_have(
    environments: Any, tmp_path: Path, release: str
) -> None:
    contract = {"kind": "loops", "allow": ["func.*", "math.*", "linlag.*"], "types": ["tensor"], "main": "memref"}
    done = environments.perform(
        f"mlir@llvm={release}",
        "passes",
        tmp_path,
        params={"passes": "cse", "backend": "programs", "contract": contract},
        inputs={"ir": SOURCE},
        outputs={"ir": "out.mlir"},
    )
    assert done.outcome["reason"] == "left 1 operation that kind loops does not have: linalg.generic at in/ir:3:3"
    assert "no such dialect: linalg?" in done.outcome["diagnostics"]
    metrics = json.loads((tmp_path / METRICS).read_text())
    assert metrics["operations"]["math.exp"] == 1
    assert not any("print-op-stats" in word for line in metrics["commands"] for word in line)


def test_a_release_that_cannot_count_operations_checks_the_rest(environments: Any, tmp_path: Path) -> None:
    contract = {"kind": "k", "allow": ["none.*"], "types": ["vector"]}
    done = environments.perform(
        "mlir@llvm=14",
        "passes",
        tmp_path,
        params={"passes": "cse", "backend": "programs", "contract": contract},
        inputs={"ir": "func @f(%x: vector<4xf32>) {\n  return\n}\n"},
        outputs={"ir": "out.mlir"},
    )
    assert done.outcome["reason"] == (
        "left 1 operation with types that kind k does not have: builtin.func on vector<4xf32> at in/ir:1:1"
    )
