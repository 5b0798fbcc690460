"""Execute graphs without tests."""

from __future__ import annotations

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener, ignore
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.local_pool import LocalPool
from mlir_matrix.execute.scheduler import Scheduler
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.request import Limits


def run_graph(session: Session, graph: Graph, *, limits: Limits, listener: Listener = ignore) -> dict[str, Done]:
    """Execute a graph without tests."""
    return Scheduler(
        graph,
        roots=session.catalog.roots,
        environments=session.environments(action.environment for action in graph.actions.values()),
        home=session.home,
        limits=limits,
        make_pool=LocalPool,
    ).run(listener)


def outputs_of(session: Session, graph: Graph, action: str, what: str, limits: Limits) -> dict[str, bytes]:
    """Execute a graph without tests; return the outputs of one action by name.

    Raise UsageError if it fails, and InfrastructureError. ``what``: the outputs, for messages.
    """
    result = run_graph(session, graph, limits=limits)[action].result
    if not result.ok:
        outcome = result.outcome["outcome"]
        kind = InfrastructureError if outcome == Outcome.INFRA_ERROR else UsageError
        raise kind(f"{what}: {outcome}: {result.outcome['reason']}")
    cache = ActionCache(session.home.actions)
    return {name: cache.read_blob(digest) for name, digest in result.outputs.items()}
