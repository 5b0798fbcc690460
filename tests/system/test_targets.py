"""Targets: the same bits on every CPU, what a further target costs, contraction, and what is only compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.workspace import Report, Workspace, new_home

#: Workloads without functions of libm, whose every rounding is that of an operation.
EXACT = "{matmul,exp,layernorm}"
TARGETS = ("x86_64-v2", "aarch64-sve256", "riscv64-rvv", "wasm32+simd")
COMPILE_ONLY = """\
description: A machine that nothing here emulates.
accepts: [object-llc]
codegen: [{step: object-llc, with: {triple: s390x-unknown-linux-gnu}}]
machine: [x86_64]
compile_only: no emulator of it is installed
directives: header.check
"""
#: An object file is not text.
HEADER = """\
import struct
from pathlib import Path

from mlir_matrix.actions.api import Action


def run(action: Action) -> None:
    machine, = struct.unpack_from(">H", Path(action.inputs["artifact"]).read_bytes(), 18)
    Path(action.outputs["out"]).write_text(f"machine {machine}\\n")
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(new_home(tmp_path_factory.mktemp("targets") / "home"))


def outputs_of(
    workspace: Workspace, target: str, workloads: str = EXACT
) -> tuple[Report, set[frozenset[tuple[str, str]]]]:
    """Run workloads on a target. Return the report, and the digests of what the kernels that it executed returned."""
    before = workspace.kept().keys()
    report = workspace.run(f"mlir/linalg-loops/{target}/{workloads}")
    assert set(report.outcomes.values()) == {"pass"}, report.told()
    made = [entry["outputs"] for key, entry in workspace.kept().items() if key not in before]
    return report, {frozenset(outputs.items()) for outputs in made if any(name.startswith("out-") for name in outputs)}


def test_every_cpu_computes_the_same_bits_and_costs_its_own_actions(workspace: Workspace) -> None:
    """Without contraction and without libm, nothing is left that two machines would round differently."""
    first, *others = TARGETS
    report, expected = outputs_of(workspace, first)
    assert len(expected) == len(report.tests) == EXACT.count(",") + 1
    for target in others:
        report, found = outputs_of(workspace, target)
        assert found == expected, target
        # Object, link and run of each workload, and the driver and C library of the triple: results are judged already.
        kinds = {name.rpartition("-")[0].partition("/")[0] for name in report.actions}
        assert kinds <= {"object-llc", "link", "run", "driver", "runtime"}, target
        assert report.executed <= 3 * len(report.tests) + 2
    again, _ = outputs_of(workspace, "aarch64-sve512")
    kinds = {name.rpartition("-")[0].partition("/")[0] for name in again.actions}
    assert kinds == {"run"}, "the same code for vectors of another length, in another emulator"


def test_contraction_is_another_target_with_other_bits(workspace: Workspace) -> None:
    _, (apart, *_) = outputs_of(workspace, "riscv64", "depthwise_conv2d")
    _, (fused, *_) = outputs_of(workspace, "riscv64+contract", "depthwise_conv2d")
    assert fused != apart
    test = "mlir/linalg-loops/riscv64+contract/matmul"
    assert "fp-contract = fast (set at matrix/targets/riscv64/target.yaml:" in workspace("explain", test).stdout
    stated = workspace("golden", "explain", test).stdout
    assert "contraction = fast, by target riscv64+contract (matrix/targets/riscv64/target.yaml:" in stated


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    folder = tmp_path / "catalog" / "matrix" / "targets" / "s390x"
    folder.mkdir(parents=True)
    (folder / "target.yaml").write_text(COMPILE_ONLY)
    (folder / "run.py").write_text(HEADER)
    (folder / "header.check").write_text("// CHECK: machine 22\n")
    return tmp_path / "catalog"


def test_what_nothing_here_can_run_is_compiled_and_checked(workspace: Workspace, catalog: Path) -> None:
    test = "mlir/linalg-loops/s390x/matmul"
    report = workspace.run(test, "--catalog", catalog)
    assert report.outcomes == {test: "pass"}
    assert report.tests[test]["compile_only"] is True
    text = workspace("run", test, "--catalog", catalog).stdout
    assert "compiled and checked, not run" in text
    assert "1 test: 1 pass (1 compiled only)" in text
    (catalog / "matrix/targets/s390x/header.check").write_text("// CHECK: machine 183\n")
    report = workspace.run(test, "--catalog", catalog, code=1)
    assert report.outcomes == {test: "mismatch"}
    for verb in (("golden", "explain"), ("golden", "audit")):
        refused = workspace(*verb, test, "--catalog", catalog)
        assert refused.code == 2, refused.stderr
    (catalog / "matrix/targets/s390x/run.py").unlink()
    report = workspace.run(test, "--catalog", catalog, code=1)
    assert "is not UTF-8 text" in report.tests[test]["reason"]
