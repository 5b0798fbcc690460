"""What an audit comes to, from reports made by hand; and the same for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from rich.text import Text

from mlir_matrix.expand.expansion import Test
from mlir_matrix.golden.audit import AuditFindings, audit_document, fold, fold_failure
from mlir_matrix.golden.mutants import JudgedDraws, Mutant
from mlir_matrix.golden.report import audit_lines
from mlir_matrix.schema.export import adapter

LAYER = "golden/t.yaml:3:5"
MISS = {"output": "y", "index": [3], "error": 0.5, "bound": 0.25, "atol": "1", "rtol": "0"}


def mutant(kind: str, mutation: str = "", test: str = "mlir/linalg-loops/x86_64/mlp", draws: int = 1) -> Mutant:
    framework, pipeline, target, workload = test.split("/")
    found = Test(
        id=test, framework=framework, pipeline=pipeline, target=target, workload=workload, pins="", route=None, resolved_step=None,
        outcome=None, reason="", expectation=None, selected=True,
    )  # fmt: skip
    reports = (JudgedDraws(draws=tuple(range(draws)), ran="run-1", judged="audit-1"),)
    return Mutant(test=found, mutation=mutation, site=0, sites=1, kind=kind, planting="", reports=reports)


def entry(*, matters: bool = True, caught: bool = True, **more: Any) -> dict[str, Any]:
    return {"draw": 0, "matters": matters, "caught": caught, "layer": LAYER, "where": "", **more}


def found_of(*parts: tuple[Mutant, Mapping[str, Any]]) -> AuditFindings:
    found = AuditFindings(seeds=1)
    for planted, told in parts:
        fold(found, planted, [{"mutants": [told]}], frozenset({"golden/exact.yaml:1:1"}))
    return found


def test_what_does_not_matter_counts_apart() -> None:
    found = found_of(
        (mutant("mutant", "swap-operands"), entry()),
        (mutant("mutant", "stale-buffer"), entry(caught=False, **MISS)),
        (mutant("mutant", "stale-buffer"), entry(matters=False, caught=False)),
        (mutant("outputs"), entry(mutation="output-sign", where="element [1]")),
    )
    summary = audit_document(found)["summary"]
    assert {name: summary[name] for name in ("planted", "mattered", "not_mattering", "caught", "missed")} == {
        "planted": 4, "mattered": 3, "not_mattering": 1, "caught": 2, "missed": 1,
    }  # fmt: skip
    assert not found.sound
    adapter("audit").validate_python(audit_document(found))
    (missed,) = audit_document(found)["misses"]
    assert (missed["mutation"], missed["index"], missed["layer"]) == ("stale-buffer", [3], LAYER)
    (test,) = audit_document(found)["tests"]
    assert [mutation["mutation"] for mutation in test["mutations"]] == ["output-sign", "stale-buffer", "swap-operands"]
    assert test["mutations"][1]["layers"] == [{"layer": LAYER, "mattered": 1, "caught": 0}]


@pytest.mark.parametrize(("missed", "sound"), [(1, True), (2, False)])
def test_one_in_a_hundred_may_get_through(missed: int, sound: bool) -> None:
    found = found_of(*[(mutant("mutant", "swap-operands"), entry())] * (100 - missed))
    for _ in range(missed):
        fold(found, mutant("mutant", "swap-operands"), [{"mutants": [entry(caught=False, **MISS)]}], frozenset())
    assert found.sound is sound


def test_what_is_allowed_must_pass() -> None:
    fine = found_of((mutant("allowed", "allowed-fma"), entry(matters=False, caught=False, used=[[LAYER, 0.5]])))
    assert (fine.sound, fine.allowed, fine.slack()) == (True, 1, [])
    flagged = found_of((mutant("allowed"), entry(reason="y: 1 of 4 elements", used=[[LAYER, 2.0]])))
    assert not flagged.sound
    assert flagged.flagged[0]["mutation"] == "unmutated"
    (reason,) = flagged.failed.values()
    assert reason == "it does not pass without a mutation: y: 1 of 4 elements", "what is planted in it proves nothing"
    assert flagged.beyond, "it is further off than the bound, too"


def test_slack_is_more_than_eight_times_too_loose() -> None:
    def used(layer: str, share: float) -> tuple[Mutant, dict[str, Any]]:
        return mutant("allowed"), entry(matters=False, caught=False, used=[[layer, share]])

    found = found_of(used("a", 0.1), used("a", 0.126), used("b", 0.12), used("c", 0), used("golden/exact.yaml:1:1", 0))
    assert [(slack["layer"], slack["looser"]) for slack in found.slack()] == [("c", None), ("b", 8.3)]
    assert found.sound, "slack is told, and no failure"


def test_a_trivial_output_that_passes_is_a_failure() -> None:
    found = found_of((mutant("trivial"), {"draw": 0, "output": "all zeros"}))
    assert not found.sound
    assert audit_document(found)["weak"] == [
        {"test": "mlir/linalg-loops/x86_64/mlp", "output": "all zeros", "draws": [0]}
    ]


def test_what_does_not_even_run_is_caught() -> None:
    found = AuditFindings(seeds=3)
    fold_failure(found, mutant("mutant", "stale-buffer", draws=3), {"outcome": "crashed", "reason": "no"})
    fold_failure(found, mutant("mutant", "stale-buffer", draws=2), {"outcome": "codegen-failed", "reason": "no"})
    summary = found.summary()
    assert (summary["planted"], summary["caught"], summary["by_runner"], summary["rejected"]) == (3, 3, 3, 2)
    fold_failure(found, mutant("allowed", "allowed-fma"), {"outcome": "lower-failed", "reason": "no"})
    assert found.flagged[0]["reason"] == "lower-failed: no"
    fold_failure(found, mutant("allowed"), {"outcome": "lower-failed", "reason": "no"})
    assert found.failed == {"mlir/linalg-loops/x86_64/mlp": "lower-failed: no"}
    assert not found.sound


def test_tests_in_which_nothing_matters_are_named() -> None:
    found = found_of((mutant("mutant", "stale-buffer"), entry(matters=False)))
    assert not found.sound, "an audit in which nothing matters says nothing about tolerances"
    assert audit_document(found)["nothing_mattered"] == ["mlir/linalg-loops/x86_64/mlp"]
    assert "nothing planted here matters" in "\n".join(Text.from_markup(line).plain for line in audit_lines(found))


def test_people_are_told_the_same() -> None:
    found = found_of(
        (mutant("allowed"), entry(matters=False, caught=False, used=[[LAYER, 0.01]])),
        (mutant("mutant", "stale-buffer"), entry(caught=False, **MISS)),
        (mutant("mutant", "stale-buffer"), entry(caught=False, **MISS, draw=0)),
        (mutant("trivial"), {"draw": 0, "output": "all zeros"}),
    )
    text = "\n".join(Text.from_markup(line).plain for line in audit_lines(found))
    for words in (
        "mlp           1        2         2       0       2",
        "stale-buffer in mlir/linalg-loops/x86_64/mlp (2 times)",
        "y[3], draw 0, site 0 of 1: off by 0.5, sound up to 0.25",
        f"let through by {LAYER}: atol 1, rtol 0",
        "all zeros, in 1 draw",
        "100 times",
        "0 of 2 caught (0.00 %), 99 % are wanted",
    ):
        assert words in text, text
    assert max(map(len, text.splitlines())) <= 100
