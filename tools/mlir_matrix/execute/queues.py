"""Queue tasks: ready ones by urgency, those that another run executes, and lost ones that are retried alone."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from mlir_matrix.execute.job import Task
from mlir_matrix.plan.graph import Graph

#: How often a task is tried. The second time it runs alone, with a new worker and folder.
ATTEMPTS = 2
#: Seconds before an environment that lost its worker gets the next one. An environment whose worker does not begin its job ends
#: after the last of them, or if the last two losses are further apart than ``_IN_A_ROW_S``.
_BACK_OFF_S = (0.5, 2.0, 8.0)
_IN_A_ROW_S = 60.0
#: Seconds until a task of another run is looked up again: twice as long each time, within these limits.
_SHORTEST_S, _LONGEST_S = 0.02, 0.25
#: Rough seconds of an action by tool. They only order the critical paths.
_COST = {
    "link_kit": 25.0,
    "python_file": 0.3,
    "object": 0.08,
    "passes": 0.03,
}
_OTHER = 0.02


def schedule(graph: Graph, jobs: int) -> dict[str, tuple[float, float]]:
    """Return, for every action, the time to start it and, for equal times, its urgency; both lowest first.

    Tests finish one after the other: an action is due with the first test that needs it. It is due earlier if its critical
    path would otherwise end after all tests, as that of a C library may.
    """
    places = _places(graph)
    paths = critical_path(graph)
    total_s = sum(_COST.get(action.tool, _OTHER) for action in graph.actions.values()) / jobs
    return {key: (min(places[key] * total_s, total_s - path), -path) for key, path in paths.items()}


def _places(graph: Graph) -> dict[str, float]:
    """Return, for every action, the share of the tests that come before the first one that needs it.

    The tests of each importing environment are spread evenly over the run: frameworks take turns, and all workers start
    early. The tests of one import stay together, so that the cost of shared prefixes is spread as well.
    """
    origins: dict[str, tuple[int, str]] = {}
    families: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    inner = {source for action in graph.actions.values() for source in action.sources}
    for identifier, action in graph.actions.items():
        # The import begins the longest chain; inputs and the C library begin shorter ones.
        depth, origin = max((origins[source] for source in action.sources), default=(0, identifier))
        origins[identifier] = depth + 1, origin
        if identifier not in inner:
            families[graph.actions[origin].environment][origin].append(identifier)
    places: dict[str, float] = {}
    for family in families.values():
        ends = list(chain.from_iterable(family.values()))
        places.update((identifier, number / len(ends)) for number, identifier in enumerate(ends))
    for identifier in reversed(graph.actions):
        for source in graph.actions[identifier].sources:
            places[source] = min(places.get(source, 1.0), places[identifier])
    return places


def critical_path(graph: Graph) -> dict[str, float]:
    """Return, for every action, the seconds of the longest chain that begins with it."""
    remaining: dict[str, float] = {}
    after: dict[str, float] = defaultdict(float)
    # The graph has sources first, so in reverse every action comes before its sources.
    for identifier in reversed(graph.actions):
        action = graph.actions[identifier]
        cost = _COST.get(action.tool, _OTHER) + after.pop(identifier, 0.0)
        remaining[identifier] = cost
        for source in action.sources:
            after[source] = max(after[source], cost)
    return remaining


class ReadyQueue:
    """Counts the actions that each action waits for, and keeps the ready ones by environment."""

    def __init__(self, graph: Graph, jobs: int) -> None:
        """``jobs``: how many actions run at a time."""
        self._graph = graph
        self._jobs = jobs
        self._priority: dict[str, tuple[float, float]] = {}
        self._waiting: dict[str, int] = {}
        self._dependents: dict[str, list[str]] = defaultdict(list)
        self._ready: dict[str, list[tuple[tuple[float, float], str]]] = defaultdict(list)
        for identifier, action in graph.actions.items():
            self._waiting[identifier] = len(action.sources)
            for source in action.sources:
                self._dependents[source].append(identifier)

    def first(self) -> list[str]:
        """Return the actions without sources."""
        return [identifier for identifier, count in self._waiting.items() if count == 0]

    def complete(self, identifier: str, *, failed: bool = False) -> list[str]:
        """Note that an action is done; return the actions that are ready now.

        After a failure these include each action that inherits it whatever its other sources do, because all sources
        before the failed one are done.
        """
        freed = []
        for dependent in self._dependents.pop(identifier, ()):
            self._waiting[dependent] -= 1
            left = self._waiting[dependent]
            if left == 0 or (left > 0 and failed and self._inherits(dependent, identifier)):
                # Other sources then count below zero, so that it is ready only once.
                self._waiting[dependent] = 0
                freed.append(dependent)
        return freed

    def _inherits(self, dependent: str, failed: str) -> bool:
        sources = self._graph.actions[dependent].sources
        return not any(source in self._dependents for source in sources[: sources.index(failed)])

    def push(self, item: str, environment: str, *, like: str) -> None:
        """Queue an item for an environment, as urgent as the action ``like``."""
        if not self._priority:
            # Not earlier: a run of cache hits needs no priorities.
            self._priority = schedule(self._graph, self._jobs)
        heapq.heappush(self._ready[environment], (self._priority[like], item))

    def next_after(self, identifier: str, fits: Callable[[str], bool]) -> str | None:
        """Return the most urgent of the actions that only wait for this one and fit, or None."""
        waiting = (name for name in self._dependents.get(identifier, ()) if self._waiting[name] == 1 and fits(name))
        return min(waiting, key=lambda name: self._priority[name], default=None)

    def pop(self, environments: Collection[str]) -> tuple[str, str] | None:
        """Return the most urgent item among those of the given environments, and its environment."""
        best = min(
            ((queue[0], environment) for environment in environments if (queue := self._ready.get(environment))),
            default=None,
        )
        if best is None:
            return None
        (_, item), environment = best
        heapq.heappop(self._ready[environment])
        return item, environment

    def drain(self, environment: str) -> list[str]:
        """Remove and return all items of an environment."""
        return [item for _, item in self._ready.pop(environment, [])]

    def demand(self) -> Mapping[str, int]:
        """Return how many items wait for each environment."""
        return {environment: len(queue) for environment, queue in self._ready.items() if queue}


@dataclass(slots=True)
class _Wait:
    task: Task
    #: Times of the latest execution and of the next look-up, and seconds between that and the one after it.
    until: float
    due: float = 0.0
    pause: float = _SHORTEST_S
    parked: bool = True


class WaitingTasks:
    """Tasks that another run executes. They take no worker, and are looked up again after a pause."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def __len__(self) -> int:
        return sum(wait.parked for wait in self._waits.values())

    def add(self, task: Task, limit_s: float) -> None:
        """Add a task until it is due, for at most ``limit_s`` seconds since the first call."""
        now = time.monotonic()
        wait = self._waits.setdefault(task.prepared.key, _Wait(task, now + limit_s))
        wait.task, wait.parked = task, True
        wait.due, wait.pause = now + wait.pause, min(2 * wait.pause, _LONGEST_S)

    def over(self, task: Task) -> bool:
        """Return whether a task has reached its limit."""
        wait = self._waits.get(task.prepared.key)
        return wait is not None and time.monotonic() >= wait.until

    def due(self, tasks: Container[str]) -> Iterator[Task]:
        """Remove and yield the tasks to look up now; ``tasks`` has the keys of all unfinished tasks."""
        now = time.monotonic()
        self._waits = {key: wait for key, wait in self._waits.items() if key in tasks}
        for wait in [*self._waits.values()]:
            if wait.parked and wait.due <= now:
                wait.parked = False
                yield wait.task

    def pause(self, longest: float) -> float:
        """Return the seconds until the next task is due, at most ``longest``."""
        now = time.monotonic()
        return min([longest, *(max(0.0, wait.due - now) for wait in self._waits.values() if wait.parked)])


class Retries:
    """Lost tasks, retried alone to find the one that ends its worker, and environments that wait for a new worker."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        #: The key of the last retried task.
        self._begun = ""
        #: Times of losses since the last answer, by environment.
        self._losses: dict[str, list[float]] = {}

    def add(self, task: Task) -> None:
        self._waiting.append(task)

    def next(self) -> Task | None:
        """Return the next task whose environment may have a worker, or None."""
        return next((task for task in self._waiting if not self.is_held_back(task.environment.digest)), None)

    def begin(self, task: Task) -> None:
        """Remove a task from the queue, because it starts."""
        self._waiting.remove(task)
        self._begun = task.prepared.key

    def is_running(self, tasks: Container[str]) -> bool:
        """Return whether a retried task is running; ``tasks`` has the keys of unfinished tasks."""
        return self._begun in tasks

    def note_loss(self, environment: str) -> bool:
        """Note that a worker was lost. Return True if the environment has lost too many workers."""
        lost = self._losses.setdefault(environment, [])
        lost.append(time.monotonic())
        return len(lost) > len(_BACK_OFF_S) or (len(lost) >= ATTEMPTS and lost[-1] - lost[-2] > _IN_A_ROW_S)

    def forget_losses(self, environment: str) -> None:
        """Note that a worker has answered, or that the environment gets no other worker."""
        self._losses.pop(environment, None)

    def is_held_back(self, environment: str) -> bool:
        """Return whether an environment waits for its next worker."""
        lost = self._losses.get(environment)
        return lost is not None and time.monotonic() < lost[-1] + _BACK_OFF_S[min(len(lost), len(_BACK_OFF_S)) - 1]
