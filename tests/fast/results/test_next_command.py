"""The command that a failure ends with."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.results.next_command import with_next
from mlir_matrix.results.results import TestResult

VERDICT = {"outcome": "mismatch", "reason": "", "outputs": [], "metrics": {}}
WEAK = {**VERDICT, "outputs": [{"name": "y", "outcome": "mismatch", "reason": "weak: zeros", "weak": ["all zeros"]}]}
PARTLY = {**VERDICT, "outputs": [{"name": "y", "outcome": "pass", "reason": "", "weak": ["all zeros"]}]}


def result(outcome: str, stage: str = "judge", framework: str = "jax", pipeline: str = "p", **more: Any) -> TestResult:
    names = {"framework": framework, "pipeline": pipeline, "target": "t", "workload": "w"}
    fields = {"id": f"{framework}/{pipeline}/t/w", "expected": outcome == "pass", "reason": "", **names, **more}
    return TestResult(outcome=Outcome(outcome), stage=stage, **fields)


@pytest.mark.parametrize(
    ("failed", "command"),
    [
        (result("mismatch", verdict=VERDICT), "bisect --over steps jax/p/t/w"),
        (result("mismatch", verdict=WEAK), "golden explain jax/p/t/w"),
        (result("mismatch", verdict=PARTLY), "bisect --over steps jax/p/t/w"),
        (result("mismatch", step={"name": "no-loops", "action": ""}), "reduce jax/p/t/w"),
        (result("mismatch", id="mlir/p/ir/w", target="ir", framework="mlir"), "ir --all mlir/p/ir/w"),
        (result("lower-failed", "lower", step={"name": "s", "action": ""}), "reduce jax/p/t/w"),
        (
            result("lower-failed", "lower", step={"name": "s", "action": ""}, reason="s: the pass pipeline does not parse: x"),
            "explain jax/p/t/w",
        ),
        (result("timed-out", "run", step={"name": "run/w", "action": ""}), "ir --all jax/p/t/w"),
        (result("codegen-failed", "codegen", step={"name": "link", "action": ""}), "ir --all jax/p/t/w"),
        (result("crashed", "lower", step={"name": "s", "action": ""}), "bisect jax/p/t/w"),
        (result("import-failed", "import", step={"name": "import/w", "action": ""}), ""),
        (result("mismatch", verdict=VERDICT, expected=True), ""),
    ],
)  # fmt: skip
def test_each_failure_has_the_command_that_helps_most(failed: TestResult, command: str) -> None:
    (found,) = with_next([failed], lambda words, test: " ".join([*words, test]))
    assert found.next == command
