"""Change points of lines, and whether to scan them."""

from __future__ import annotations

import pytest

from mlir_matrix.bisect.change_points import ChangePoint, change_points, rounds, scans


def test_all_change_points() -> None:
    behaviours = dict(enumerate(["right", "crash", "right", "right", ("wrong", 3), "right"]))
    assert change_points(behaviours) == [
        ChangePoint(0, 1, "right", "crash"),
        ChangePoint(1, 2, "crash", "right"),
        ChangePoint(3, 4, "right", ("wrong", 3)),
        ChangePoint(4, 5, ("wrong", 3), "right"),
    ]
    assert change_points({}) == change_points({3: "right"}) == []


def test_what_is_unknown_between() -> None:
    (found,) = change_points({7: "b", 2: "a", 5: "a", 9: "b"})
    assert (found.before, found.after, list(found.unknown)) == (5, 7, [6])


@pytest.mark.parametrize(("points", "jobs", "most"), [(1, 1, 1), (2, 1, 2), (1024, 1, 11), (1025, 1, 12), (81, 2, 5)])
def test_rounds(points: int, jobs: int, most: int) -> None:
    assert rounds(points, jobs) == most


def test_short_axes_and_cheap_probes_are_scanned() -> None:
    assert scans(9, 2, 5.0)
    assert scans(9, 8, 3600.0)
    assert scans(2, 1, 3600.0)
    assert not scans(9, 2, 3600.0)
    assert not scans(1000, 4, 1.0)
