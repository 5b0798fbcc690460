"""Shares of what a machine can do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.catalog.models.machines import Peaks
from mlir_matrix.cost.work import Work, share_of_peak

PEAKS = Peaks(
    gflops={"f32": 100.0, "f64": 50.0},
    gbs={"L1": 400.0, "L2": 200.0, "memory": 20.0},
    caches={"L1": 32_000, "L2": 1_000_000},
)


@pytest.mark.parametrize(
    ("flops", "size", "dtype", "ns", "share"),
    [
        # 1,000 operations take 10 ns, 400 bytes from L1 one.
        (1_000, 400, "f32", 20.0, (0.5, "compute", "L1")),
        (1_000, 400, "f64", 20.0, (1.0, "compute", "L1")),
        (1_000, 40_000, "f32", 400.0, (0.5, "memory", "L2")),
        (0, 2_000_000, "i8", 200_000.0, (0.5, "memory", "memory")),
    ],
)
def test_the_larger_of_both_times_is_the_bound(
    flops: int, size: int, dtype: str, ns: float, share: tuple[float, str, str]
) -> None:
    found = share_of_peak(Work(flops=flops, bytes=size, dtype=dtype), ns, PEAKS)
    assert found is not None
    assert (found["fraction"], found["bound"], found["level"]) == (pytest.approx(share[0]), *share[1:])


def test_what_is_not_known_has_no_share() -> None:
    assert share_of_peak(Work(flops=None, bytes=4, dtype="f32", absent="a"), 1.0, PEAKS) is None
    assert share_of_peak(Work(flops=8, bytes=4, dtype="bf16"), 1.0, PEAKS) is None
    assert share_of_peak(Work(flops=8, bytes=4, dtype="f32"), 0.0, PEAKS) is None


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.floats(1, 1e9))
def test_twice_the_time_is_half_the_share(flops: int, size: int, ns: float) -> None:
    work = Work(flops=flops, bytes=size, dtype="f32")
    once, twice = share_of_peak(work, ns, PEAKS), share_of_peak(work, 2 * ns, PEAKS)
    assert once is not None
    assert twice is not None
    assert twice["fraction"] == pytest.approx(once["fraction"] / 2)
