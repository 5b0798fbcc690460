"""Install whole environments, with events in the caller's thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install import installer
from mlir_matrix.environments.install.installer import install_all
from mlir_matrix.environments.install.workshop import Workshop
from mlir_matrix.environments.interpreter import Interpreter, own
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.events import Event, PackageProgress, Tick


@dataclass(frozen=True, kw_only=True)
class Made(WheelPackage):
    """A unit that is made by making its folder, or cannot be."""

    trouble: str = ""


def make(package: Made, interpreter: Interpreter, workshop: Workshop) -> None:
    if package.trouble:
        raise InfrastructureError(package.trouble)
    (workshop.packages / package.folder_for(interpreter.tag)).mkdir()


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(installer._INSTALL, Made, make)  # type: ignore[arg-type]


def environment(*units: WheelPackage) -> ResolvedEnvironment:
    return ResolvedEnvironment(name="e", interpreter=own(), packages=units)


def made(name: str, trouble: str = "") -> Made:
    return Made(name=name, version="1.0", hashes=("0" * 64,), size=1, trouble=trouble)


def test_what_is_missing_is_made_and_what_went_wrong_comes_back(tmp_path: Path) -> None:
    packages, events, ticks = tmp_path / "packages", list[PackageProgress](), list[Tick]()

    def listen(event: Event) -> None:
        assert threading.current_thread() is threading.main_thread()
        if isinstance(event, PackageProgress):
            events.append(event)
        else:
            assert isinstance(event, Tick)
            ticks.append(event)

    wanted = [environment(made("good")), environment(made("good"), made("bad", "the disk is full"))]
    artifacts = Artifacts(tmp_path / "artifacts")
    assert install_all(wanted, packages, artifacts, listen) == {"bad 1.0": "the disk is full"}
    assert [event.package for event in events if event.done] == ["good 1.0"]
    assert ticks
    assert not wanted[0].missing(packages)
    assert install_all(wanted[:1], packages, artifacts, pytest.fail) == {}


def test_a_listener_that_raises_ends_it(tmp_path: Path) -> None:
    """As Ctrl-C does."""

    def listen(_event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install_all([environment(made("good"))], tmp_path, Artifacts(tmp_path / "artifacts"), listen)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("install")]
