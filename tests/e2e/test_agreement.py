"""The same tests by every executor: the same outcomes, and the same bytes at every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from downstream import Downstream
from hostile import INNOCENT_MLIR, MLIR

import daemon
from mlir_matrix.execute.job import Limits
from mlir_matrix.home import Home
from mlir_matrix.report.progress import Silent
from mlir_matrix.runner import LOCAL, Means, run_plan
from mlir_matrix.select import choose
from mlir_matrix.session import open_session

CHOSEN = ("smoke", "mlir/linalg-loops/x86_64/*", "mlir/linalg-vectorized/x86_64/{m,a,b,s,t}*", "mlir/*/ir/*")
#: Programs that fail in ways of their own.
BROKEN = ("m_divides", "m_out_of_bounds", "m_wrong", "m_asserts")
LIMITS = Limits(jobs=2, timeout_s=60)


@dataclass(frozen=True)
class Came:
    """What a run came to: of each test the outcome, of each action the word and the digests of what it made."""

    tests: Mapping[str, tuple[str, str, str]]
    actions: Mapping[str, tuple[str, Mapping[str, str]]]
    executed: int


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog of programs that fail, and one that does not."""
    catalog = Downstream(tmp_path_factory.mktemp("broken"))
    for name in BROKEN:
        catalog.workload(name, linalg=MLIR[name][0])
    catalog.workload("m_good", linalg=INNOCENT_MLIR)
    return catalog.root


def run(home: Home, broken: Path, means: Means) -> Came:
    """Run the tests with an action cache of their own."""
    current = replace(open_session(catalogs=[broken]), home=home)
    names = [f"mlir/linalg-loops/x86_64/{name}" for name in (*BROKEN, "m_good")]
    chosen = [test for words in (CHOSEN, names) for test in choose(current.catalog, words, pins=current.pins).tests()]
    plan = current.plan({test.id: test for test in chosen}.values())
    done = run_plan(current, plan, means=means, limits=LIMITS, fail_fast=False, progress=Silent)
    assert done.interruption is None
    return Came(
        tests={result.id: (result.outcome, result.stage, result.reason) for result in done.results},
        actions={name: (each.result.outcome["outcome"], dict(each.result.outputs)) for name, each in done.done.items()},
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
