"""Examine a machine: its programs, what tests lack, and releases that will vanish."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.wheels import lock_file, write_lock
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.toolchain import doctor
from support import debs, rolling, wheelhouse


def opened(tmp_path: Path, **texts: str) -> Session:
    """The small catalog, some files of its toolchains replaced or added: ``components_tool="…"``."""
    root = tmp_path / "catalog"
    more = {f"toolchains/{name.replace('_', '/')}.yaml": text for name, text in texts.items()}
    rolling.write(root, {**rolling.files("1.0"), **more}, debs.Mirror(tmp_path / "www"))
    catalog = validate(load([root]))
    home = Home(cache=tmp_path / "home", state=tmp_path / "home", actions=tmp_path / "home" / "actions")
    return Session(catalog=catalog, home=home, pins=Pins(catalog))


def resolved(session: Session, environment: str) -> ResolvedEnvironment:
    found = session.environment(environment)
    assert isinstance(found, ResolvedEnvironment)
    return found


def install(session: Session, environment: str) -> None:
    found = resolved(session, environment)
    for unit in found.units:
        (session.home.packages / unit.folder_for(found.interpreter.tag)).mkdir(parents=True, exist_ok=True)


def keep(session: Session, environment: str) -> None:
    store = Artifacts(session.home.artifacts)
    store.folder.mkdir(parents=True, exist_ok=True)
    for unit in resolved(session, environment).units:
        for archive in unit.archives:
            # Any of them will do.
            path = store.path(archive.hashes[-1])
            path.touch()
            os.truncate(path, archive.size or 0)


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("printf 'git version 2.39.5\\n'", "2.39.5"),
        ("printf 'Werkzeug \\377\\374 1.2\\n' >&2", "1.2"),
        ("echo nothing", None),
        ("echo 1.2; exit 1", "1.2"),
    ],
)
def test_tools_say_what_they_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, version: str | None
) -> None:
    (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "git").chmod(0o755)
    (tmp_path / "ninja").write_text("#!/nowhere/at/all\n")
    (tmp_path / "ninja").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor.examine(opened(tmp_path))["tools"]
    assert found["git"] == {"path": str(tmp_path / "git"), "version": version, "for": "the provider source"}
    assert (found["ninja"]["path"], found["ninja"]["version"]) == (str(tmp_path / "ninja"), None)
    assert found["cmake"]["path"] is None


def test_the_machine(tmp_path: Path) -> None:
    found = doctor.examine(opened(tmp_path))
    assert json.loads(json.dumps(found)) == found
    assert found["python"] == sys.executable
    assert found["interpreter"]["tag"] == own().tag
    assert found["machine"]["cores"] > 0
    assert found["home"]["bytes"] == {"packages": 0, "artifacts": 0, "actions": 0}


def suite(session: Session) -> Mapping[str, Any]:
    (found,) = [each for each in doctor.examine(session)["suites"] if each["name"] == "smoke"]
    return dict(found)


def test_what_is_missing_for_which_tests(tmp_path: Path) -> None:
    """The step ``keep`` needs less than ``count``; all need what judges."""
    session = opened(tmp_path)
    found = suite(session)
    assert {key: found[key] for key in ("tests", "ready", "to_fetch", "blocked", "environments_to_fetch")} == {
        "tests": 3, "ready": 0, "to_fetch": 3, "blocked": 0, "environments_to_fetch": ["filecheck", "own", "tool"],
    }  # fmt: skip
    assert found["bytes_to_fetch"] > resolved(session, "tool").size
    install(session, "filecheck")
    install(session, "own")
    found = suite(session)
    assert (found["ready"], found["to_fetch"], found["environments_to_fetch"]) == (1, 2, ["tool"])
    install(session, "tool")
    found = suite(session)
    assert (found["ready"], found["to_fetch"], found["bytes_to_fetch"]) == (3, 0, 0)


def test_tests_that_cannot_run(tmp_path: Path) -> None:
    session = opened(tmp_path, components_more=rolling.component("more", "1.0", rolling.UNLOCKED), **known(more="4.0"))
    found = suite(session)
    assert (found["blocked"], found["to_fetch"]) == (2, 1)
    reason = "more@4.0 has no lock file; make one with: matrix toolchain lock more@4.0"
    assert found["reasons"] == [{"reason": reason, "tests": 2}]
    states = {each["name"]: each["state"] for each in doctor.examine(session)["environments"]}
    assert (states["tool"], states["own"]) == ("unavailable", "missing")


def known(**pins: str) -> dict[str, str]:
    text = rolling.KNOWN_GOOD
    for name, release in pins.items():
        text = text.replace(f'{name}: "1.0"', f'{name}: "{release}"', 1)
    return {"known-good": text}


def vanishing(session: Session) -> dict[str, tuple[bool, bool, str]]:
    return {
        f"{pin['component']}@{pin['release']}": (pin["fetched"], pin["installed"], pin["reason"])
        for pin in doctor.examine(session)["vanishing"]
    }


def test_what_vanishes_is_looked_for_by_hash(tmp_path: Path) -> None:
    """An installed package differs from its archives; the size of a wheel is unknown."""
    rolls = rolling.component("tool", "1.0").replace("[sid]", "[sid], durability: rolling")
    wheel = 'description: A wheel.\nreleases:\n  - {release: "1.0", durability: rolling}\n'
    session = opened(
        tmp_path, components_tool=rolls, components_wheel=wheel,
        environments_wheel="description: d\ncomponents: [wheel]\n",
    )  # fmt: skip
    package = wheelhouse.wheel(tmp_path, "wheel")
    locks = session.catalog.roots[0] / "toolchains" / "locks"
    write_lock(lock_file(locks, "wheel", own().tag), [package], made_by="us", pins={"wheel": "1.0"})
    names = ("tool@1.0", "wheel@1.0")
    assert vanishing(session) == dict.fromkeys(names, (False, False, ""))
    install(session, "own")
    install(session, "wheel")
    assert vanishing(session) == dict.fromkeys(names, (False, True, ""))
    keep(session, "own")
    keep(session, "wheel")
    assert vanishing(session) == dict.fromkeys(names, (True, True, ""))
    for folder in session.home.packages.iterdir():
        folder.rmdir()
    assert vanishing(session) == dict.fromkeys(names, (True, False, ""))


def test_what_vanishes_and_cannot_be_had(tmp_path: Path) -> None:
    """Without an environment or a lock file, or with a pin of one environment only, the others are still reported."""
    lonely = 'description: Nobody has it.\nreleases:\n  - {release: "1.0", durability: rolling}\n'
    tool = rolling.component("tool", "1.0", rolling.UNLOCKED).replace(
        '"4.0", suites: [sid]', '"4.0", suites: [sid], durability: rolling'
    )
    text = rolling.KNOWN_GOOD.replace('own: {tool: "1.0"}', 'own: {tool: "4.0"}')
    session = opened(tmp_path, components_lonely=lonely, components_tool=tool, **{"known-good": text})
    assert vanishing(session) == {
        "lonely@1.0": (
            False, False, "no environment has the component lonely; add one to toolchains/environments",
        ),
        "tool@4.0": (False, False, "tool@4.0 has no lock file; make one with: matrix toolchain lock tool@4.0"),
    }  # fmt: skip
    assert [pin["environment"] for pin in doctor.examine(session)["vanishing"]] == ["", "own"]
