"""What is known of an action without executing anything: its result, if it and all before it are in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.action_cache import Result, Store
from mlir_matrix.execute.job import Done, passed_on
from mlir_matrix.execute.lookup import Lookup
from mlir_matrix.plan.graph import Graph


def recall(
    graph: Graph,
    last: str,
    *,
    roots: Sequence[Path],
    environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment],
    store: Store,
) -> Result | None:
    """The result of an action as a run would find it; None where a run would execute anything."""
    lookup = Lookup(graph, roots, store, memory_mb=0)
    done: dict[str, Done] = {}
    for name in graph.needed_by(last):
        action = graph.actions[name]
        environment = environments[action.environment]
        if not isinstance(environment, ResolvedEnvironment):
            return None
        known = passed_on(action, done)
        if known is None:
            found = lookup.find(lookup.prepare(action, environment.digest, done))
            if found is None:
                return None
            known = Done(result=found, cached=True)
        done[name] = known
    return done[last].result
