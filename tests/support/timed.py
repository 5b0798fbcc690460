"""Programs whose calls can be timed."""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.cost.sampling import Timed
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.plan.graph import File, Input
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import select_tests


def timed_program(session: Session, name: str, limits: Limits) -> Timed:
    """Compile a test, and return its program."""
    (test,) = select_tests(session, [name])
    planner = Planner(session.catalog, ToleranceResolver(session.catalog).of, session.pins)
    assert planner.chains.without_timer(test) == ""
    made = planner.chains.bench(test, planner.chains.compile(test))
    done = run_graph(session, planner.graph, limits=limits)

    def file(ref: Input) -> Path:
        if isinstance(ref, File):
            return session.catalog.roots[ref.root] / ref.path
        result = done[ref.action].result
        assert result.ok, result.outcome
        return Path(ActionCache(session.home.actions).blob_path(result.outputs[ref.output]))

    files = {name: file(ref) for name, ref in made.inputs.items()}
    return Timed(tool=made.tool, environment=made.environment, params=made.params, files=files, outputs=made.outputs)
