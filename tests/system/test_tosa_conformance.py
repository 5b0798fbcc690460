"""TOSA's conformance tests: made by name, with the bounds of the specification, and what cannot be made."""

from __future__ import annotations

from support.workspace import Workspace

#: Members with their outcome on tosa-loops, and what the reason has in it: an integer, and each rule for floating-point numbers.
MEMBERS = {
    "abs_12x12_i32": ("pass", "all 144 elements are right"),
    "matmul_16x12x17_f32xf32_outf32_s5": ("pass", "elements are right"),
    "sin_18x19_f32": ("pass", "elements are right"),
    "pow_14x15_f32_s1": ("pass", "elements are right"),
    "row_gather_1x18x15_i32_idxi32": ("lower-failed", "no pattern converts 'tosa.row_gather'"),
}


def test_outcomes_and_reasons(workspace: Workspace) -> None:
    corpus = "tosa/tosa-loops/x86_64/tosa-conformance"
    report = workspace.run(f"{corpus}:{{{','.join(MEMBERS)}}}", code=1)
    report.check({f"{corpus}:{name}": wanted for name, wanted in MEMBERS.items()})
