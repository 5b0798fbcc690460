"""Running plans: real actions of the small environments, from an empty cache, again, and ended early."""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.events import Event, Listener, Tick, ignore
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import ActionDone, ActionStarted
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.execute.scheduler import Scheduler
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.graph import File, Graph, Input, Produced
from mlir_matrix.plan.parameters import add_inputs
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import ExecutorOptions, Limits
from mlir_matrix.plan.session import open_session, plan_tests
from mlir_matrix.results.results import Run, TestDone
from mlir_matrix.results.run_plan import run_plan

LIMITS = Limits(jobs=2)
#: IR tests need neither a framework nor the C library.
GLOB = "mlir/{linalg-fuse,linalg-to-loops}/ir/*"


@pytest.fixture
def fresh(tmp_path: Path, environments: Any) -> Session:
    """A session with an empty cache, whose environments are installed."""
    for name in ("mlir", "filecheck", "numpy"):
        environments.require(name)
    return open_session(cache_dir=tmp_path / "cache")


def planned(session: Session, *extra: str) -> PlannedTests:
    return plan_tests(session, choose(session.catalog, (GLOB, *extra)).tests())


def run(session: Session, plan: PlannedTests, listener: Listener = ignore, *, fail_fast: bool = False) -> Run:
    return run_plan(session, plan, limits=LIMITS, fail_fast=fail_fast, listener=listener)


def test_results_come_in_the_plans_order_and_again_from_the_cache(fresh: Session) -> None:
    plan = planned(fresh)
    first, second = run(fresh, plan), run(fresh, plan)
    assert [result.id for result in first.results] == [test.id for test in plan.tests]
    assert {result.outcome for result in first.results} == {"pass"}
    assert sorted(first.executed_actions) == sorted(plan.graph.actions)
    assert not any(result.cached for result in first.results)
    assert second.executed == 0
    assert all(result.cached for result in second.results)
    assert [(result.id, result.outcome, result.reason) for result in second.results] == [
        (result.id, result.outcome, result.reason) for result in first.results
    ]
    assert not first.interrupted


def test_an_action_that_is_made_again_ends_its_test_once(fresh: Session) -> None:
    """Another action lost what it had given, after its test had its result."""
    test = planned(fresh).tests[0]
    plan = planned(fresh).only([test])
    check = plan.graph.actions[plan.verdicts[test.id]]
    (made,) = (ref for ref in check.inputs.values() if isinstance(ref, Produced))
    ends = {test.id: made.action}
    needed = {name: plan.graph.actions[name] for name in plan.graph.needed_by(made.action)}
    first = run(fresh, PlannedTests(tests=(test,), graph=Graph(needed), verdicts=ends))
    Path(ActionCache(fresh.home.actions).blob_path(first.done[made.action].result.outputs[made.output])).write_text("x")
    heard: list[Event] = []
    second = run(fresh, PlannedTests(tests=(test,), graph=plan.graph, verdicts=ends), heard.append)
    assert made.action in second.executed_actions
    assert [result.outcome for result in second.results] == ["pass"]
    assert len([event for event in heard if isinstance(event, TestDone)]) == 1


def test_a_listener_that_reads_a_lost_output_hears_of_the_test_again(fresh: Session) -> None:
    """So does a bisection by IR. The output is of another action than the one that ends the test."""
    plan = planned(fresh).only(planned(fresh).tests[:1])
    (test,) = plan.tests
    check = plan.graph.actions[plan.verdicts[test.id]]
    (made,) = (ref for ref in check.inputs.values() if isinstance(ref, Produced))
    digest = run(fresh, plan).done[made.action].result.outputs[made.output]
    Path(ActionCache(fresh.home.actions).blob_path(digest)).write_text("x")
    read = ActionCache(fresh.home.actions).read_blob
    heard: list[bytes] = []

    def listen(event: Event) -> None:
        if isinstance(event, TestDone):
            heard.append(read(digest))

    second = run(fresh, plan, listen)
    assert second.executed_actions == [made.action]
    assert [(result.id, result.outcome) for result in second.results] == [(test.id, "pass")]
    assert heard == [read(digest)]


def test_the_listener_hears_of_all(fresh: Session) -> None:
    plan = planned(fresh)
    events: list[Event] = []
    made = run(fresh, plan, events.append)
    results = [event.result for event in events if isinstance(event, TestDone)]
    assert len(results) == len(plan.verdicts)
    assert sorted(result.id for result in results) == sorted(result.id for result in made.results)
    started = [event.action.id for event in events if isinstance(event, ActionStarted)]
    done = [event.action.id for event in events if isinstance(event, ActionDone)]
    assert started
    assert set(started) <= set(done)
    assert any(isinstance(event, Tick) for event in events)


def test_the_first_surprise_ends_a_run_that_is_to_fail_fast(fresh: Session) -> None:
    plan = planned(fresh)
    # Every test now is a surprise: what passes was expected to fail.
    rule = next(test.expectation for test in choose(fresh.catalog, ("smoke",)).tests() if test.expectation)
    surprised = PlannedTests(
        tests=tuple(expecting(test, rule) for test in plan.tests), graph=plan.graph, verdicts=plan.verdicts
    )
    ended = run(fresh, surprised, fail_fast=True)
    assert [result.id for result in ended.results] == [test.id for test in plan.tests]
    (first, *_) = [result for result in ended.results if not result.expected]
    left_out = [result for result in ended.results if result.outcome == "skipped"]
    assert left_out
    assert {result.reason for result in left_out} == {f"--fail-fast ended the run at {first.id}"}
    everything = run(fresh, surprised)
    assert len(everything.results) == len(plan.tests)
    assert not any(result.expected for result in everything.results)


def expecting(test: Test, rule: Any) -> Test:
    return replace(test, expectation=rule)


def test_an_interruption_keeps_what_was_finished(fresh: Session) -> None:
    plan = planned(fresh)

    def interrupt(event: Event) -> None:
        if isinstance(event, TestDone):
            raise KeyboardInterrupt

    stopped = run(fresh, plan, interrupt)
    assert stopped.interrupted
    assert stopped.executed_actions
    assert [result.id for result in stopped.results] == [test.id for test in plan.tests]
    assert {(result.outcome, result.reason) for result in stopped.results if result.outcome != "pass"} == {
        ("skipped", "the run was interrupted")
    }
    rest = run(fresh, plan)
    assert set(stopped.executed_actions).isdisjoint(rest.executed_actions)
    assert {result.outcome for result in rest.results} == {"pass"}


@pytest.mark.parametrize("when", ["made", "bringing"])
def test_an_interruption_before_and_after_the_run_gives_results(
    fresh: Session, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Looking for Bazel and fetching it takes minutes, and so does having it bring what failed."""

    def interrupt(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    plan = planned(fresh)
    monkeypatch.setattr("mlir_matrix.bazel.locate.locate", interrupt)
    monkeypatch.setattr(Scheduler, "download_outputs", interrupt)
    options = ExecutorOptions(executor="bazel" if when == "made" else "local")
    stopped = run_plan(fresh, plan, options=options, limits=LIMITS, fail_fast=False)
    assert stopped.interrupted
    assert len(stopped.results) == len(plan.tests)
    assert {result.outcome for result in stopped.results} == {"skipped" if when == "made" else "pass"}


def test_what_cannot_run_is_among_the_results(fresh: Session) -> None:
    tests = [test for test in choose(fresh.catalog, ("smoke",)).tests() if test.outcome == "unsupported"][:3]
    made = run(fresh, plan_tests(fresh, tests))
    assert [(result.id, result.outcome, result.reason) for result in made.results] == [
        (test.id, "unsupported", test.reason) for test in tests
    ]
    assert made.executed == 0
    assert not (fresh.home.actions).exists()


def test_a_graph_without_tests(fresh: Session) -> None:
    graph = Graph()
    action = next(iter(add_inputs(graph, fresh.catalog.workloads["mlp"]).values())).action
    (done,) = run_graph(fresh, graph, limits=LIMITS).values()
    assert done.result.ok
    assert done.result.outputs.keys() == graph.actions[action].outputs.keys()
    assert run_graph(fresh, graph, limits=LIMITS)[action].cached


def test_a_failure_is_reported_when_it_is_known(fresh: Session) -> None:
    """A test whose step fails has its result before its inputs are made."""
    graph = Graph()
    wrong = graph.add(
        "wrong", tool="passes", stage="lower", environment="mlir", params={"passes": "no-such-pass"},
        inputs={"ir": File(0, "matrix/workloads/mlp/linalg.mlir")}, outputs={"ir": "ir.mlir"},
    )  # fmt: skip
    inputs: dict[str, Input] = {"ir": Produced(wrong, "ir"), **add_inputs(graph, fresh.catalog.workloads["mlp"])}
    last = graph.add(
        "last", tool="passes", stage="lower", environment="mlir", params={}, inputs=inputs, outputs={"ir": "ir.mlir"}
    )
    ended: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, ActionDone):
            ended.append(event.action.id)

    done = run_graph(fresh, graph, limits=Limits(jobs=1), listener=note)
    assert ended[:2] == [wrong, last]
    assert sorted(ended) == sorted(graph.actions)
    assert done[last].result.outcome == done[wrong].result.outcome
    assert not done[last].result.ok


def test_what_another_run_holds_too_long_is_executed_all_the_same(
    fresh: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the action's own limit: the other run may have been stopped. Until then it waits, and says so."""

    events: list[Event] = []
    graph = Graph()
    action = next(iter(add_inputs(graph, fresh.catalog.workloads["mlp"]).values())).action
    fresh.home.actions.mkdir(parents=True)
    monkeypatch.setattr("mlir_matrix.execute.scheduler.time_limit", lambda job, limits: 0.3)
    with (fresh.home.actions / "locks").open("w+") as file:
        # All keys there are.
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        done = run_graph(fresh, graph, limits=LIMITS, listener=events.append)[action]
    assert (done.result.ok, done.executed) == (True, True)
    assert max(event.waiting for event in events if isinstance(event, Tick)) == 1
