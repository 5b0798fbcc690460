"""What is known without executing anything: the result that a run would find, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.lookup import Lookup, cached_result
from mlir_matrix.plan.graph import File, Graph, Produced


class World:
    """A graph of two actions, and a store in which results can be put."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "catalog"
        self.root.mkdir()
        (self.root / "source.txt").write_text("source")
        self.store = ActionCache(folder / "actions")
        self.store.prepare()
        self.graph = Graph()
        self.first = self._add("first", {"source": File(0, "source.txt")})
        self.last = self._add("last", {"in": Produced(self.first, "out")})
        found = ResolvedEnvironment.__new__(ResolvedEnvironment)
        object.__setattr__(found, "digest", "0" * 64)
        self.environments: dict[str, ResolvedEnvironment | UnavailableEnvironment] = {"numpy": found}
        self.done: dict[str, Done] = {}

    def _add(self, label: str, inputs: dict[str, File] | dict[str, Produced]) -> str:
        return self.graph.add(
            label, tool="inputs", stage="run", environment="numpy", params={}, inputs=dict(inputs), outputs={"out": "o"}
        )

    def keep(self, name: str, result: Result) -> None:
        lookup = Lookup(self.graph, [self.root], self.store, memory_mb=4096)
        self.store.keep(lookup.prepare(self.graph.actions[name], "0" * 64, self.done).key, result)
        self.done[name] = Done(result=result, cached=False)

    def made(self, text: str) -> Result:
        file = self.root.parent / "made"
        file.write_text(text)
        return Result(outcome={"outcome": "ok"}, outputs={"out": self.store.take_file(str(file))})

    def find(self) -> Result | None:
        return cached_result(self.graph, self.last, roots=[self.root], environments=self.environments, store=self.store)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


FAILED = Result(outcome={"outcome": "lower-failed", "stage": "lower", "reason": "no such pass"})


def test_it_is_what_was_kept(world: World) -> None:
    world.keep(world.first, world.made("first"))
    world.keep(world.last, world.made("last"))
    found = world.find()
    assert found is not None
    assert world.store.read_blob(found.outputs["out"]) == b"last"


def test_where_anything_would_be_executed_nothing_is_known(world: World) -> None:
    assert world.find() is None
    world.keep(world.first, world.made("first"))
    assert world.find() is None
    world.keep(world.last, world.made("last"))
    assert world.find() is not None
    (world.root / "source.txt").write_text("another")
    assert world.find() is None


def test_a_failure_is_passed_on(world: World) -> None:
    world.keep(world.first, FAILED)
    found = world.find()
    assert found is not None
    assert found.outcome["outcome"] == "lower-failed"


def test_without_the_environment_nothing_is_known(world: World) -> None:
    world.keep(world.first, world.made("first"))
    world.environments["numpy"] = UnavailableEnvironment.__new__(UnavailableEnvironment)
    assert world.find() is None
