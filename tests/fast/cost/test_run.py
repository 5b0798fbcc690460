"""What a comparison says of a test and its other side."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.cost.documents import ComparedTest
from mlir_matrix.cost.run import _compared
from mlir_matrix.cost.sampling import Timed
from mlir_matrix.cost.sides import CostSide, SideTest
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.costs import CostResolver
from mlir_matrix.expand.select import choose
from mlir_matrix.results.documents import Costs
from mlir_matrix.statistics.decision import Decision, Word

TEST = "mlir/linalg-loops/x86_64-v3/matmul"
TIMED = Timed(tool="bench", environment="native", params={}, files={}, outputs={})


def costs(**exact: float) -> Costs:
    return {"exact": exact, "absent": {"time": "no timer"}, "operations": {}, "compile": []}


def side(name: str, found: Costs | None) -> SideTest:
    return SideTest(id=TEST, outcome=Outcome.PASS, reason="", costs=found, program=name, timed=TIMED)


def decided(word: Word) -> Decision:
    return Decision(word=word, ratio=1.0, low=0.9, high=1.1, pairs=30)


@pytest.fixture(scope="module")
def judge(current: Session) -> Any:
    """Compares a test with another one, with the bounds of this repository."""
    tests = {test.id: test for test in choose(current.catalog, [TEST], pins=current.pins).tests()}
    bounds = CostResolver(current.catalog)
    of_side = cast("CostSide", SimpleNamespace(tests=tests, bounds=bounds))

    def compare(test: SideTest, other: SideTest | None, decision: Decision | str | None = None) -> ComparedTest:
        return _compared(of_side, test, other, decision)

    return compare


@pytest.mark.parametrize(
    ("now", "word", "said"),
    [
        (100, "same", "same"),
        (100, "cannot tell", "cannot tell"),
        (100, "slower", "worse"),
        (50, "cannot tell", "better"),
        (50, "slower", "mixed"),
        (200, "slower", "worse"),
    ],
)
def test_words_are_of_counts_and_of_times(judge: Any, now: int, word: Word, said: str) -> None:
    found = judge(side("a", costs(instructions=now)), side("b", costs(instructions=100)), decided(word))
    assert (found["word"], found["time"]["word"]) == (said, word)


def test_what_was_counted_is_not_compared_with_what_was_not(judge: Any) -> None:
    counted, read = costs(instructions=9, vector_share=0.9, code_bytes=8), costs(vector_share=0.1, code_bytes=8)
    assert judge(side("a", read), side("b", counted))["word"] == "same"
    assert judge(side("a", costs(vector_share=0.9)), side("b", costs(vector_share=0.1)))["word"] == "better"


def test_nothing_known_is_no_equality(judge: Any) -> None:
    found = judge(side("a", costs()), side("b", costs(instructions=1)))
    assert (found["word"], found["reason"]) == ("not compared", "no timer")
    found = judge(side("a", costs()), side("b", costs()), "it crashed")
    assert (found["word"], found["reason"]) == ("not compared", "it crashed")
    assert judge(side("a", costs()), side("b", costs()), decided("faster"))["word"] == "better"
    assert judge(side("a", costs(instructions=1)), None)["word"] == "not compared"


def test_native_code_is_not_compared_with_that_of_a_recorded_run(judge: Any) -> None:
    native = Costs(**costs(instructions=1), native=True)
    recorded = replace(side("", native), timed="recorded")
    assert "another one" in judge(side("a", costs(instructions=1)), recorded)["reason"]
    assert judge(side("a", native), side("b", native), decided("same"))["word"] == "same"
