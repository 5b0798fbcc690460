"""Splitting the pipeline of a step, and finding the same place in that of another release."""

from __future__ import annotations

import pytest

from mlir_matrix.bisect.steps.passes import places_of, split_passes


@pytest.mark.parametrize(
    ("pipeline", "passes"),
    [
        ("", []),
        ("canonicalize, cse", ["canonicalize", "cse"]),
        ("func.func(a,b{x=1,2 y}),cse", ["func.func(a)", "func.func(b{x=1,2 y})", "cse"]),
        ("gpu.module(gpu.func(a),b)", ["gpu.module(gpu.func(a))", "gpu.module(b)"]),
        ("one-shot-bufferize{a b=(c,d)},cse", ["one-shot-bufferize{a b=(c,d)}", "cse"]),
    ],
)
def test_each_pass_of_a_nested_pipeline_counts(pipeline: str, passes: list[str]) -> None:
    assert split_passes(pipeline) == passes


def test_a_place_is_that_after_the_same_passes() -> None:
    assert places_of(["a", "b{x}", "c"], ["a", "b{y}", "c"]) == [0, 1, 2, 3]
    assert places_of(["a", "c"], ["a", "b", "c"]) == [0, 1, 3]
    assert places_of(["new", "a", "b"], ["a", "b"]) == [0, 0, 1, 2]
