"""Compiled code and NumPy count alike, to the last bit; and as the census does."""

from __future__ import annotations

import ctypes
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import CensusCounter
from mlir_matrix.actions.numerics.criteria import Counts, Criteria
from mlir_matrix.compare import native
from mlir_matrix.compare.fast_path import gate

BOUND = st.sampled_from([0.0, 1e-30, 1e-6, 0.25, 1e30])
ULPS = st.sampled_from([None, 0.0, 1.0, 3.5, 1e6])
#: Around the size of a block of gate.c, and past it.
SIZES = st.sampled_from([1, 7, 1023, 1024, 1025, 5000])
FLOATS = ["f16", "bf16", "f32", "f64"]


def arrays(rng: np.random.Generator, dtype: str, size: int, odd: float) -> tuple[Any, Any]:
    """Two arrays as stored: some elements equal, some near, some anything, a share ``odd`` of any bits at all."""
    values = rng.normal(size=size) * 10.0 ** rng.integers(-3, 4, size=size)
    expected = dtypes.rounded(values, dtype)
    near = dtypes.rounded(values * (1 + rng.normal(size=size) * rng.choice([0, 1e-7, 1e-3, 3], size=size)), dtype)
    for array in (near, expected):
        words = array.view(f"u{array.itemsize}")
        replaced = rng.random(size) < odd
        words[replaced] = rng.integers(0, 2 ** (8 * array.itemsize), size=size, dtype=np.uint64)[replaced].astype(
            words.dtype
        )
        special = dtypes.rounded(rng.choice([0.0, -0.0, math.inf, -math.inf, math.nan], size=size), dtype)
        array[:] = np.where(rng.random(size) < odd / 2, special, array)
    return near, expected


def by_numpy(actual: Any, expected: Any, dtype: str, criteria: Criteria) -> Counts:
    """Compiled code takes no goldens."""
    counts, engine = gate(actual, dtypes.decode(expected, dtype), dtype, criteria, golden=True)
    assert engine == "numpy"
    return counts


@given(seed=st.integers(0, 2**32), dtype=st.sampled_from(FLOATS), size=SIZES, odd=st.sampled_from([0.0, 0.001, 0.3]), atol=BOUND,
       rtol=BOUND, ulp=ULPS)  # fmt: skip
def test_compiled_code_and_numpy_count_alike(
    library: ctypes.CDLL, seed: int, dtype: str, size: int, odd: float, atol: float, rtol: float, ulp: float | None
) -> None:
    actual, expected = arrays(np.random.default_rng(seed), dtype, size, odd)
    criteria = Criteria(atol=atol, rtol=rtol, max_ulp=ulp)
    assert native.takes(dtype, criteria)
    parts = native.count(actual, expected, dtype, criteria)
    assert parts is not None
    total = Counts()
    for part in parts:
        total.merge(part)
    assert total == by_numpy(actual, expected, dtype, criteria)


@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([*FLOATS, *dtypes.FLOAT8]),
    odd=st.sampled_from([0.0, 0.3]),
    ulp=ULPS,
)
def test_the_gate_counts_what_the_census_does(seed: int, dtype: str, odd: float, ulp: float | None) -> None:
    actual, expected = arrays(np.random.default_rng(seed), dtype, 300, odd)
    criteria = Criteria(atol=1e-3, rtol=1e-3, max_ulp=ulp)
    census = CensusCounter(actual.shape, dtype, criteria=criteria)
    census.add(actual, dtypes.decode(expected, dtype))
    result = census.result()
    counts = by_numpy(actual, expected, dtype, criteria)
    for name in vars(counts):
        found = result[name]
        assert float(found) == getattr(counts, name), name


def test_threads_take_parts_and_the_sum_is_the_same(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    actual, expected = arrays(np.random.default_rng(9), "f32", 100_001, 0.01)
    criteria = Criteria(atol=1e-3, max_ulp=2)
    whole, engine = gate(actual, expected, "f32", criteria)
    assert engine == "native"
    monkeypatch.setattr(native, "_PART", 1000)
    assert gate(actual, expected, "f32", criteria) == (whole, "native")
    assert by_numpy(actual, expected, "f32", criteria) == whole


def test_however_arrays_lie_in_memory() -> None:
    rng = np.random.default_rng(2)
    expected = rng.normal(size=(70, 900)).astype(np.float32)
    actual = expected + np.float32(1e-3)
    actual[33, 800] = 7
    right, _ = gate(actual, expected, "f32", Criteria(atol=2e-3))
    assert right.wrong == 1
    for left in (np.asfortranarray(actual), actual[::-1][::-1]):
        assert gate(left, expected, "f32", Criteria(atol=2e-3))[0] == right
    assert gate(actual.T, expected.T, "f32", Criteria(atol=2e-3))[0] == right


def test_memory_stays_small() -> None:
    import tracemalloc

    expected = np.ones(1 << 22, dtype=np.float32)
    tracemalloc.start()
    gate(expected, expected[::-1], "f32", Criteria(subnormals="flush"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 16 << 20


@given(seed=st.integers(0, 2**32), power=st.integers(-323, -260), rtol=BOUND)
def test_subnormal_doubles_are_counted_alike(library: ctypes.CDLL, seed: int, power: int, rtol: float) -> None:
    rng = np.random.default_rng(seed)
    expected = rng.normal(size=1500) * 10.0**power
    actual = expected * (1 + rng.normal(size=1500) * rng.choice([0, 1e-9, 0.3], size=1500))
    expected[rng.random(1500) < 0.3] *= 1e200
    criteria = Criteria(rtol=rtol)
    (part,) = native.count(actual, expected, "f64", criteria) or ()
    assert part == by_numpy(actual, expected, "f64", criteria)


@pytest.mark.parametrize(
    "criteria",
    [
        Criteria(bounds=np.ones(3)),
        Criteria(nan="refuse"),
        Criteria(atol=1e-310),
        Criteria(atol=math.inf),
        Criteria(max_ulp=2.0**60),
    ],
)
def test_what_compiled_code_does_not_do_is_left_to_numpy(criteria: Criteria) -> None:
    assert not native.takes("f32", criteria)
    assert not native.takes("i32", Criteria())


def test_without_zig_numpy_does_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path))
    monkeypatch.setattr(native, "find_spec", lambda _: None)
    native.load.cache_clear()
    try:
        ones = np.ones(native.WORTHWHILE, dtype=np.float32)
        assert gate(ones, ones, "f32", Criteria()) == (Counts(), "numpy")
    finally:
        native.load.cache_clear()


def test_what_a_killed_process_left_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "zig", lambda: "/bin/false")
    (tmp_path / ".new-x.so-1").mkdir()
    with pytest.raises(subprocess.CalledProcessError):
        native._make([], tmp_path / "x.so")
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_what_another_process_has_made_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It was made while this process waited for the lock."""
    monkeypatch.setattr(native, "zig", lambda: tmp_path / "no-zig")
    (tmp_path / "made.so").write_bytes(b"theirs")
    native._make([], tmp_path / "made.so")
    assert (tmp_path / "made.so").read_bytes() == b"theirs"


def test_the_newest_zig_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By releases, in which 0.17 comes after 0.9."""
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path))
    for release in ("0.9.0-cp311-ff", "0.17.0-cp311-00", "0.16.1-cp311-11"):
        (tmp_path / f"packages/ziglang-{release}/ziglang").mkdir(parents=True)
        (tmp_path / f"packages/ziglang-{release}/ziglang/zig").touch()
    assert native.zig() == tmp_path / "packages/ziglang-0.17.0-cp311-00/ziglang/zig"
