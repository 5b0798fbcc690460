"""What a calibration proposes for a layer, from the runs to the row of its table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.golden.calibration import calibrated_layer
from mlir_matrix.golden.gumbel import ErrorObservation, calibrate

TEST = "mlir/linalg-loops/x86_64/matmul"
SPREAD = [0.2 + 0.01 * (draw * 7 % 20) for draw in range(20)]


@pytest.mark.parametrize(("places", "why"), [(None, ""), (2.0, "its max_ulp decides, too")])
def test_shares_of_bounds_that_last_places_widen_say_nothing_about_these(
    current: Session, places: float | None, why: str
) -> None:
    (test,) = choose(current.catalog, (TEST,)).tests()
    bound = replace(ToleranceResolver(current.catalog).of(test, "y"), max_ulp=places)
    runs = [
        ErrorObservation(test=TEST, output="y", layer="l", draw=draw, used=value) for draw, value in enumerate(SPREAD)
    ]
    (calibration,) = calibrate(runs, wanted=1e-6)
    row = calibrated_layer(calibration, bound, calibration.why_not)
    assert (row["why_not"] or "").startswith(why)
    assert bool(row["proposed"]) == (not why)
