"""The peaks of this machine, measured by kernels that are compiled for it, and kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mlir_matrix.fleet.peaks import kept_peaks, measure_peaks
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session


def test_peaks_are_measured_and_kept(tmp_path: Path) -> None:
    session = open_session()
    session = replace(session, home=replace(session.home, state=tmp_path))
    assert kept_peaks(session.home) is None
    measured = measure_peaks(session, Limits(jobs=1))
    assert kept_peaks(session.home) == measured
    # Numbers differ from machine to machine; a double is twice as wide as a float.
    assert measured.gflops["f32"] > measured.gflops["f64"] > 0
    assert measured.gbs.keys() == {*measured.caches, "memory"}
    again = measure_peaks(session, Limits(jobs=1))
    assert all(again.gbs[level] >= most for level, most in measured.gbs.items())
