"""What suites say of properties, as far as names go: each wrong thing with its sentence and place."""

from __future__ import annotations

from typing import Any

import pytest

SMOKE = "matrix/suites/smoke.yaml"
SCALING = "{name: twice, tests: ['pytorch/**'], scaling: {inputs: {x: 2}, outputs: {y: 2}}, reason: r}"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("{x: 2}", "{x: 1}", "every factor is 1: nothing is scaled"),
        ("{x: 2}", "{x: 0}", "a factor of 0; it is a finite number other than 0"),
        ("{x: 2}", "{x: two}", "'properties[0].scaling.inputs.x': expected a number, got the text 'two'"),
        ("pytorch/**", "pytroch/**", "'pytroch/**' matches no test: there is no framework 'pytroch'; did you mean 'pytorch'?"),
        ("pytorch/**", "pytorch/**~twice", "a property applies to tests without a property: leave out '~' and what follows"),
        ("scaling: {inputs: {x: 2}, outputs: {y: 2}}", "batch: {dim: B}, permutation: {dim: B}",
         "a property is one of scaling, permutation, batch, agrees, same-ir; this one has permutation and batch"),
        (", scaling: {inputs: {x: 2}, outputs: {y: 2}}", "",
         "a property is one of scaling, permutation, batch, agrees, same-ir; this one has none"),
        ("scaling: {inputs: {x: 2}, outputs: {y: 2}}", "agrees: {pipeline: plane}",
         "there is no pipeline 'plane'; did you mean 'plain'?"),
        ("scaling: {inputs: {x: 2}, outputs: {y: 2}}", "agrees: {within: exact}",
         "it names none of framework, pipeline, target: tests would be compared with themselves"),
        ("scaling: {inputs: {x: 2}, outputs: {y: 2}}", "same-ir: {pipeline: plain, at: linalgg}",
         "there is no kind 'linalgg'; did you mean 'linalg'?"),
        ("scaling: {inputs: {x: 2}, outputs: {y: 2}}", "same_ir: {pipeline: plain, at: linalg}",
         "unknown key 'same_ir'; did you mean 'same-ir'?"),
        (", reason: r", "", "the key 'reason' is missing; it takes text"),
    ],
)  # fmt: skip
def test_property_errors(tree: Any, old: str, new: str, error: str) -> None:
    assert old in SCALING
    text = (tree.path / SMOKE).read_text()
    tree.write(SMOKE, f"{text}properties: [{SCALING.replace(old, new)}]\n")
    errors = tree.errors()
    assert any(found.endswith(error) for found in errors), errors
    assert all(found.startswith(f"{SMOKE}:") for found in errors)


def test_patterns_may_name_properties_of_the_suite(tree: Any) -> None:
    text = (tree.path / SMOKE).read_text()
    tree.write(SMOKE, f"{text}properties: [{SCALING}]\n")
    tree.edit(SMOKE, "exclude:\n", "exclude:\n  - {tests: ['pytorch/**~tw*'], reason: because}\n")
    assert tree.load().suites["smoke"].document.properties[0].called == "twice"
    tree.edit(SMOKE, "pytorch/**~tw*", "pytorch/**~twce")
    (error,) = tree.errors()
    assert error.endswith("'pytorch/**~twce' matches no test: there is no property 'twce'; did you mean 'twice'?")
