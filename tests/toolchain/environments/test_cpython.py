"""Use Debian's CPython in a prefix if the machine has no interpreter that an environment is locked for."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installer import Installer
from mlir_matrix.environments.lockfiles.debian import DebianRelease, read_debian_lock
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, resolve
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.worker_process import worker_command

REPOSITORY = Path(__file__).resolve().parents[3]
LOCKS = REPOSITORY / "toolchains" / "locks"
#: How the names of lock files for machines like this one end.
HERE = f"linux-{os.uname().machine}"


@pytest.fixture
def unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine none of whose interpreters will do."""
    monkeypatch.setattr(interpreters, "find", lambda _tags: None)


@pytest.fixture
def numpy(current: Session, unfit: None) -> ResolvedEnvironment:
    found = current.environment("numpy")
    assert isinstance(found, ResolvedEnvironment), found.reason
    return found


def test_the_lock_that_fits(numpy: ResolvedEnvironment, current: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is part of the environment, and of its digest."""
    lock = numpy.interpreter.prefix
    assert isinstance(lock, DebianRelease)
    assert (lock.component, lock.release) == ("cpython", "3.11.2")
    assert (numpy.interpreter.tag, numpy.interpreter.libc) == ("cp311", "glibc 2.36")
    assert numpy.units[0] == lock
    host = replace(interpreters.own(), version=numpy.interpreter.version)
    monkeypatch.setattr(interpreters, "find", lambda _tags: host)
    own = current.environment("numpy")
    assert isinstance(own, ResolvedEnvironment)
    assert own.interpreter.prefix is None
    assert own.digest != numpy.digest
    other = replace(numpy, interpreter=replace(numpy.interpreter, prefix=replace(lock, programs=())))
    assert other.digest != numpy.digest


def test_the_machines_own_goes_before(current: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    host = replace(interpreters.own(), version="3.11.9")
    monkeypatch.setattr(interpreters, "find", lambda _tags: host)
    found = current.environment("numpy")
    assert isinstance(found, ResolvedEnvironment)
    assert found.interpreter.prefix is None


def test_no_lock_for_the_version(current: Session, unfit: None, tmp_path: Path) -> None:
    assert interpreters.find_locked(("cp312",), [LOCKS]) is None
    assert interpreters.find_locked(("cp311",), [tmp_path, tmp_path / "nothing"]) is None
    assert interpreters.find_locked(("cp312", "cp311"), [LOCKS]) is not None


def test_each_version_has_its_own(current: Session, unfit: None, tmp_path: Path) -> None:
    """An environment that is locked for 3.13 alone gets that, and its kept results need no program on PATH."""
    locks = tmp_path / "toolchains" / "locks"
    locks.mkdir(parents=True)
    entry = current.catalog.components["filecheck"]
    releases = [(entry, entry.document.releases[-1])]
    for path in (*LOCKS.glob("filecheck-cp311-*"), *LOCKS.glob("cpython-*")):
        (locks / path.name.replace("cp311", "cp313")).write_text(path.read_text())
    found = resolve("filecheck", releases=releases, lock_folders=[locks])
    assert isinstance(found, ResolvedEnvironment), found.reason
    assert (found.interpreter.tag, found.interpreter.libc) == ("cp313", "glibc 2.41")
    assert found.interpreter.version == "3.13.5"
    assert found.is_locked


def test_what_would_serve(current: Session, unfit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "find_locked", lambda _tags, _folders: None)
    found = current.environment("numpy")
    assert isinstance(found, UnavailableEnvironment)
    assert "put a python3.11 on PATH" in found.reason


def test_the_newest_counts(tmp_path: Path) -> None:
    """By number: 3.11.10 is newer than 3.11.2."""
    locks = tmp_path / "toolchains" / "locks"
    locks.mkdir(parents=True)
    (path,) = LOCKS.glob(f"cpython-3.11.2-{HERE}.yaml")
    for release in ("3.11.2", "3.11.10", "3.12.1"):
        text = path.read_text().replace('release: "3.11.2"', f'release: "{release}"')
        (locks / path.name.replace("3.11.2", release)).write_text(text)
    found = interpreters.find_locked(("cp311",), [locks])
    assert found is not None
    assert found.version == "3.11.10"


def test_its_lock_has_what_wheels_expect() -> None:
    """The C++ library and zlib, which many wheels do not bring."""
    for path in LOCKS.glob(f"cpython-*-{HERE}.yaml"):
        lock = read_debian_lock(path)
        python = f"python{lock.release.rpartition('.')[0]}"
        assert {"libc6", "libstdc++6", "zlib1g", python} <= {package.name for package in lock.packages}


@pytest.mark.network
def test_a_worker_runs_on_it(numpy: ResolvedEnvironment, current: Session, tmp_path: Path) -> None:
    """Run an action with a wheel in the prefix's interpreter, without a PATH."""
    home = current.home
    errors: list[str] = []
    home.packages.mkdir(parents=True, exist_ok=True)
    installer = Installer(home.packages, lambda event: errors.append(event.error), artifacts=Artifacts(home.artifacts))
    installer.request([numpy])
    installer.finish()
    assert not list(filter(None, errors))
    assert not numpy.missing(home.packages)
    assert numpy.interpreter.prefix is not None
    root = home.packages / numpy.interpreter.prefix.folder

    python = numpy.interpreter.command(home.packages)
    code = "import ctypes, json, ssl, sys, zlib; print(json.dumps([sys.version.split()[0], sys.prefix]))"
    done = subprocess.run([*python, "-P", "-s", "-S", "-c", code], env={"PATH": ""}, capture_output=True, check=True)
    assert json.loads(done.stdout) == ["3.11.2", str(root / "usr")]

    request = {
        "tool": "inputs", "stage": "inputs", "inputs": {}, "outputs": {"x": "out/x.npy"},
        "params": {"dims": {}, "inputs": [{"name": "x", "shape": [4], "dtype": "f32", "formula": "iota()", "seed": 1}]},
    }  # fmt: skip
    (tmp_path / "action.json").write_text(json.dumps(request))
    command = worker_command(numpy, store=home.packages, bytecode=tmp_path / "bytecode", arguments=["action.json"])
    subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, check=True, timeout=120)
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome["outcome"] == "ok", outcome
