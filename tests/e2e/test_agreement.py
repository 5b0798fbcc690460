"""The same tests by every executor: the same outcomes, and the same bytes at every step."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from downstream import Downstream
from hostile import INNOCENT_MLIR, MLIR
from house import bazel_servers

import daemon
import farm
from mlir_matrix.execute.options import LOCAL, Limits, Means
from mlir_matrix.expand.select import choose
from mlir_matrix.judge.run import run_plan
from mlir_matrix.paths import Home
from mlir_matrix.report.progress import Silent
from mlir_matrix.session import open_session

pytestmark = pytest.mark.slow
CHOSEN = ("smoke", "mlir/linalg-loops/x86_64/*", "mlir/linalg-vectorized/x86_64/{m,a,b,s,t}*", "mlir/*/ir/*")
#: What is executed elsewhere: there each action is a process of its own, with all its files.
SENT = ("smoke", "mlir/linalg-loops/x86_64/{a,b,c,d,m}*", "mlir/*/ir/*")
#: After so many actions the worker of most actions vanishes for so many seconds.
KILL_AFTER, GONE_S = 20, 3
POOLS = (("pool", "one"), ("zig:pool", "two"))
#: Programs that fail in ways of their own.
BROKEN = ("m_divides", "m_out_of_bounds", "m_wrong", "m_asserts")
LIMITS = Limits(jobs=2, timeout_s=60)


@dataclass(frozen=True)
class Came:
    """What a run came to: of each test the outcome, of each action the word and the digests of what it made."""

    tests: Mapping[str, tuple[str, str, str]]
    actions: Mapping[str, tuple[str, Mapping[str, str]]]
    #: Of each action, the environment.
    environments: Mapping[str, str]
    executed: int


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog of programs that fail, and one that does not."""
    catalog = Downstream(tmp_path_factory.mktemp("broken"))
    for name in BROKEN:
        catalog.workload(name, linalg=MLIR[name][0])
    catalog.workload("m_good", linalg=INNOCENT_MLIR)
    return catalog.root


def run(home: Home, broken: Path, means: Means, words: Sequence[str] = CHOSEN) -> Came:
    """Run the tests with an action cache of their own."""
    current = replace(open_session(catalogs=[broken]), home=home)
    names = [f"mlir/linalg-loops/x86_64/{name}" for name in (*BROKEN, "m_good")]
    chosen = [test for each in (words, names) for test in choose(current.catalog, each, pins=current.pins).tests()]
    plan = current.plan({test.id: test for test in chosen}.values())
    done = run_plan(current, plan, means=means, limits=LIMITS, fail_fast=False, progress=Silent)
    assert done.interruption is None
    return Came(
        tests={result.id: (result.outcome, result.stage, result.reason) for result in done.results},
        actions={name: (each.result.outcome["outcome"], dict(each.result.outputs)) for name, each in done.done.items()},
        environments={name: plan.graph.actions[name].environment for name in done.done},
        executed=done.executed,
    )


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory, house: Any) -> Any:
    """Homes that share all but the action cache."""
    folder = tmp_path_factory.mktemp("homes")
    return lambda name: Home(cache=house.home, state=folder / "state", actions=folder / name)


@pytest.fixture(scope="module")
def local(homes: Any, broken: Path) -> Came:
    """What the local executor says."""
    return run(homes("local"), broken, LOCAL)


@pytest.fixture(params=["docker", "bazel"])
def means(request: pytest.FixtureRequest, tmp_path: Path, current: Any) -> Iterator[Means]:
    """An executor other than the local one, ready for use."""
    with ExitStack() as stack:
        if request.param == "docker":
            if reason := daemon.unsupported():
                pytest.skip(reason)
            started = stack.enter_context(daemon.dockerd(current, tmp_path / "docker"))
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv("DOCKER_HOST", started.host)
            yield Means(executor="docker")
        else:
            yield Means(executor="bazel")


def test_there_is_enough_to_agree_on(local: Came) -> None:
    ran = [test for test, (outcome, _, _) in local.tests.items() if outcome not in ("unsupported", "skipped")]
    assert len(ran) >= 30
    assert {"pass", "mismatch", "crashed"} <= {outcome for outcome, _, _ in local.tests.values()}
    assert local.executed > 100


def test_executors_agree(local: Came, means: Means, homes: Any, broken: Path) -> None:
    found = run(homes(means.executor), broken, means)
    assert found.tests == local.tests
    assert found.actions == local.actions


@dataclass(frozen=True)
class Sent:
    """What was executed elsewhere: for a first client, while a worker vanished and came again, and for a second one."""

    first: Came
    second: Came
    #: Actions that a worker ended, by pool: for the first client, then for both.
    given: Sequence[Mapping[str, int]]
    #: Those that it had ended when it vanished.
    killed_after: int


@pytest.fixture(scope="module")
def sent(current: Any, homes: Any, broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Sent:
    if reason := farm.unsupported():
        pytest.skip(reason)
    with farm.farm(current, tmp_path_factory.mktemp("farm")) as running:
        means = Means(executor="bazel", remote=running.url, properties=POOLS)

        def given() -> dict[str, int]:
            return {pool: worker.log.read_text().count("Runner exited") for pool, worker in running.workers.items()}

        def client(name: str) -> Came:
            home = homes(name)
            # A client of its own has a Bazel of its own, which knows nothing.
            cache = home.actions.parent / f"client-{name}"
            cache.mkdir()
            for folder in ("packages", "artifacts", "bytecode", "tool"):
                (cache / folder).symlink_to(os.path.realpath(home.cache / folder))
            try:
                return run(replace(home, cache=cache), broken, means, SENT)
            finally:
                for pid in bazel_servers(cache):
                    os.kill(pid, signal.SIGTERM)

        killed_after = []

        def vanish() -> None:
            while not over.wait(0.05):
                if given()["one"] >= KILL_AFTER:
                    running.workers["one"].kill()
                    killed_after.append(given()["one"])
                    over.wait(GONE_S)
                    running.workers["one"].start()
                    # What a thread starts ends with it.
                    over.wait()

        over = threading.Event()
        thread = threading.Thread(target=vanish)
        thread.start()
        try:
            first = client("first")
            before = given()
            return Sent(first=first, second=client("second"), given=[before, given()], killed_after=killed_after[0])
        finally:
            over.set()
            thread.join()


def test_remote_execution_agrees(local: Came, sent: Sent) -> None:
    """Though a worker was killed in the middle."""
    assert len([test for test, (outcome, _, _) in sent.first.tests.items() if outcome != "unsupported"]) >= 40
    assert sent.first.tests == {name: local.tests[name] for name in sent.first.tests}
    assert sent.first.actions == {name: local.actions[name] for name in sent.first.actions}


def test_pools_route(sent: Sent) -> None:
    """What links goes to one pool, all else to the other, where some is done twice: the killed worker had begun it."""
    wanted = Counter("two" if name == "zig" else "one" for name in sent.first.environments.values())
    given = sent.given[0]
    assert given["two"] == wanted["two"] > 10
    assert wanted["one"] <= given["one"] <= wanted["one"] + 2
    assert KILL_AFTER <= sent.killed_after < wanted["one"]


def test_a_second_client_executes_nothing(sent: Sent) -> None:
    assert sent.second.executed == 0 < sent.first.executed
    assert sent.second.tests == sent.first.tests
    assert sent.second.actions == sent.first.actions
    assert sent.given[1] == sent.given[0]
