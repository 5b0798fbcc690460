"""Time calls: in batches that the clock can measure, on one core, each as often as its length allows."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mlir_matrix.actions.contract import Action, add_metrics
from mlir_matrix.actions.params import RunParams, TimingParams

T = TypeVar("T")

#: Batches of a sample, of which the least counts, because other processes only make a batch longer. A long one has fewer.
_BATCHES = (2, 14)
_SAMPLE_NS = 50e6
#: A batch is so many times as long as the least time that the clock can tell.
_TICKS = 1000
#: For how long each core is tried, and how many are.
_TRIAL_S = 0.02
_TRIED = 16


def least_busy_core() -> int:
    """Return the core of this process on which most work can be done now. A sandbox may hide what the system knows of it.

    On a machine that binds no process to a core: the first one.
    """
    before = os.sched_getaffinity(0)
    done: dict[int, int] = {}
    try:
        for core in sorted(before)[:_TRIED]:
            try:
                os.sched_setaffinity(0, {core})
            except OSError:
                return min(before)
            end, done[core] = time.perf_counter() + _TRIAL_S, 0
            while time.perf_counter() < end:
                done[core] += 1
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)
    return max(done, key=lambda core: done[core])


def pin(core: int) -> None:
    """Bind all threads of this process, and those that it starts, to a core. A machine may forbid it."""
    threads = [0]
    with contextlib.suppress(OSError):
        threads += map(int, os.listdir("/proc/self/task"))
    for thread in threads:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, {core})


def calls_per_batch(time_batch: Callable[[int], float], batch_ns: float, clock_ns: float) -> int:
    """Return how many calls make a batch of about ``batch_ns`` nanoseconds, or longer for a coarse clock.

    ``time_batch``: time so many calls. ``clock_ns``: the least time that the clock can tell.
    """
    wanted = max(batch_ns, _TICKS * clock_ns)
    calls = 1
    while (taken := time_batch(calls)) < 0.9 * wanted:
        calls = math.ceil(calls * min(wanted / max(taken, clock_ns, 1), 1000))
    return calls


def batches_of(batch_ns: float) -> int:
    """Return how many batches of this length a sample has."""
    fewest, most = _BATCHES
    return min(max(int(_SAMPLE_NS / max(batch_ns, 1)), fewest), most)


def timed(action: Action[Any], call: Callable[[], T]) -> T:
    """Call the program under test and return what it returns.

    If the action asks for times, call it more often, in batches, and add to the metrics ``calls``, the calls of a batch, and
    ``batch_ns``, the nanoseconds of each batch. The program is warm then: the first call is not timed.
    """
    result = call()
    params: RunParams = action.params
    if "timing" not in params:
        return result
    timing = _pinned(params["timing"])

    def time_batch(calls: int) -> int:
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return time.perf_counter_ns() - start

    gc.collect()
    gc.disable()
    try:
        resolution = time.get_clock_info("perf_counter").resolution * 1e9
        calls = calls_per_batch(time_batch, timing["batch_s"] * 1e9, resolution)
        found = [time_batch(calls)]
        found += (time_batch(calls) for _ in range(batches_of(found[0]) - 1))
    finally:
        gc.enable()
    add_metrics({"calls": calls, "batch_ns": found})
    return result


def timed_by(action: Action[Any], measure: Callable[[float], Sequence[float]]) -> None:
    """If the action asks for times, have a program measure them, which runs the calls itself.

    ``measure`` gets the seconds that a batch of calls should take, and returns the nanoseconds of a call in each batch.
    """
    params: RunParams = action.params
    if "timing" in params:
        add_metrics({"calls": 1, "batch_ns": [*measure(_pinned(params["timing"])["batch_s"])]})


def _pinned(timing: TimingParams) -> TimingParams:
    core = timing["core"]
    pin(least_busy_core() if core is None else core)
    return timing
