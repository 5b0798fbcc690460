"""Probe Bazels: old, broken and hanging ones; keep the results until the program changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.paths import Home
from mlir_matrix.bazel import locate as module
from mlir_matrix.bazel.locate import Bazel, ProgramProbe, locate, probe
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.checks.validate import validate
from support import debs, rolling
from support.fake_bazel import BUILDS, Fakes


def test_one_that_builds(fakes: Fakes) -> None:
    """Tried once; another program of the same name is another one."""
    path = fakes.add()
    for _ in range(2):
        assert probe(path, fakes.state) == ProgramProbe(version="7.7.1")
    assert fakes.calls == ["--version", "//:probe"]
    fakes.add(version="echo bazel 8.0.0-pre.2")
    assert probe(path, fakes.state) == ProgramProbe(version="8.0.0-pre.2")


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("echo bazel 4.2.3- '(@non-git)'", "is 4.2.3-: 7 or newer is needed"),
        ("echo bazel no_version", "reports no version; its output: «bazel no_version»"),
        ("echo oops >&2; exit 3", "reports no version; its output: «oops»"),
        ("exit 3", "reports no version; its output: nothing"),
    ],
)
def test_versions(fakes: Fakes, version: str, reason: str) -> None:
    assert probe(fakes.add(version=version), fakes.state).reason == reason
    assert fakes.calls == ["--version"]


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (
            "echo Loading; echo 'ERROR: no module zlib' >&2; echo 'ERROR: and'; exit 1",
            "a test build fails: «ERROR: no module zlib»",
        ),
        ("exit 0", "a test build has no output"),
    ],
)
def test_builds(fakes: Fakes, then: str, reason: str) -> None:
    assert probe(fakes.add(then=then), fakes.state).reason == f"is 7.7.1, but {reason}"


def test_one_that_hangs(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is ended with what it started."""
    monkeypatch.setattr(module, "_BUILD_S", 0.3)
    monkeypatch.setattr(module, "_VERSION_S", 0.3)
    begin = time.monotonic()
    slow = fakes.add(then="sleep 600 & wait")
    assert probe(slow, fakes.state).reason == "is 7.7.1, but a test build takes more than 0 seconds"
    silent = fakes.add("silent", version="sleep 600")
    assert probe(silent, fakes.state).reason == "does not report its version within 0 seconds"
    assert time.monotonic() - begin < 60


def test_what_may_pass_is_asked_again(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another day; a version will not have changed."""
    broken, old = fakes.add(then="exit 1"), fakes.add("old", version="echo bazel 6.5.0")
    for _ in range(2):
        probe(broken, fakes.state)
        probe(old, fakes.state)
    assert fakes.calls == ["--version", "//:probe", "--version"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_400)
    probe(broken, fakes.state)
    probe(old, fakes.state)
    assert fakes.calls[3:] == ["--version", "//:probe"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"day": 1}', '{"day": 1, "known": {"a": {"x": 1}}}', '{"known": []}'])
def test_what_is_remembered_is_data(fakes: Fakes, text: str) -> None:
    fakes.state.mkdir()
    (fakes.state / "bazel-probes.json").write_text(text)
    assert probe(fakes.add(), fakes.state) == ProgramProbe(version="7.7.1")


def test_what_cannot_be_remembered(fakes: Fakes) -> None:
    fakes.state.write_text("no folder")
    assert probe(fakes.add(then=BUILDS), fakes.state) == ProgramProbe(version="7.7.1")


def test_no_program(fakes: Fakes) -> None:
    assert probe(fakes.folder / "none", fakes.state).reason == "cannot be run: No such file or directory"
    (fakes.folder / "bad").write_text("#!/none\n")
    (fakes.folder / "bad").chmod(0o755)
    assert "No such file" in probe(fakes.folder / "bad", fakes.state).reason


#: The component of a small catalog stands in for Bazel: a script, from a mirror in a folder.
Open = Callable[..., Session]


@pytest.fixture
def opened(tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> Open:
    def make(component: str = "tool") -> Session:
        monkeypatch.setattr("mlir_matrix.bazel.locate.COMPONENT", component)
        mirror = debs.Mirror(tmp_path / "www")
        rolling.write(tmp_path / "catalog", rolling.files("1.0"), mirror)
        monkeypatch.setenv("MATRIX_DEB_MIRROR", mirror.base)
        catalog = validate(load([tmp_path / "catalog"]))
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
    """Install the component if needed, also if it is damaged."""
    broken = fakes.add(then="exit 7")
    session, events = opened(), list[Any]()
    found = locate(session, fetch=False)
    (folder,) = {Path(found.command[0]).parents[2]}
    assert (found.version, found.where, found.here, folder.exists()) == ("1.0", "component", False, False)
    assert found.rejected == (f"{broken} is 7.7.1, but a test build fails: nothing", "no bazelisk is on PATH")
    there = locate(session, listener=events.append)
    assert there.here
    assert there.command == found.command
    assert [event for event in events if isinstance(event, PackageProgress)][-1].done
    (folder / "opt/t/bin/mlir-opt").unlink()
    assert locate(session).here
    assert damaged_files(folder, thorough=True) == []


def test_none(opened: Open) -> None:
    with pytest.raises(InfrastructureError) as raised:
        locate(opened("none"))
    assert str(raised.value) == (
        "no usable Bazel: no bazel is on PATH; no bazelisk is on PATH; the component none: no catalog has a component "
        "none; set MATRIX_BAZEL to the path of Bazel 7 or newer"
    )
