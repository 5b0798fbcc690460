"""Ready actions: the longest route first, every one once. Waiting jobs are looked up again; lost ones are retried alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.job import Job
from mlir_matrix.execute.queues import ReadyQueue, Retries, WaitingJobs, critical_path
from mlir_matrix.execute.sandbox import Prepared
from mlir_matrix.plan.graph import Graph, Produced
from support.clock import Clock

PYTHON = ResolvedEnvironment(name="python", interpreter=own(), packages=())


def graph_of(edges: dict[int, set[int]], tools: dict[int, str] | None = None) -> tuple[Graph, dict[int, str]]:
    """Actions 0, 1, … where each reads the lower ones that ``edges`` names."""
    graph, names = Graph(), {}
    for number in sorted(edges):
        names[number] = graph.add(
            f"a{number}",
            tool=(tools or {}).get(number, "passes"),
            stage="lower",
            environment=f"e{number % 3}",
            params={"n": number},
            inputs={f"i{source}": Produced(names[source], "o") for source in sorted(edges[number])},
            outputs={"o": "o"},
        )
    return graph, names


@strategies.composite
def graphs(draw: strategies.DrawFn) -> dict[int, set[int]]:
    size = draw(strategies.integers(1, 25))
    return {n: draw(strategies.sets(strategies.integers(0, n - 1), max_size=4)) if n else set() for n in range(size)}


@hypothesis.given(graphs(), strategies.randoms(use_true_random=False))
def test_every_action_once_after_its_sources(edges: dict[int, set[int]], random: object) -> None:
    graph, _ = graph_of(edges)
    frontier = ReadyQueue(graph)
    done: list[str] = []
    for identifier in frontier.first():
        frontier.push(identifier, graph.actions[identifier].environment, like=identifier)
    while found := frontier.pop(list(frontier.demand())):
        identifier, environment = found
        assert environment == graph.actions[identifier].environment
        assert set(graph.actions[identifier].sources) <= set(done)
        done.append(identifier)
        for ready in frontier.complete(identifier):
            frontier.push(ready, graph.actions[ready].environment, like=ready)
    assert sorted(done) == sorted(graph.actions)
    assert frontier.demand() == {}


@hypothesis.given(graphs())
def test_the_critical_path_is_the_longest(edges: dict[int, set[int]]) -> None:
    """Against the definition, computed without any cleverness."""
    graph, _ = graph_of(edges, {n: ("passes", "object", "python_file")[n % 3] for n in edges})
    cost = {"passes": 0.03, "object": 0.08, "python_file": 0.3}
    paths = critical_path(graph)

    def longest(identifier: str) -> float:
        after = [longest(key) for key, action in graph.actions.items() if identifier in action.sources]
        return cost[graph.actions[identifier].tool] + max(after, default=0.0)

    if len(edges) <= 12:
        assert paths.keys() == graph.actions.keys()
        assert all(abs(paths[key] - longest(key)) < 1e-9 for key in graph.actions)


def test_the_longest_road_goes_first() -> None:
    graph, names = graph_of({0: set(), 1: set(), 2: {1}, 3: {2}}, {0: "object"})
    frontier = ReadyQueue(graph)
    for number in (0, 1):
        frontier.push(names[number], "e", like=names[number])
    assert frontier.pop(["e"]) == (names[1], "e")
    assert frontier.pop(["e"]) == (names[0], "e")
    assert frontier.pop(["e"]) is None


def test_only_environments_that_are_asked_for() -> None:
    graph, names = graph_of({0: set(), 1: set()})
    frontier = ReadyQueue(graph)
    frontier.push(names[0], "here", like=names[0])
    frontier.push(names[1], "not yet", like=names[1])
    assert frontier.demand() == {"here": 1, "not yet": 1}
    assert frontier.pop(["here", "nowhere"]) == (names[0], "here")
    assert frontier.pop(["here"]) is None
    assert frontier.drain("not yet") == [names[1]]
    assert frontier.drain("not yet") == []
    assert frontier.demand() == {}


def test_completing_twice_frees_nothing_twice() -> None:
    """An action may be executed again, for a damaged output."""
    graph, names = graph_of({0: set(), 1: {0}, 2: {0, 1}})
    frontier = ReadyQueue(graph)
    assert frontier.first() == [names[0]]
    assert frontier.complete(names[0]) == [names[1]]
    assert frontier.complete(names[0]) == []
    assert frontier.complete(names[1]) == [names[2]]


def test_waiting_jobs(clock: Clock) -> None:
    """Are looked at again after 20 ms, then after twice that, and are executed after all when their time is over."""
    job: Any = SimpleNamespace(prepared=SimpleNamespace(key="k"))
    waiting = WaitingJobs()
    assert waiting.pause(9) == 9
    pauses = []
    for _ in range(6):
        waiting.add(job, 1.0)
        assert (len(waiting), list(waiting.due({"k"})), waiting.over(job)) == (1, [], False)
        pauses.append(waiting.pause(9))
        clock.now += pauses[-1]
        assert list(waiting.due({"k"})) == [job]
        assert len(waiting) == 0
    assert pauses == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.25, 0.25])
    clock.now = 1001.0
    assert waiting.over(job)
    waiting.add(job, 1.0)
    clock.now += 1
    assert list(waiting.due(())) == [], "it was finished by other means"
    assert len(waiting) == 0


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
