"""What pools share: which actions may run in the process of another."""

from __future__ import annotations

from dataclasses import replace

from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.worker_pool import continued_actions
from mlir_matrix.plan.graph import Graph, Produced

HERE = ResolvedEnvironment(name="mlir", interpreter=own(), packages=())
ENVIRONMENTS = {
    "mlir": HERE,
    "torch-mlir": ResolvedEnvironment(name="torch-mlir", interpreter=own(), packages=()),
    "gone": UnavailableEnvironment(name="gone", reason="not here"),
}


def add(graph: Graph, label: str, tool: str, environment: str, source: str = "", **params: str) -> str:
    """Add an action that reads ``ir`` of another one."""
    inputs = {"ir": Produced(source, "ir")} if source else {}
    return graph.add(
        label,
        tool=tool,
        stage="lower",
        environment=environment,
        params={"passes": label, **params},
        inputs=inputs,
        outputs={"ir": "ir.mlir"},
    )


def test_only_compilers_in_one_environment_continue_each_other() -> None:
    graph = Graph()
    imported = add(graph, "import", "python_file", "torch-mlir")
    first = add(graph, "first", "passes", "torch-mlir", imported)
    second = add(graph, "second", "passes", "mlir", first)
    made = add(graph, "object", "object", "mlir", second)
    add(graph, "link", "link", "mlir", made)
    assert continued_actions(graph, ENVIRONMENTS) == {first, second}
    # A package of another catalog could write to outputs as long as its process lives.
    foreign = replace(HERE, foreign=True)
    assert continued_actions(graph, dict.fromkeys(ENVIRONMENTS, foreign)) == frozenset()
    apart = add(graph, "apart", "passes", "gone", first)
    add(graph, "program", "passes", "mlir", made, backend="programs")
    assert continued_actions(graph, ENVIRONMENTS) == {first, second}
    add(graph, "after", "passes", "gone", apart)
    assert made not in continued_actions(graph, ENVIRONMENTS)
