"""An environment has an image once its packages are here, the image is made and what it imports is compiled."""

from __future__ import annotations

import os
import queue
import selectors
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers import image_supply as module
from mlir_matrix.containers import privileges
from mlir_matrix.containers.image_supply import ImageSupply
from mlir_matrix.containers.privileges import User
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.worker_pool import PoolContext
from mlir_matrix.execute.worker_process import Preload
from mlir_matrix.plan.request import Limits
from support.artifact_store import fill, made_of
from support.fake_containers import Fake
from support.workspace import wait_until

GOOD, BAD, ODD = made_of("good"), made_of("bad"), made_of("odd")


class Making:
    """What makes images: some cannot be made."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.compiled: list[set[str]] = []
        self.woken: queue.SimpleQueue[int] = queue.SimpleQueue()
        #: Images are made once it is set.
        self.may_begin = threading.Event()
        self.may_begin.set()

    def ensure(self, environments: list[ResolvedEnvironment], *, listener: Any, **_: Any) -> dict[str, str]:
        (environment,) = environments
        assert self.may_begin.wait(120)
        listener(PackageProgress(package=environment.name, phase="building"))
        if environment is BAD:
            raise InfrastructureError("the daemon's disk is full")
        if environment is ODD:
            raise KeyError("odd")
        self.made.append(environment.name)
        return {environment.digest: "1"}

    def precompile(self, _daemon: Any, _environment: Any, _image: Any, preload: Preload, **_: Any) -> None:
        self.compiled.append(preload.tools)


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch) -> Making:
    made = Making()
    monkeypatch.setattr(module.images, "ensure", made.ensure)
    monkeypatch.setattr(module, "precompile", made.precompile)
    return made


@pytest.fixture
def supply(making: Making, home: Home, tmp_path: Path, fake: Callable[..., Any]) -> Iterator[ImageSupply]:
    for environment in (GOOD, BAD, ODD):
        fill(home, environment)
    with selectors.DefaultSelector() as selector:
        context = PoolContext(
            selector=selector,
            wake=lambda: making.woken.put(1),
            preloads={GOOD.digest: Preload({"judge"}, set())},
            home=home,
            scratch=tmp_path,
            store=ActionCache(tmp_path),
            limits=Limits(jobs=1),
        )
        made = ImageSupply(context, fake(), User(inside="0:0"), Containers())
        yield made
        made.close()


def news(supply: ImageSupply, making: Making, environment: ResolvedEnvironment) -> list[PackageProgress]:
    """What is told until an environment has its image or has failed."""
    told: list[PackageProgress] = []
    while not (supply.has(environment) or any(event.error for event in told)):
        making.woken.get(timeout=120)
        told += supply.news()
    return told


def test_an_image_is_made_once_and_warmed_for_its_tools(supply: ImageSupply, making: Making) -> None:
    assert not supply.has(GOOD)
    supply.request([GOOD])
    assert [event.package for event in news(supply, making, GOOD)] == ["good"]
    assert supply.image(GOOD) == "1"
    supply.request([GOOD])
    assert (making.made, making.compiled) == (["good"], [{"judge"}])
    assert not supply.lacks(GOOD, "the image of environment good")


@pytest.mark.parametrize(
    ("environment", "reason"), [(BAD, "the daemon's disk is full"), (ODD, "cannot be built: 'odd'")]
)
def test_one_that_cannot_be_made_is_told_and_the_next_is_made(
    supply: ImageSupply, making: Making, environment: ResolvedEnvironment, reason: str
) -> None:
    supply.request([environment, GOOD])
    (failed,) = [event for event in news(supply, making, environment) if event.error]
    assert reason in failed.error
    assert supply.lacks(environment, failed.package)
    assert not supply.lacks(GOOD, failed.package)
    news(supply, making, GOOD)
    assert supply.has(GOOD)
    assert not supply.has(environment)


@pytest.mark.parametrize("environment", [GOOD, BAD])
def test_idle_only_before_and_after_the_making(
    supply: ImageSupply, making: Making, environment: ResolvedEnvironment
) -> None:
    """A second request while an image is being made makes no second one."""
    assert supply.is_idle()
    making.may_begin.clear()
    supply.request([environment])
    supply.request([environment])
    assert not supply.is_idle()
    making.may_begin.set()
    told = news(supply, making, environment)
    assert wait_until(supply.is_idle)
    assert len([event for event in told if event.error]) == (environment is BAD)
    assert making.made == ["good"] * (environment is GOOD)


def test_without_packages_there_is_no_image(supply: ImageSupply, making: Making) -> None:
    """And what is wanting is the package, by its own name."""
    absent = made_of("absent")
    assert supply.lacks(absent, "absent 1.0")
    assert not supply.lacks(absent, "good 1.0")
    assert making.made == []


NUMPY = made_of("numpy")
Precompile = Callable[..., Fake]


@pytest.fixture
def compiled(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Callable[..., Any]) -> Precompile:
    """Precompiles, and gives the daemon that had to do it."""
    code = tmp_path / "actions"
    code.mkdir()
    (code / "tool.py").touch()
    monkeypatch.setattr(module, "ACTIONS_FOLDER", code)
    monkeypatch.setattr(privileges, "command", lambda _environment, preload, _home: sorted(preload.tools))

    def call(*tools: str, image: str = "one", code: int = 0) -> Fake:
        daemon: Fake = fake(code=code)
        monkeypatch.setattr(module, "start", daemon.start)
        user = User(inside="0:0")
        module.precompile(cast("Any", daemon), NUMPY, image, Preload(set(tools), set()), home=home, user=user)
        return daemon

    return call


def test_once(compiled: Precompile) -> None:
    first = compiled("judge")
    assert first.started == [["judge"]]
    assert first.removed == ["1"]
    assert first.ends[0].recv(1) == b"", "it is told that nobody will ask"
    assert compiled("judge").started == []
    assert compiled().started == []


def test_more_tools(compiled: Precompile) -> None:
    """Those of before need not be named again."""
    compiled("judge")
    assert compiled("run").started == [["run"]]
    assert compiled("judge", "run").started == []


def test_another_image_or_our_own_code(compiled: Precompile, tmp_path: Path) -> None:
    compiled("judge")
    assert compiled("run", image="two").started == [["run"]]
    assert compiled("judge", image="two").started == [["judge"]], "for that image it was never compiled"
    os.utime(tmp_path / "actions" / "tool.py", ns=(0, 10**18))
    assert compiled("judge", image="two").started == [["judge"]]


def test_what_failed_is_tried_again(compiled: Precompile) -> None:
    failed = compiled("judge", code=1)
    assert failed.removed == ["1"]
    assert compiled("judge").started == [["judge"]]


@pytest.mark.parametrize("text", ["", "[]", '{"image": "one"}'])
def test_a_spoilt_note_is_none(compiled: Precompile, home: Home, text: str) -> None:
    stamp = home.bytecode / "containers" / f"{privileges.bytecode_folder(NUMPY, home).name}.json"
    compiled("judge")
    stamp.write_text(text)
    assert compiled("judge").started == [["judge"]]
