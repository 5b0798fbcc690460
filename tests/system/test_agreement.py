"""The same tests by every executor: the same outcomes, and the same bytes at every step."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.events import Event, Note
from mlir_matrix.base.paths import Home
from mlir_matrix.bazel import client
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.graph import ActionId
from mlir_matrix.plan.request import ExecutorOptions, Limits
from mlir_matrix.plan.session import plan_tests
from mlir_matrix.results.run_plan import run_plan
from support.agreement import Came, check_agreement, run
from support.contained import left
from support.daemon import Daemon
from support.remote_cluster import RemoteCluster, unsupported
from support.remote_cluster import cluster as start_cluster
from support.workspace import Workspace, end_bazel

#: After so many actions the worker of most actions vanishes for so many seconds.
KILL_AFTER, GONE_S = 20, 3
POOLS = (("pool", "one"), ("zig:pool", "two"))


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory, workspace: Any) -> Any:
    """Homes that share all but the action cache."""
    folder = tmp_path_factory.mktemp("homes")
    return lambda name: Home(cache=workspace.home, state=folder / "state", actions=folder / name)


def test_there_is_enough_to_agree_on(local: Came) -> None:
    assert {"pass", "mismatch", "crashed"} <= {outcome for outcome, _, _ in local.tests.values()}
    labels = {ActionId.parse(name).label.partition("/")[0] for name in local.actions}
    assert {"import", "loops-to-llvm", "object", "link", "run", "judge", "filecheck", "forward-error"} <= labels
    # Steps by one tool and by another, and in an environment of their own.
    assert {"vector-lowering", "linalg-named-canonical", "linalg-to-openmp"} <= labels


def test_docker_agrees(
    local: Came, own: Workspace, broken: Path, monkeypatch: pytest.MonkeyPatch, daemon: Daemon
) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemon.host)
    found = run(own.folders, broken, ExecutorOptions(executor="docker"))
    check_agreement(found, local)
    assert found.actions.keys() == local.actions.keys()
    assert left(daemon) == []


def test_bazel_agrees(local: Came, homes: Any, broken: Path) -> None:
    found = run(homes("bazel"), broken, ExecutorOptions(executor="bazel"))
    check_agreement(found, local)
    assert found.actions.keys() == local.actions.keys()


@dataclass(frozen=True)
class Sent:
    """What was executed elsewhere: for a first client, while a worker vanished and came again, and for a second one."""

    first: Came
    second: Came
    #: Actions that a worker ended, by pool: for the first client, then for both.
    given: Sequence[Mapping[str, int]]
    #: Those that it had ended when it vanished.
    killed_after: int
    #: The second client's, with its Bazel.
    home: Home


@pytest.fixture(scope="module")
def cluster(current: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteCluster]:
    """Remote execution that sees nothing of this machine."""
    if reason := unsupported():
        pytest.skip(reason)
    with start_cluster(current, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def client_homes(homes: Any) -> Iterator[Any]:
    """Make homes of clients that have a Bazel of their own each, which knows nothing."""
    made = []

    def make(name: str) -> Home:
        home = homes(name)
        cache = home.actions.parent / f"client-{name}"
        cache.mkdir()
        for folder in ("packages", "artifacts", "bytecode", "tool"):
            (home.cache / folder).mkdir(exist_ok=True)
            (cache / folder).symlink_to(os.path.realpath(home.cache / folder))
        made.append(cache)
        return replace(home, cache=cache)

    yield make
    for cache in made:
        end_bazel(cache / "bazel")


@pytest.fixture(scope="module")
def sent(cluster: RemoteCluster, client_homes: Any, broken: Path) -> Sent:
    options = ExecutorOptions(executor="bazel", remote=cluster.url, properties=POOLS)

    def given() -> dict[str, int]:
        return {pool: worker.log.read_text().count("Runner exited") for pool, worker in cluster.workers.items()}

    killed_after = []

    def vanish() -> None:
        while not over.wait(0.05):
            if given()["one"] >= KILL_AFTER:
                cluster.workers["one"].kill()
                killed_after.append(given()["one"])
                over.wait(GONE_S)
                cluster.workers["one"].start()
                # What a thread starts ends with it.
                over.wait()

    over = threading.Event()
    thread = threading.Thread(target=vanish)
    thread.start()
    one, two = client_homes("first"), client_homes("second")
    try:
        first = run(one, broken, options)
        ended = given()
        end_bazel(one.cache / "bazel")
        second = run(two, broken, options)
        return Sent(first, second, given=[ended, given()], killed_after=killed_after[0], home=two)
    finally:
        over.set()
        thread.join()


def test_remote_execution_agrees(local: Came, sent: Sent) -> None:
    """Though a worker was killed in the middle."""
    check_agreement(sent.first, local)


def test_pools_route(sent: Sent) -> None:
    """What links goes to one pool, all else to the other, where some is done twice: the killed worker had begun it."""
    wanted = Counter("two" if name == "zig" else "one" for name in sent.first.environments.values())
    given = sent.given[0]
    linked = {
        ActionId.parse(name).label.partition("/")[0] for name, env in sent.first.environments.items() if env == "zig"
    }
    assert linked == {"runtime", "driver", "link"}
    # The C library is the client's.
    assert given["two"] == wanted["two"] - 1
    assert wanted["one"] <= given["one"] <= wanted["one"] + 2
    assert KILL_AFTER <= sent.killed_after < wanted["one"]


def test_a_second_client_executes_nothing(sent: Sent) -> None:
    assert sent.second.executed == 0 < sent.first.executed
    assert sent.second.tests == sent.first.tests
    assert sent.second.actions == sent.first.actions
    assert sent.given[1] == sent.given[0]


def test_a_pool_without_a_worker(
    cluster: RemoteCluster, sent: Sent, current: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BuildGrid would wait for one for ever, and report nothing."""
    monkeypatch.setattr(client, "STALL_NOTE_S", 3.0)
    monkeypatch.setattr(client, "STALL_END_S", 10.0)
    events: list[Event] = []
    session = replace(current, home=replace(sent.home, actions=tmp_path / "actions"))
    test = "mlir/math-expand/ir/tanh"
    plan = plan_tests(session, choose(session.catalog, [test]).tests())
    options = ExecutorOptions(executor="bazel", remote=cluster.url, properties=(("pool", "three"),))
    done = run_plan(session, plan, options=options, limits=Limits(jobs=2), fail_fast=False, listener=events.append)
    (result,) = done.results
    assert (result.id, result.outcome) == (test, "infra-error")
    assert f"no action came back from {cluster.url} for 10 s" in result.reason
    assert "(--exec-property pool=three)" in result.reason
    notes = [event.text for event in events if isinstance(event, Note)]
    assert f"no action came back from {cluster.url} for 3 s" in notes[0]
