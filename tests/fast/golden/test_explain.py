"""What ``matrix golden explain`` says: numerics attributes, layers, expressions step by step, and what they come to."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.catalog.catalog import LocatedLayer
from mlir_matrix.catalog.models.base import Tolerances, Workload
from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.expand.numerics import NumericsAttribute
from mlir_matrix.expand.tolerances import ToleranceRanking
from mlir_matrix.golden.explain import explained, tolerance_lines

GENERAL = """\
layers:
  - {atol: 0, rtol: 1e-6, rationale: general}
  - match: {numerics: {math: libm}}
    atol: 4 * sqrt(K) * eps(f32)
    rtol: eps(dtype)
    max_ulp: 2
    rationale: >-
      Folded over
      two lines.
"""
WORKLOAD = Workload.model_validate(
    {
        "description": "d",
        "dims": {"K": 130},
        "inputs": {"x": {"shape": ["K"], "dtype": "f32", "formula": "iota()"}},
        "outputs": {
            "y": {"shape": ["K", 2], "dtype": "f32"},
            "n": {"shape": [1], "dtype": "i32", "compare": "exact"},
        },
    }
)


def layers() -> tuple[LocatedLayer, ...]:
    found = []
    for workload, text in ((None, GENERAL), ("other", "layers: [{atol: 0, rtol: 0, rationale: r}]")):
        source = parse(text, f"golden/{workload}/tolerances.yaml" if workload else "golden/tolerances.yaml")
        for index, document in enumerate(Tolerances.model_validate(source.data).layers):
            found.append(LocatedLayer(document=document, source=source, index=index, workload=workload))
    return tuple(found)


def document(**more: Any) -> dict[str, Any]:
    bounds = {}
    for name, output in WORKLOAD.outputs.items():
        query = ("w", name, output.dtype, "t", (("math", "libm"),), "p", "f")
        bounds[name] = ToleranceRanking(layers()).resolve(query, WORKLOAD.dims, output.dtype)
    fact = {"name": "math", "by": "pipeline p", "position": "p.yaml:3:1"}
    facts = [NumericsAttribute(value="libm", counts=True, **fact), NumericsAttribute(value=True, counts=False, **fact)]
    return explained("f/p/t/w", WORKLOAD, facts, bounds, **{"magnitudes": {}, "last": None, **more})


def text_of(shown: Any) -> str:
    return "\n".join(tolerance_lines(shown)) + "\n"


def test_expressions_are_shown_step_by_step() -> None:
    text = text_of(document())
    assert "    atol = 4 * sqrt(K) * eps(f32) = 4 * sqrt(130) * 1.19e-07 = 5.44e-06\n" in text
    assert "    rtol = eps(dtype) = 1.19e-07\n" in text
    assert "    max_ulp = 2\n" in text
    assert "because Folded over two lines." in text


def test_numerics_attributes_say_who_states_them_and_which_count() -> None:
    lines = list(tolerance_lines(document()))
    assert "  math = libm, by pipeline p (p.yaml:3:1)" in lines
    assert "  math = true, by pipeline p (p.yaml:3:1), overridden by a more specific statement" in lines


def test_what_was_made_smaller_is_told() -> None:
    assert "Scaled" not in text_of(document())
    assert "\nScaled, because the program is too large for a test: N from 8 to 2\\x1b\n" in text_of(
        document(scaled="N from 8 to 2\x1b")
    )


def test_layers_of_other_workloads_are_counted_for_people_and_listed_for_programs() -> None:
    shown = document()
    assert [layer["applies"] for layer in shown["outputs"][0]["layers"]] == [True, False, True]
    lines = list(tolerance_lines(shown))
    assert "    –       1 in the folders of other workloads" in lines
    assert any(line.startswith("    wins    golden/tolerances.yaml:3:5: ") for line in lines)
    assert not any("golden/other" in line for line in lines)


def test_bounds_are_told_where_the_golden_is() -> None:
    (zero, median, largest) = document(magnitudes={"y": {"largest": 6.0, "median": 0.5, "elements": 260}})["outputs"][
        0
    ]["meaning"]
    atol, eps = 4 * 130**0.5 * 2**-23, 2**-23
    assert (zero["at"], zero["bound"], zero["ulp"]) == ("zero", atol, None)
    assert (median["at"], median["bound"]) == ("median", atol + 0.5 * eps)
    assert median["ulp"] == pytest.approx((atol + 0.5 * eps) / (eps / 2))
    assert (largest["at"], largest["ulp"]) == ("largest", pytest.approx((atol + 6 * eps) / (4 * eps)))


def test_what_is_exact_has_no_bounds_that_count() -> None:
    exact = document(magnitudes={"n": {"median": 3.0, "largest": 4.0}})["outputs"][1]
    assert exact["meaning"] == []
    assert "must be equal; no layer applies" in text_of(document())


def test_the_last_verdict_is_told_where_there_is_one() -> None:
    assert "Last verdict: none in the cache" in text_of(document())
    last = {"outputs": [{"name": "y", "outcome": "pass", "reason": "r", "error_used": 0.25, "max_abs": 1.0}]}
    assert "Last verdict: pass; the worst error takes 25 % of its bound" in text_of(document(last=last))
    last = {"outputs": [{"name": "y", "outcome": "mismatch", "reason": "y: the output is missing"}]}
    assert "Last verdict: mismatch, y: the output is missing" in text_of(document(last=last))
