"""Which Bazel is used: the named one, the machine's, the component, and why not the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import debs
import pytest
import rolling
from fakes import Fakes

from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.install.integrity import damaged_files
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.execute.bazel.locate import Bazel, locate
from mlir_matrix.paths import Home
from mlir_matrix.session import Session

#: The component of a small catalog stands in for Bazel: a script, from a mirror in a folder.
Open = Callable[..., Session]


@pytest.fixture
def opened(tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> Open:
    def make(component: str = "tool") -> Session:
        monkeypatch.setattr("mlir_matrix.execute.bazel.locate.COMPONENT", component)
        mirror = debs.Mirror(tmp_path / "www")
        rolling.write(tmp_path / "catalog", rolling.files("1.0"), mirror)
        monkeypatch.setenv("MATRIX_DEB_MIRROR", mirror.base)
        catalog = load([tmp_path / "catalog"])
        home = Home(cache=tmp_path / "home", state=fakes.state, actions=tmp_path / "home" / "actions")
        return Session(catalog=catalog, home=home, pins=Pins(catalog))

    return make


def test_the_machines(opened: Open, fakes: Fakes) -> None:
    path = fakes.add()
    assert locate(opened()) == Bazel(command=(str(path),), version="7.7.1", where="PATH")


def test_bazelisk(opened: Open, fakes: Fakes) -> None:
    """Where bazel itself will not do."""
    old, path = fakes.add(version="echo bazel 6.0.0"), fakes.add("bazelisk")
    found = locate(opened())
    assert (found.command, found.rejected) == ((str(path),), (f"{old} is 6.0.0: 7 or newer is needed",))


def test_the_named_one(opened: Open, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not tried, and not exchanged for another one."""
    fakes.add()
    path = fakes.add("mine", version="echo bazel 9.1.0", then="exit 1")
    monkeypatch.setenv("MATRIX_BAZEL", str(path))
    assert locate(opened()) == Bazel(command=(str(path),), version="9.1.0", where="MATRIX_BAZEL")
    monkeypatch.setenv("MATRIX_BAZEL", "nothing")
    with pytest.raises(UsageError, match="MATRIX_BAZEL: there is no program nothing"):
        locate(opened())
    fakes.add("mine", version="echo bazel 5.1.0")
    monkeypatch.setenv("MATRIX_BAZEL", "mine")
    with pytest.raises(UsageError, match=r"MATRIX_BAZEL: .*mine is 5\.1\.0: 7 or newer is needed"):
        locate(opened())


def test_the_component(opened: Open, fakes: Fakes) -> None:
    """Fetched when it comes to that, and made again where it is damaged."""
    broken = fakes.add(then="exit 7")
    session, events = opened(), list[Any]()
    found = locate(session, fetch=False)
    (folder,) = {Path(found.command[0]).parents[2]}
    assert (found.version, found.where, found.here, folder.exists()) == ("1.0", "component", False, False)
    assert found.rejected == (f"{broken} is 7.7.1, but a first build fails: nothing", "no bazelisk is on PATH")
    there = locate(session, listener=events.append)
    assert there.here
    assert there.command == found.command
    assert events[-1].done
    (folder / "opt/t/bin/mlir-opt").unlink()
    assert locate(session).here
    assert damaged_files(folder, thorough=True) == []


def test_none(opened: Open) -> None:
    with pytest.raises(InfrastructureError) as raised:
        locate(opened("none"))
    assert str(raised.value) == (
        "there is no Bazel to use: no bazel is on PATH; no bazelisk is on PATH; the component none: no catalog has a component "
        "none. Set MATRIX_BAZEL to the path of one that is 7 or newer"
    )
