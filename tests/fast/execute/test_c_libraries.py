"""Actions that build C libraries: what runs with other action caches know of them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.execute.c_libraries import CLibraries, builds_c_library
from mlir_matrix.execute.lookup import Lookup
from mlir_matrix.plan.graph import Graph, PlannedAction

ZIG = WheelPackage(name="ziglang", version="1.0", hashes=("a" * 64,))
OBJECT = b"object"


def action(*outputs: str, tool: str = "link_kit") -> PlannedAction:
    graph = Graph()
    params = {"triple": "x86_64-linux-musl"}
    files = {name: f"{name}.o" for name in outputs or ("runtime",)}
    added = graph.add("a", tool=tool, stage="codegen", environment="zig", params=params, inputs={}, outputs=files)
    return graph.actions[added]


class Cache:
    """A run with an action cache of its own."""

    def __init__(self, folder: Path, packages: Path) -> None:
        self.store = ActionCache(folder)
        self.store.prepare()
        environment = ResolvedEnvironment(name="zig", interpreter=own(), packages=(ZIG,))
        self.libraries = CLibraries(packages, {"zig": environment}, self.store)
        self.lookup = Lookup(Graph(), [], self.store, memory_mb=1, libraries=self.libraries)

    def find(self, wanted: PlannedAction) -> Result | None:
        return self.lookup.find(self.lookup.prepare(wanted, "e" * 64, {}))

    def build(self, wanted: PlannedAction, outcome: str = "ok") -> None:
        made = Path(self.store.results, "made")
        made.write_bytes(OBJECT)
        outputs = {name: self.store.take_file(str(made)) for name in wanted.outputs}
        self.libraries.keep(wanted, Result(outcome={"outcome": outcome, "stage": "codegen"}, outputs=outputs))


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return tmp_path / "packages"


@pytest.fixture
def one(tmp_path: Path, packages: Path) -> Cache:
    return Cache(tmp_path / "one", packages)


@pytest.fixture
def other(tmp_path: Path, packages: Path) -> Cache:
    return Cache(tmp_path / "other", packages)


def test_which_actions_build_c_libraries() -> None:
    assert builds_c_library(action())
    assert not builds_c_library(action("driver"))
    assert not builds_c_library(action(tool="link"))


def test_what_one_run_builds_others_have(one: Cache, other: Cache) -> None:
    wanted = action()
    assert other.find(wanted) is None
    one.build(wanted)
    found = other.find(wanted)
    assert found
    assert found.outcome == {"outcome": "ok", "stage": "codegen"}
    assert found.outputs == {"runtime": digest_bytes(OBJECT)}
    assert other.store.read_blob(found.outputs["runtime"]) == OBJECT


def test_it_is_known_to_the_action_cache_from_then_on(tmp_path: Path, packages: Path, one: Cache, other: Cache) -> None:
    one.build(action())
    found = other.find(action())
    packages.rename(tmp_path / "gone")
    assert Cache(tmp_path / "other", packages).find(action()) == (found and replace(found, memory_mb=1))


def test_a_lost_blob_is_copied_again(one: Cache, other: Cache) -> None:
    one.build(action())
    found = other.find(action())
    assert found
    os.unlink(other.store.blob_path(found.outputs["runtime"]))
    other.lookup.forget_results()
    assert other.find(action())
    assert other.store.has_blob(found.outputs["runtime"])


def test_other_actions_and_failures_are_not_shared(packages: Path, one: Cache, other: Cache) -> None:
    one.build(action("driver"))
    one.build(action(), "infra-error")
    assert not packages.exists()
    assert other.find(action("driver")) is None


def test_a_damaged_one_is_built_again(packages: Path, one: Cache, other: Cache) -> None:
    one.build(action())
    (built,) = packages.glob("c-library-*/runtime.o")
    built.write_bytes(b"damage")
    assert other.find(action()) is None
    other.build(action())
    assert built.read_bytes() == OBJECT


def test_one_run_builds_it_at_a_time(one: Cache, other: Cache) -> None:
    wanted = action()
    with ThreadPoolExecutor(1) as thread:
        # Locks are a thread's: this one stands for another process.
        assert thread.submit(other.libraries.claim, "k", wanted).result()
        assert thread.submit(other.libraries.claim, "k", wanted).result()
        assert not one.libraries.claim("k", wanted)
        assert one.libraries.claim("k", action("driver"))
        thread.submit(other.libraries.release, but={"k"}).result()
        assert not one.libraries.claim("k", wanted)
        thread.submit(other.libraries.release).result()
    assert one.libraries.claim("k", wanted)
    one.build(wanted)
    one.libraries.release()
    assert other.find(wanted)


def test_packages_that_cannot_be_written(tmp_path: Path) -> None:
    """A run builds its own, and goes on."""
    (tmp_path / "file").touch()
    run = Cache(tmp_path / "cache", tmp_path / "file")
    assert run.libraries.claim("k", action())
    run.build(action())
    assert run.find(action()) is None
