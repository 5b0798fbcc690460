"""Ready actions, the most urgent first. Pure bookkeeping over a graph: no clock, no process."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping

from mlir_matrix.plan.graph import Graph

#: Seconds that an action of a tool takes, roughly: only their order matters, for the critical path.
_COST = {
    "link_kit": 25.0,
    "import_pytorch": 0.5,
    "import_jax": 0.3,
    "import_onnx": 0.2,
    "object": 0.08,
    "passes": 0.03,
    # Tests of steps take a second in all. They go first, so that verdicts appear while packages are downloaded.
    "irtest": 1000.0,
}
_OTHER = 0.02


def critical_path(graph: Graph) -> dict[str, float]:
    """Return, for every action, the seconds of the longest chain that begins with it."""
    remaining: dict[str, float] = {}
    after: dict[str, float] = defaultdict(float)
    # The graph's order has sources first, so in reverse every action comes before what it waits for.
    for identifier in reversed(graph.actions):
        action = graph.actions[identifier]
        cost = _COST.get(action.tool, _OTHER) + after.pop(identifier, 0.0)
        remaining[identifier] = cost
        for source in action.sources:
            after[source] = max(after[source], cost)
    return remaining


class ReadyQueue:
    """How many actions each action waits for, and the ready ones by environment."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._priority: dict[str, float] = {}
        self._waiting: dict[str, int] = {}
        self._dependents: dict[str, list[str]] = defaultdict(list)
        self._ready: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for identifier, action in graph.actions.items():
            self._waiting[identifier] = len(action.sources)
            for source in action.sources:
                self._dependents[source].append(identifier)

    def first(self) -> list[str]:
        """Return the actions that wait for none."""
        return [identifier for identifier, count in self._waiting.items() if count == 0]

    def complete(self, identifier: str) -> list[str]:
        """Note that an action is done; return the actions that are ready now."""
        freed = []
        for dependent in self._dependents.pop(identifier, ()):
            self._waiting[dependent] -= 1
            if self._waiting[dependent] == 0:
                freed.append(dependent)
        return freed

    def push(self, item: str, environment: str, *, like: str) -> None:
        """Queue something to be executed in an environment, as urgent as the action ``like``."""
        if not self._priority:
            # Only now: a run that finds all in the cache needs no priorities.
            self._priority = critical_path(self._graph)
        heapq.heappush(self._ready[environment], (-self._priority[like], item))

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
