"""The graph: the same action is one action, anything that shows makes another, sources come first."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.plan.graph import File, Graph, Produced

PARTS: dict[str, Any] = {
    "tool": "passes",
    "stage": "lower",
    "environment": "mlir",
    "params": {"passes": "cse"},
    "inputs": {"ir": File(0, "a.mlir")},
    "outputs": {"ir": "linalg.mlir"},
    "native": False,
}


def test_the_same_action_is_added_once() -> None:
    graph = Graph()
    first = graph.add("step", **PARTS)
    # Equal, not identical: two tests describe it with objects of their own.
    again = graph.add("step", **{**PARTS, "params": {"passes": "cse"}, "inputs": {"ir": File(0, "a.mlir")}})
    assert first == again
    assert list(graph.actions) == [first]


@pytest.mark.parametrize(
    "change",
    [
        {"tool": "check"},
        {"stage": "codegen"},
        {"environment": "other"},
        {"params": {"passes": "canonicalize"}},
        {"inputs": {"ir": File(1, "a.mlir")}},
        {"inputs": {"ir": File(0, "b.mlir")}},
        {"inputs": {"source": File(0, "a.mlir")}},
        {"inputs": {"ir": Produced("a", "ir")}},
        {"inputs": {}},
        {"outputs": {"ir": "llvm.mlir"}},
        {"outputs": {"object": "linalg.mlir"}},
        {"native": True},
    ],
    ids=str,
)
def test_what_shows_makes_another_action(change: dict[str, Any]) -> None:
    graph = Graph()
    assert graph.add("step", **PARTS) != graph.add("step", **{**PARTS, **change})
    assert len(graph.actions) == 2


def test_parameters_that_are_gone_are_not_mistaken_for_new_ones() -> None:
    """Digests are remembered by identity, and identities come again when objects are gone."""
    graph = Graph()
    made = {graph.add("step", **{**PARTS, "params": {"number": number}}) for number in range(1000)}
    assert len(made) == 1000


def test_an_action_names_each_source_once() -> None:
    graph = Graph()
    source = graph.add("import", **PARTS)
    inputs = {"a": Produced(source, "ir"), "b": Produced(source, "ir"), "c": File(0, "c")}
    assert graph.actions[graph.add("step", **{**PARTS, "inputs": inputs})].sources == (source,)


@hypothesis.given(strategies.lists(strategies.sets(strategies.integers(0, 30), max_size=4), min_size=1, max_size=30))
def test_needed_by_has_sources_first_and_nothing_else(edges: list[set[int]]) -> None:
    graph = Graph()
    names: list[str] = []
    for number, chosen in enumerate(edges):
        inputs = {f"i{source}": Produced(names[source % number], "ir") for source in sorted(chosen) if number}
        names.append(graph.add(f"a{number}", **{**PARTS, "params": {"n": number}, "inputs": inputs}))
    order = graph.needed_by(names[-1])
    assert order[-1] == names[-1]
    assert len(order) == len(set(order))
    reached = {names[-1]}
    for identifier in reversed(order):
        assert identifier in reached
        reached.update(graph.actions[identifier].sources)
    assert reached == set(order)
    for place, identifier in enumerate(order):
        assert set(graph.actions[identifier].sources) <= set(order[:place])
