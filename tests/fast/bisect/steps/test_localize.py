"""Where a reduction begins, by what is known of the wrong part."""

from __future__ import annotations

import pytest

from mlir_matrix.bisect.steps.evidence import Conclusion, Part
from mlir_matrix.bisect.steps.localize import Localized
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.session import select_tests
from support.recordings import result

#: The program, its importer, steps, the target.
IMPORTER, STEP, LATER_STEP, TARGET = 1, 3, 4, -1


@pytest.mark.parametrize(
    ("suspects", "steps"),
    [
        pytest.param([STEP], STEP - IMPORTER - 1, id="a step"),
        pytest.param([STEP, LATER_STEP], STEP - IMPORTER - 1, id="one of two steps"),
        pytest.param([STEP, TARGET], STEP - IMPORTER - 1, id="a step or the target"),
        pytest.param([IMPORTER, STEP], 0, id="the importer or a step"),
        pytest.param([TARGET], 0, id="the target"),
        pytest.param([], 0, id="nothing is known"),
    ],
)
def test_steps_before_suspects(current: Session, suspects: list[int], steps: int) -> None:
    (test,) = select_tests(current, ["jax/linalg-loops/x86_64/matmul"])
    assert test.route is not None
    number = 2 + len(test.route.steps) + 1
    assert number > LATER_STEP + 1
    parts = [Part(str(index), str(index), frozenset()) for index in range(number)]
    conclusion = Conclusion(suspects=tuple(index % number for index in suspects), cleared={})
    wrong = result(test.id, "mismatch")
    found = Localized(test=test, result=wrong, parts=parts, first=IMPORTER, cells=[], conclusion=conclusion)
    assert found.steps_before_suspects == steps
