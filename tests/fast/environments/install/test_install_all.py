"""Install whole environments, with events in the caller's thread."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlir_matrix.base.errors import DiskFullError, InfrastructureError
from mlir_matrix.base.events import Event, Note, PackageProgress, Tick
from mlir_matrix.environments import installer
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.workshop import Workshop
from mlir_matrix.environments.installer import install_all
from mlir_matrix.environments.interpreter import Interpreter, own
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment

FULL = "bad 1.0 cannot be installed: the disk is full"


@dataclass(frozen=True, kw_only=True)
class Made(WheelPackage):
    """A unit that is made by making its folder, or cannot be."""

    trouble: str = ""


def make(package: Made, interpreter: Interpreter, workshop: Workshop) -> None:
    if package.trouble == FULL:
        raise DiskFullError(package.trouble)
    if package.trouble:
        raise InfrastructureError(package.trouble)
    (workshop.packages / package.folder_for(interpreter.tag)).mkdir()


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(installer._INSTALL, Made, make)  # type: ignore[arg-type]


def environment(*units: WheelPackage) -> ResolvedEnvironment:
    return ResolvedEnvironment(name="e", interpreter=own(), packages=units)


def made(name: str, trouble: str = "", installed: int = 0) -> Made:
    return Made(name=name, version="1.0", hashes=("0" * 64,), size=1, installed=installed, trouble=trouble)


def test_what_is_missing_is_made_and_what_went_wrong_comes_back(tmp_path: Path) -> None:
    packages, events, ticks = tmp_path / "packages", list[PackageProgress](), list[Tick]()

    def listen(event: Event) -> None:
        assert threading.current_thread() is threading.main_thread()
        if isinstance(event, PackageProgress):
            events.append(event)
        else:
            assert isinstance(event, Tick)
            ticks.append(event)

    wanted = [environment(made("good")), environment(made("good"), made("bad", "it is damaged"))]
    artifacts = Artifacts(tmp_path / "artifacts")
    assert install_all(wanted, packages, artifacts, listen) == {"bad 1.0": "it is damaged"}
    assert [event.package for event in events if event.done] == ["good 1.0"]
    assert ticks
    assert not wanted[0].missing(packages)
    assert install_all(wanted[:1], packages, artifacts, pytest.fail) == {}


def test_a_disk_that_is_too_small(tmp_path: Path) -> None:
    """A note comes first; a full disk then ends the installation. Shared packages count once."""
    notes = list[str]()

    def listen(event: Event) -> None:
        if isinstance(event, Note):
            notes.append(event.text)

    bad = made("bad", FULL, installed=10**20)
    need = rf"missing packages take 100000000000000 MB, and the disk of {tmp_path} has \d+ MB free"
    wanted = [environment(bad), environment(bad, made("good"))]
    with pytest.raises(DiskFullError) as caught:
        install_all(wanted, tmp_path, Artifacts(tmp_path / "artifacts"), listen)
    assert len(notes) == 1
    assert re.fullmatch(need, notes[0])
    advice = "make room, or set MATRIX_HOME to a folder of another disk; then run the same command again"
    assert re.fullmatch(rf"{FULL}; {need}; {advice}", str(caught.value)), caught.value


def test_a_listener_that_raises_ends_it(tmp_path: Path) -> None:
    """As Ctrl-C does."""

    def listen(_event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install_all([environment(made("good"))], tmp_path, Artifacts(tmp_path / "artifacts"), listen)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("install")]
