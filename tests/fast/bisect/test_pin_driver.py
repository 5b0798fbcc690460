"""Searches among sets of pins: simulated, with answers that are known."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.driver import Strategy
from mlir_matrix.bisect.pin_driver import MOST_PINS, MovedPins, PinDriver
from support.simulated import Simulated

PINS = MovedPins({"llvm": ("18", "19"), "jax": ("0.9", "0.10"), "iree": ("3.9", "3.10")})


def drive(wrong: Callable[[frozenset[str]], str], repeats: int = 0) -> PinDriver:
    """Search; ``wrong`` is the outcome of a set of moved components."""
    prober = Simulated(["t"], lambda _test, point, _number: wrong(PINS.components(point)))
    strategy = Strategy(scan=False, jobs=2, repeats=repeats)
    driver = PinDriver(axis=PINS.axis(), prober=prober, strategy=strategy, pins=PINS)
    driver.run()
    return driver


def test_points_are_sets() -> None:
    axis = PINS.axis()
    assert (len(axis), axis.good, axis.bad) == (8, 0, 7)
    assert axis.names[5] == "llvm 18 → 19, iree 3.9 → 3.10"
    assert all(PINS.point(PINS.components(point)) == point for point in range(8))
    assert PINS.pins(2) == {"llvm": "18", "jax": "0.10", "iree": "3.9"}
    with pytest.raises(UsageError, match=f"13 pins differ between --good and --bad; at most {MOST_PINS} may"):
        MovedPins({f"c{number}": ("1", "2") for number in range(13)})


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ([{"jax"}], [{"jax"}]),
        ([{"jax"}, {"iree"}], [{"jax"}, {"iree"}]),
        ([{"llvm", "iree"}], [{"llvm", "iree"}]),
        ([{"llvm", "jax", "iree"}], [{"llvm", "jax", "iree"}]),
    ],
)
def test_the_smallest_sets(bad: list[set[str]], expected: list[set[str]]) -> None:
    driver = drive(lambda moved: "lower-failed" if any(each <= moved for each in bad) else "pass")
    changes = driver.changes("t")
    found = [set(PINS.components(each.change.after)) for each in changes]
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))
    assert {each.change.before for each in changes} == {0}
    assert not driver.problems


def test_what_cannot_be_installed_is_said() -> None:
    """jax alone needs the newer llvm; another failure is no verdict either."""
    driver = drive(
        lambda moved: (
            "infra-error"
            if "jax" in moved and "llvm" not in moved
            else "lower-failed"
            if {"jax", "llvm"} <= moved
            else "pass"
        )
    )
    assert [PINS.components(each.change.after) for each in driver.changes("t")] == [{"llvm", "jax"}]
    assert driver.problems == {"t": "jax 0.9 → 0.10; jax 0.9 → 0.10 with iree 3.9 → 3.10 had no known result"}


@pytest.mark.parametrize(("outcome", "reason"), [("pass", "behaves alike"), ("infra-error", "no known result")])
def test_ends_that_show_no_change(outcome: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"{reason}.* --bad"):
        drive(lambda moved: outcome if len(moved) == 3 else "pass")


def test_a_flaky_test() -> None:
    """It fails in half of its runs; a set passes only if it passes again and again."""
    right = 0
    for seed in range(20):
        draw = random.Random(seed)
        driver = drive(
            lambda moved, draw=draw: "run-failed" if "jax" in moved and draw.random() < 0.5 else "pass", repeats=9
        )
        right += [PINS.components(each.change.after) for each in driver.changes("t")] == [{"jax"}]
    assert right >= 19
