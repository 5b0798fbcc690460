"""Lost jobs are retried one at a time; an environment waits longer after each lost worker, and is given up at last."""

from __future__ import annotations

from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.job import Job
from mlir_matrix.execute.retries import Retries
from mlir_matrix.execute.sandbox import Prepared
from mlir_matrix.plan.graph import Graph
from support.clock import Clock

PYTHON = ResolvedEnvironment(name="python", interpreter=own(), packages=())


def job(key: str) -> Job:
    graph = Graph()
    name = graph.add(key, tool="run", stage="run", environment="python", params={}, inputs={}, outputs={"x": "x"})
    action = graph.actions[name]
    return Job(action, Prepared(key, action, ()), PYTHON)


def test_one_at_a_time(clock: Clock) -> None:
    retries, first, second = Retries(), job("a"), job("b")
    for each in (first, second):
        retries.add(each)
    assert retries.next() is first
    assert not retries.is_running({"a", "b"})
    retries.begin(first)
    assert retries.is_running({"a", "b"})
    assert not retries.is_running({"b"})
    assert retries.next() is second


def test_an_environment_waits_longer_each_time(clock: Clock) -> None:
    retries = Retries()
    retries.add(job("a"))
    for pause in (0.5, 2.0, 8.0):
        assert not retries.note_loss(PYTHON.digest)
        clock.now += pause - 0.01
        assert retries.next() is None
        clock.now += 0.02
        assert retries.next() is not None
    assert retries.note_loss(PYTHON.digest), "the fourth in a row"
    retries.forget_losses(PYTHON.digest)
    assert retries.next() is not None
    assert not retries.note_loss(PYTHON.digest)


def test_a_second_loss_long_after_the_first_is_the_last(clock: Clock) -> None:
    """Its jobs take long before they lose their worker: more of them would take hours."""
    retries = Retries()
    assert not retries.note_loss(PYTHON.digest)
    clock.now += 61
    assert retries.note_loss(PYTHON.digest)
