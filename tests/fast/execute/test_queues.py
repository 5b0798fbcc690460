"""Ready actions: tests finish one after the other. Waiting jobs are looked up again; lost ones are retried alone."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.folders import Prepared
from mlir_matrix.execute.job import Task
from mlir_matrix.execute.queues import ReadyQueue, Retries, WaitingTasks, critical_path, schedule
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


def order_of(graph: Graph, *, jobs: int = 1) -> list[str]:
    """The actions in the order in which they are done, with one slot; ``jobs`` is what the queue plans for."""
    ready = ReadyQueue(graph, jobs)
    done: list[str] = []
    freed = ready.first()
    while True:
        for identifier in freed:
            ready.push(identifier, graph.actions[identifier].environment, like=identifier)
        found = ready.pop(list(ready.demand()))
        if found is None:
            assert ready.demand() == {}
            return done
        assert found[1] == graph.actions[found[0]].environment
        assert set(graph.actions[found[0]].sources) <= set(done)
        done.append(found[0])
        freed = ready.complete(found[0])


@hypothesis.given(graphs(), strategies.integers(1, 64))
def test_every_action_once_after_its_sources(edges: dict[int, set[int]], jobs: int) -> None:
    graph, _ = graph_of(edges)
    order = order_of(graph, jobs=jobs)
    assert sorted(order) == sorted(graph.actions)
    assert order == order_of(graph, jobs=jobs)


@hypothesis.given(graphs(), strategies.integers(1, 64))
def test_a_source_is_more_urgent_than_what_waits_for_it(edges: dict[int, set[int]], jobs: int) -> None:
    graph, _ = graph_of(edges, {n: ("passes", "object", "link_kit")[n % 3] for n in edges})
    urgency = schedule(graph, jobs)
    for identifier, action in graph.actions.items():
        assert all(urgency[source] < urgency[identifier] for source in action.sources)


@hypothesis.given(graphs(), strategies.randoms(use_true_random=False), strategies.data())
def test_a_failure_is_inherited_at_once_and_the_same_in_any_order(
    edges: dict[int, set[int]], random: Random, data: strategies.DataObject
) -> None:
    graph, names = graph_of(edges)
    failing = {names[n] for n in data.draw(strategies.sets(strategies.sampled_from(sorted(edges))))}
    ready = ReadyQueue(graph, 1)
    #: The failed action that each one inherits from, or that it is; empty after a success.
    ends: dict[str, str] = {}
    waiting = ready.first()
    while waiting:
        identifier = waiting.pop(random.randrange(len(waiting)))
        sources = graph.actions[identifier].sources
        inherited = next((ends[source] for source in sources if ends[source]), "")
        assert identifier not in ends
        ends[identifier] = inherited or (identifier if identifier in failing else "")
        waiting += ready.complete(identifier, failed=bool(ends[identifier]))
        for each, action in graph.actions.items():
            if action.sources and ends.get(action.sources[0]):
                assert each in ends or each in waiting, "its first source has failed"
    expected: dict[str, str] = {}
    for identifier, action in graph.actions.items():
        found = next((expected[source] for source in action.sources if expected[source]), "")
        expected[identifier] = found or (identifier if identifier in failing else "")
    assert ends == expected


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


def chains(imports: dict[str, int], tests: int, *, kit: int = 0) -> Graph:
    """Imports by environment, each with tests of a step, inputs, a run and a judge. The last ``kit`` tests share a library."""
    graph = Graph()

    def add(label: str, tool: str, environment: str, *sources: str) -> str:
        inputs = {source: Produced(source, "o") for source in sources}
        return graph.add(
            label,
            tool=tool,
            stage="run",
            environment=environment,
            params={"n": label},
            inputs=inputs,
            outputs={"o": "o"},
        )

    for environment, count in imports.items():
        for number in range(count):
            imported = add(f"import-{environment}-{number}", "import_jax", environment)
            for test in range(tests):
                name = f"{environment}-{number}-{test}"
                sources = [add(f"step-{name}", "passes", "mlir", imported), add(f"inputs-{name}", "inputs", "numpy")]
                sources += [add("kit", "link_kit", "zig")] if number >= count - kit else []
                add(f"judge-{name}", "judge", "numpy", add(f"run-{name}", "run", "python", *sources))
    return graph


def labels(order: list[str]) -> list[str]:
    return [identifier.rpartition("-")[0] for identifier in order]


@hypothesis.given(strategies.integers(1, 30))
def test_of_equal_chains_one_ends_before_the_next_begins(tests: int) -> None:
    order = labels(order_of(chains({"jax": tests}, 1)))
    steps = ("import-jax-{0}", "step-jax-{0}-0", "inputs-jax-{0}-0", "run-jax-{0}-0", "judge-jax-{0}-0")
    assert order == [step.format(number) for number in range(tests) for step in steps]


def test_tests_of_one_import_stay_together_and_frameworks_take_turns() -> None:
    order = labels(order_of(chains({"jax": 8, "torch": 4}, 3)))
    ends = [label.split("-")[1:3] for label in order if label.startswith("judge")]
    assert [number for name, number in ends if name == "jax"] == [str(n) for n in range(8) for _ in range(3)]
    for half in (ends[:18], ends[18:]):
        assert sum(name == "jax" for name, _ in half) in (11, 12, 13)
    assert {label for label in order[:8] if label.startswith("import")} == {"import-jax-0", "import-torch-0"}


@pytest.mark.parametrize(("jobs", "first"), [(16, True), (1, False)])
def test_what_would_end_last_starts_first(jobs: int, first: bool) -> None:
    """The C library takes 25 s: all else takes 9 s on 16 cores, but 150 s on one, and then its own tests can wait."""
    order = labels(order_of(chains({"jax": 300}, 1, kit=100), jobs=jobs))
    assert (order[0] == "kit") == first
    assert order.index("kit") < order.index("run-jax-200-0")
    if not first:
        assert sum(label.startswith("judge") for label in order[: order.index("kit")]) > 100


def test_only_environments_that_are_asked_for() -> None:
    graph, names = graph_of({0: set(), 1: set()})
    frontier = ReadyQueue(graph, 1)
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
    frontier = ReadyQueue(graph, 1)
    assert frontier.first() == [names[0]]
    assert frontier.complete(names[0]) == [names[1]]
    assert frontier.complete(names[0]) == []
    assert frontier.complete(names[1]) == [names[2]]


def test_waiting_jobs(clock: Clock) -> None:
    """Are looked at again after 20 ms, then after twice that, and are executed after all when their time is over."""
    job: Any = SimpleNamespace(prepared=SimpleNamespace(key="k"))
    waiting = WaitingTasks()
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


def task(key: str) -> Task:
    graph = Graph()
    name = graph.add(key, tool="run", stage="run", environment="python", params={}, inputs={}, outputs={"x": "x"})
    action = graph.actions[name]
    return Task(action, Prepared(key, action, ()), PYTHON)


def test_one_at_a_time(clock: Clock) -> None:
    retries, first, second = Retries(), task("a"), task("b")
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
    retries.add(task("a"))
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
