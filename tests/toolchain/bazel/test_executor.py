"""What becomes of tests that Bazel is not even asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import Event
from mlir_matrix.base.paths import Home
from mlir_matrix.bazel.executor import BazelExecutor
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.environments.session import Environment, Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import ActionDone, Done
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import ExecutorOptions, Limits
from mlir_matrix.plan.session import plan_tests
from support.debs import Mirror, release


class Told:
    """Hears what was done."""

    def __init__(self, enough: str = "") -> None:
        self.done: dict[str, Done] = {}
        self._enough = enough

    def on(self, event: Event) -> bool:
        if not isinstance(event, ActionDone):
            return False
        self.done[event.action.id] = event.done
        return event.done.result.outcome["outcome"] == self._enough


def executor_of(
    current: Session, tmp_path: Path, gone: Environment, *tests: str, bazel: str = "/nonexistent"
) -> tuple[PlannedTests, BazelExecutor]:
    """One whose Bazel cannot be started, and whose environments are here, but for one."""
    session = replace(current, home=Home(cache=tmp_path, state=tmp_path / "state", actions=tmp_path / "actions"))
    plan = plan_tests(session, choose(session.catalog, tests, pins=session.pins).tests())
    names = {action.environment for action in plan.graph.actions.values()}
    here = {name: ResolvedEnvironment(name=name, interpreter=own(), packages=()) for name in names}
    executor = BazelExecutor(
        session,
        plan,
        locate=lambda _listener: (bazel,),
        options=ExecutorOptions(executor="bazel"),
        environments={**here, gone.name: gone},
        limits=Limits(jobs=1),
    )
    return plan, executor


def lost(name: str) -> UnavailableEnvironment:
    return UnavailableEnvironment(name=name, reason="it has no lock")


@pytest.mark.parametrize("gone", ["mlir", "zig", "numpy"])
def test_an_environment_that_cannot_be_had_decides_the_test(current: Session, tmp_path: Path, gone: str) -> None:
    """Whichever of its actions needs it: what comes after has nothing to go on with, and is no pass."""
    told = Told()
    plan, executor = executor_of(current, tmp_path, lost(gone), "mlir/linalg-loops/x86_64/matmul")
    executor.run(told.on)
    (verdict,) = plan.verdicts.values()
    outcome = told.done[verdict].result.outcome
    assert outcome["outcome"] == "skipped"
    assert "it has no lock" in outcome["reason"]
    assert told.done.keys() == plan.graph.actions.keys()


@pytest.mark.parametrize(
    ("mirrors", "outcome", "reason"),
    [
        ("", "skipped", "its Debian packages need a mirror"),
        ("deb file:///none bookworm main\n", "infra-error", "/none"),
    ],
)
def test_packages_that_need_a_mirror(
    mirrors: str, outcome: str, reason: str, current: Session, without_mirror: Path, tmp_path: Path
) -> None:
    """Without one, their tests are skipped; with one that has none of them, the infrastructure has failed."""
    (without_mirror / "sources.list").write_text(mirrors)
    prefix = release(Mirror(tmp_path / "mirror"))
    needs = ResolvedEnvironment(name="mlir", interpreter=own(), packages=(), prefixes=(prefix,))
    told = Told()
    plan, executor = executor_of(current, tmp_path, needs, "mlir/linalg-loops/x86_64/matmul")
    executor.run(told.on)
    (verdict,) = plan.verdicts.values()
    result = told.done[verdict].result
    assert result.outcome["outcome"] == outcome
    assert reason in result.outcome["reason"]


def test_who_has_enough_by_a_lost_environment_needs_no_bazel(current: Session, tmp_path: Path) -> None:
    """The rest is not built, nor is Bazel asked for what the lost test made."""
    told = Told(enough="skipped")
    well, jax = "mlir/linalg-loops/x86_64/matmul", "jax/linalg-loops/x86_64/matmul"
    plan, executor = executor_of(current, tmp_path, lost("jax"), well, jax)
    executor.run(told.on)
    assert [done.result.outcome["outcome"] for done in told.done.values()].count("skipped") == 1
    assert plan.verdicts[well] not in told.done
    executor.download_outputs([jax])


def test_a_damaged_c_library_is_copied_again(current: Session, tmp_path: Path) -> None:
    """What Bazel gets is the installed object, whatever the action cache has."""
    test = "mlir/linalg-loops/x86_64/matmul"
    (tmp_path / "built").write_bytes(b"object")
    CLibrary.of("x86_64-linux-musl", ()).install(tmp_path / "packages", tmp_path / "built")
    for _ in range(2):
        told = Told()
        _, executor = executor_of(current, tmp_path, lost("none"), test, bazel="/bin/false")
        with pytest.raises(InfrastructureError, match="Bazel"):
            executor.run(told.on)
        assert [done.cached for done in told.done.values()] == [True]
        (copy,) = tmp_path.glob("bazel/workspaces/*/c-library-*.o")
        assert copy.read_bytes() == b"object"
        copy.unlink()
        Path(ActionCache(tmp_path / "actions").blob_path(digest_bytes(b"object"))).write_bytes(b"damage")
