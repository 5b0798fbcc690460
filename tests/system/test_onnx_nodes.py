"""ONNX's node tests as a corpus: what they come to, and why some cannot be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlir_matrix.catalog.corpora import names_in
from support.workspace import REPOSITORY, Workspace

CORPUS = REPOSITORY / "matrix" / "corpora" / "onnx-nodes"
SOURCE = "matrix/sources/onnx-node/prepare.py"
#: Members with their outcome on linalg-loops, and what the reason has in it.
MEMBERS = {
    "test_abs": ("pass", "all 60 elements are right"),
    "test_add_uint8": ("pass", "all 60 elements are right"),
    "test_div_uint64": ("pass", "all 60 elements are right"),
    # No inputs; a scalar; a size that only the program knows; bf16.
    "test_constant": ("pass", "all 25 elements are right"),
    "test_argmax_no_keepdims_random": ("pass", "all 8 elements are right"),
    "test_nonzero_example": ("pass", "all 6 elements are right"),
    "test_castlike_FLOAT_to_BFLOAT16": ("pass", "all 12 elements are right"),
    "test_bitshift_left_int32_shift_ge_width": ("mismatch", "expected 0, actual -16, and they must be equal"),
    "test_gridsample_nearest": ("mismatch", "expected 2.0, actual 3.0, off by 1, bound 0.002"),
    "test_einsum_scalar": ("crashed", "SIGABRT while at stage lower"),
    "test_det_2d": ("crashed", "SIGABRT while at stage run: unimplemented: determinants requiring permutations"),
    # Converted to a newer version, these would have other inputs, or no version.
    "test_scan_sum": ("lower-failed", "onnx-to-torch: no pattern converts 'onnx.Scan'"),
    "test_adam": ("lower-failed", "no pattern converts 'onnx.Adam' (alpha = "),
    "test_cumsum_1d": ("lower-failed", "no pattern converts 'torch.aten.cumsum' (dim is not constant)"),
    "test_dequantizelinear_int4": ("import-failed", "an input has ONNX's type INT4, which is no dtype here"),
    "test_bernoulli": ("import-failed", "Bernoulli gives random numbers, so the test's outputs are no reference"),
    "test_training_dropout": ("import-failed", "Dropout in training mode drops at random"),
    "test_identity_sequence": ("import-failed", "an input is of sequence type; kernels take and give tensors"),
    "test_slice_start_out_of_bounds": ("import-failed", "an output has no elements, so nothing can be compared"),
}
#: A bf16 output, a scalar input, and an operator that ONNX does not convert to newer versions: what a harness may get wrong.
ONNXRUNTIME = "onnx/onnxruntime/onnxruntime-cpu/onnx-nodes:test_"
RIGHT = ("castlike_FLOAT_to_BFLOAT16", "bitcast_scalar_float32_to_int32", "scan_sum")
#: On a target with a command: two inputs, none, a size that only the program knows.
BY_PROGRAMS = ("add_uint8", "constant", "nonzero_example")


def test_outcomes_and_reasons(workspace: Workspace) -> None:
    corpus = "onnx/linalg-loops/x86_64/onnx-nodes"
    names = ",".join(name.removeprefix("test_") for name in MEMBERS)
    report = workspace.run(f"{corpus}:test_{{{names}}}", f"{ONNXRUNTIME}{{{','.join(RIGHT)}}}", code=1)
    right = {f"{ONNXRUNTIME}{name}": ("pass", "") for name in RIGHT}
    report.check(right | {f"{corpus}:{name}": wanted for name, wanted in MEMBERS.items()})


def test_a_target_that_calls_programs_gets_the_inputs(workspace: Workspace) -> None:
    report = workspace.run(f"onnx/iree-vmvx/iree-local/onnx-nodes:test_{{{','.join(BY_PROGRAMS)}}}")
    assert list(report.outcomes.values()) == ["pass"] * len(BY_PROGRAMS)


def test_members_are_those_of_onnx(environments: Any, tmp_path: Path) -> None:
    tool = (REPOSITORY / SOURCE).read_text(encoding="utf-8")
    done = environments.perform(
        "onnx",
        "python_file",
        tmp_path / "action",
        params={"tool": SOURCE},
        inputs={"tool": f"{tool}\n\nrun = members\n"},
        outputs={"members": "members.txt"},
    )
    assert done.ok, done.outcome
    assert done.text("members").split() == names_in((CORPUS / "members.txt").read_text(encoding="utf-8"))
