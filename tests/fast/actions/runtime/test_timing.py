"""Batches are long enough for the clock, a sample of slow calls is short, and only who is asked for times takes them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions import contract
from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.runtime import timing


def linear(call_ns: float, overhead_ns: float = 0) -> Callable[[int], float]:
    return lambda calls: overhead_ns + calls * call_ns


@given(st.floats(0.5, 1e9), st.floats(0, 1e5), st.sampled_from([1.0, 40.0, 1e4]))
def test_a_batch_is_as_long_as_wanted(call_ns: float, overhead_ns: float, clock_ns: float) -> None:
    calls = timing.calls_per_batch(linear(call_ns, overhead_ns), 1e6, clock_ns)
    wanted = max(1e6, 1000 * clock_ns)
    assert calls >= 1
    assert overhead_ns + calls * call_ns >= 0.9 * wanted
    # One call more than needed, at most: what runs long is called once.
    assert calls == 1 or calls * call_ns <= 1.1 * wanted + call_ns


def test_calls_below_the_resolution_of_the_clock() -> None:
    calls = timing.calls_per_batch(lambda calls: math.floor(calls * 3 / 1000) * 1000, 1e5, 1000)
    assert calls * 3 >= 0.9e6


def test_a_sample_of_long_batches_has_fewer() -> None:
    assert [timing.batches_of(ns) for ns in (0, 1e6, 2e7, 1e10)] == [14, 14, 2, 2]


def test_the_core_is_one_of_this_process_and_the_process_keeps_all() -> None:
    before = os.sched_getaffinity(0)
    assert timing.least_busy_core() in before
    assert os.sched_getaffinity(0) == before


def test_a_machine_may_forbid_to_choose_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbid)
    assert timing.least_busy_core() == min(os.sched_getaffinity(0))


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The cores that this process would have been bound to."""
    cores: list[int] = []
    monkeypatch.setattr(timing, "pin", cores.append)
    monkeypatch.chdir(tmp_path)
    return cores


def test_without_being_asked_there_is_one_call(pinned: list[int]) -> None:
    calls: list[int] = []
    assert timing.timed(Action(params={}, inputs={}, outputs={}), lambda: calls.append(1) or 7) == 7
    timing.timed_by(Action(params={}, inputs={}, outputs={}), lambda _: [float("nan")])
    assert (len(calls), pinned, contract.read_metrics()) == (1, [], {})


def test_who_is_asked_writes_the_times_of_batches(pinned: list[int]) -> None:
    calls: list[int] = []
    params = {"timing": {"batch_s": 1e-5, "core": 3, "nonce": ""}}
    action = Action(params=params, inputs={}, outputs={})
    assert timing.timed(action, lambda: calls.append(1) or 7) == 7
    metrics = contract.read_metrics()
    assert pinned == [3]
    assert len(metrics["batch_ns"]) == 14
    assert len(calls) >= 1 + 5 * metrics["calls"]
    timing.timed_by(action, lambda batch_s: [batch_s, 2.0])
    assert contract.read_metrics() == {"calls": 1, "batch_ns": [1e-5, 2.0]}
