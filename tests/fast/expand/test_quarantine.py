"""Quarantines hold what they name until a day, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_matrix.catalog.models.suites import Quarantine as Document
from mlir_matrix.expand.quarantine import ActiveQuarantine
from mlir_matrix.results.result_maker import mark
from mlir_matrix.results.results import TestResult, exit_code, summarise
from support.catalogs import catalog, entry

TEXT = """\
quarantine:
  - {tests: ["jax/*/*/mlp"], owner: a, until: 2026-03-01, reason: r}
  - {tests: ["jax/**", "**@llvm=18"], owner: b, until: 2026-03-02, reason: s, link: l}
"""


def result(test: str, outcome: str = "mismatch", expected: bool = False) -> TestResult:
    framework, pipeline, target, workload = test.partition("@")[0].split("/")
    return TestResult(
        id=test, framework=framework, pipeline=pipeline, target=target, workload=workload, outcome=outcome,
        stage="judge", expected=expected, reason="wrong",
    )  # type: ignore[arg-type]  # a word is equal to its member  # fmt: skip


@pytest.mark.parametrize(
    ("test", "day", "owner"),
    [
        ("jax/p/t/mlp", "2026-03-01", "a"),
        ("jax/p/t/mlp#3", "2026-03-01", "a"),
        ("jax/p/t/mlp", "2026-03-02", "b"),
        ("jax/p/t/tanh", "2026-03-02", "b"),
        ("jax/p/t/tanh", "2026-03-03", ""),
        ("jax/p/t/mlp", "2026-03-03", ""),
        ("onnx/p/t/mlp@llvm=18", "2026-01-01", "b"),
        ("onnx/p/t/mlp", "2026-01-01", ""),
    ],
)
def test_quarantine_excuses_until_its_day(test: str, day: str, owner: str) -> None:
    made = replace(catalog(), quarantines=(entry("matrix", Document, "quarantine", TEXT),))
    quarantine = ActiveQuarantine(made, day)
    marked = mark(quarantine, result(test))
    assert (marked.quarantine or {}).get("owner", "") == owner
    assert exit_code([marked]) == (0 if owner else 1)
    assert summarise([marked])["in_quarantine"] == bool(owner)
    assert ("its quarantine ended" in marked.reason) is (day == "2026-03-03")
    # An expected outcome is as before.
    assert mark(quarantine, result(test, "pass", expected=True)) == result(test, "pass", expected=True)
