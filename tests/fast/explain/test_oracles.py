"""What the agreement of oracles means."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mlir_matrix.explain.oracles import _document, conclude


@pytest.mark.parametrize(
    ("oracles", "with_test", "with_reference", "right", "conclusion", "words"),
    [
        (2, 2, 2, True, "nothing is suspected", "both oracles agree with the reference"),
        (3, 2, 2, True, "nothing is suspected", "2 of 3 oracles agree with the reference"),
        (1, 0, 1, False, "test is wrong", "the only oracle agrees with the reference, none with the test"),
        (3, 0, 2, False, "test is wrong", "2 of 3 oracles agree with the reference, none with the test"),
        (3, 3, 0, False, "reference is suspected", "all 3 oracles agree with the test, none with the reference"),
        (2, 1, 0, False, "undecided", "of 2 oracles, 0 agree with the reference and 1 with the test"),
        (2, 0, 0, True, "undecided", "the test and the reference agree with each other, but with none of 2 oracles"),
        (
            2,
            0,
            0,
            False,
            "undecided",
            "both oracles agree with each other, but with neither the test nor the reference",
        ),
        (1, 0, 0, False, "undecided", "the only oracle agrees with neither the test nor the reference"),
        # A tolerance can hold from one to the next and not from the first to the last.
        (2, 1, 2, False, "undecided", "2 agree with the reference and 1 with the test"),
        (0, 0, 0, True, "undecided", "no oracle gives outputs"),
    ],
)
def test_conclusions(
    oracles: int, with_test: int, with_reference: int, right: bool, conclusion: str, words: str
) -> None:
    found, sentence = conclude(
        oracles, with_test=with_test, with_reference=with_reference, test_is_right=right, alike=True
    )
    assert found == conclusion
    assert words in sentence


def test_without_outputs_of_the_test_or_a_golden() -> None:
    found = conclude(2, with_test=0, with_reference=2, test_is_right=False, alike=True, missing=["test"])
    assert found == ("undecided", "the test has no outputs to compare; both oracles agree with the reference")
    found = conclude(2, with_test=2, with_reference=0, test_is_right=False, alike=True, missing=["reference"])
    assert found == ("undecided", "the reference has no outputs to compare")


def test_oracles_that_differ() -> None:
    found = conclude(2, with_test=0, with_reference=0, test_is_right=False, alike=False)
    assert found == ("undecided", "undecided: test, reference and oracles all differ from each other")


def test_what_its_judge_refuses_is_suspected() -> None:
    """Outputs of a test that agree with the reference and the oracle do not make a mismatch right."""
    names = ["test", "reference", "A"]
    pairs: Any = [{"pairs": [{"one": one, "other": other, "differ": 0} for one in names for other in names]}]
    told = {}
    for outcome in ("pass", "mismatch"):
        witnesses: Any = [{"name": "test", "outcome": outcome}, {"name": "reference"}, {"name": "A"}]
        test: Any = SimpleNamespace(id="a/b/c/d")
        told[outcome] = _document(test, witnesses, names, pairs)["sentence"]
    assert told == {
        "pass": "nothing is suspected: the only oracle agrees with the reference",
        "mismatch": "undecided: of 1 oracle, 1 agree with the reference and 1 with the test",
    }
