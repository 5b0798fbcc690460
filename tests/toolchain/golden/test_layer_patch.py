"""Other bounds as a patch: the form stays, the file stays what it was but for them, and the tools that apply patches take it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.text import patch
from mlir_matrix.catalog.bounds import evaluate
from mlir_matrix.catalog.models.base import Tolerances
from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.golden.layer_patch import CALIBRATED, LayerProposal, edited, rounded_up, scaled
from support.machine import program

DIMS = {"K": 130, "N": 7}
BLOCK = """\
# A comment.
layers:
  - match: {dtype: f32}  # another
    atol: 4 * sqrt(K) * eps(f32)
    rtol: "eps(f32)"
    rationale: >-
      Because of this.
      And of that.

  - {match: {dtype: f16}, atol: 0, rtol: 1e-3, rationale: flow style}
"""
SENTENCE = (
    f"{CALIBRATED}20 draws of 3 tests on x86_64 (known-good pins): "
    f"the largest error took 0.3 of rtol 1e-3, {'and so on, ' * 20}."
)


@pytest.mark.parametrize(
    ("bound", "factor", "expected"),
    [
        ("4 * sqrt(K) * eps(f32)", 0.2214, "0.89 * sqrt(K) * eps(f32)"),
        ("eps(f32)", 0.2214, "0.23 * eps(f32)"),
        ("eps(f32) / 2", 3, "3 * eps(f32) / 2"),
        ("(4 + sqrt(N) / 2) * eps(f32)", 0.5, "0.5 * (4 + sqrt(N) / 2) * eps(f32)"),
        ("sqrt(K) + 3", 0.5, "0.5 * (sqrt(K) + 3)"),
        ("2 * (N / K) * eps(f32)", 0.1, "0.2 * (N / K) * eps(f32)"),
        ("1e-6", 0.2214, "2.3e-07"),
        (1e-06, 10, "1e-05"),
        (8, 15.2, "130"),
    ],
)
def test_bounds_keep_their_form(bound: float | str, factor: float, expected: str) -> None:
    text, times = scaled(bound, factor)
    assert text == expected
    assert evaluate(text, DIMS, "f32") == pytest.approx(times * evaluate(bound, DIMS, "f32"))


BOUNDS = [
    "4 * sqrt(K)",
    "sqrt(K) / 3",
    "K",
    "K - N",
    "(2 * K) ** 2",
    "2 ** 3 * K",
    "-(N - K)",
    "max(K, 2 * N)",
    "(3 * K) / N",
]


@given(st.sampled_from(BOUNDS), st.floats(1e-6, 1e6))
def test_they_are_never_narrower_than_asked_and_hardly_wider(bound: str, factor: float) -> None:
    text, times = scaled(bound, factor)
    value = evaluate(text, DIMS, "f32")
    assert value == pytest.approx(times * evaluate(bound, DIMS, "f32"))
    assert factor * (1 - 1e-8) <= times <= factor * 1.11


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (0.9, "0.9"),
        (0.901, "0.91"),
        (12, "12"),
        (12.01, "13"),
        (0.3, "0.3"),
        (99.5, "100"),
        (4.01e-7, "4.1e-07"),
    ],
)
def test_numbers_are_rounded_up_to_two_digits(value: float, expected: str) -> None:
    assert rounded_up(value) == expected


def proposals() -> list[LayerProposal]:
    return [
        LayerProposal(
            index=0, bounds={"atol": "0.9 * sqrt(K) * eps(f32)", "rtol": "0.3 * eps(f32)"}, sentence=SENTENCE
        ),
        LayerProposal(index=1, bounds={"rtol": "2e-4"}, sentence=SENTENCE),
    ]


def test_the_file_says_the_new_bounds_and_the_sentence() -> None:
    after = Tolerances.model_validate(parse(edited(BLOCK, proposals()), "f").data).layers
    assert [(layer.atol, layer.rtol) for layer in after] == [("0.9 * sqrt(K) * eps(f32)", "0.3 * eps(f32)"), (0, 2e-4)]
    assert " ".join(after[0].rationale.split()) == f"Because of this. And of that. {SENTENCE}"
    assert after[1].rationale == f"flow style {SENTENCE}"


def test_the_rest_of_the_file_stays() -> None:
    before, after = BLOCK.splitlines(), edited(BLOCK, proposals()).splitlines()
    assert [line for line in before if line not in after] == [before[3], before[4], before[9]]
    assert max(len(line) for line in after[:9]) <= 120


def test_a_second_calibration_replaces_the_sentence_of_the_first() -> None:
    once = edited(BLOCK, proposals())
    again = [LayerProposal(index=index, bounds={}, sentence=f"{CALIBRATED}again.") for index in range(2)]
    for layer in Tolerances.model_validate(parse(edited(once, again), "f").data).layers:
        assert layer.rationale.count(CALIBRATED) == 1
        assert layer.rationale.endswith(f"{CALIBRATED}again.")
    assert edited(edited(once, again), again) == edited(once, again)


@pytest.mark.parametrize("command", [["git", "apply"], ["patch", "-p1", "-s", "-i"]])
@pytest.mark.parametrize("end", ["\n", ""])
def test_tools_take_the_patch(tmp_path: Path, command: list[str], end: str) -> None:
    before = BLOCK.rstrip("\n") + end
    after = edited(before, proposals())
    file = tmp_path / "golden" / "tolerances.yaml"
    file.parent.mkdir()
    file.write_text(before)
    (tmp_path / "change.patch").write_text("In the catalog here:\n" + patch("golden/tolerances.yaml", before, after))
    subprocess.run([program(command[0]), *command[1:], "change.patch"], cwd=tmp_path, check=True, capture_output=True)
    assert file.read_text() == after


def test_no_change_is_no_patch() -> None:
    assert patch("golden/tolerances.yaml", BLOCK, BLOCK) == ""
