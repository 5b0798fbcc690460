"""What this machine allows, for tests that need more than every machine does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

_TOOLS = Path(__file__).resolve().parents[2] / "tools"
#: Who is attacked: the user of the tests, and an ordinary user, by number.
WHO = [
    pytest.param(None, id="self"),
    pytest.param(1000, id="user", marks=pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user")),
]


#: Debian's packages of programs, where they have another name.
_PACKAGES = {"apt-get": "apt", "c++": "g++", "cc": "gcc", "ninja": "ninja-build", "xz": "xz-utils"}


def _lacking(*names: str) -> str:
    """Return which of the programs this machine lacks, and how Debian installs them; nothing if it has all."""
    absent = [name for name in names if shutil.which(name) is None]
    packages = " ".join(_PACKAGES.get(name, name) for name in absent)
    return f"needs {', '.join(absent)} on PATH (Debian: apt install {packages})" if absent else ""


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip tests where this machine lacks one of the programs."""
    lacking = _lacking(*names)
    return pytest.mark.skipif(bool(lacking), reason=lacking)


def program(name: str) -> str:
    """Return where a program of this machine is; skip the test that needs it where it is absent."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(_lacking(name))
    return found


@cache
def namespaces() -> bool:
    """Whether this machine lets a worker isolate what it runs, as it does by namespaces of the kernel."""
    code = "from mlir_matrix.actions.sandbox import isolation; spaces = isolation.enter([]); assert spaces and not spaces.lost"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-S", "-c", code]
        env = {"PYTHONPATH": str(_TOOLS), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=folder, env=env, stderr=subprocess.DEVNULL, timeout=60, check=False)
    return done.returncode == 0


@contextmanager
def start_python(*words: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Run this interpreter with the package and the environment variables ``more``; killed in the end."""
    env = {**os.environ, "PYTHONPATH": str(_TOOLS), **more}
    command = [sys.executable, *words]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@cache
def interpreter_of_all() -> str:
    """A Python that every user of this machine may run: ours, unless it lies in somebody's home."""
    ours = Path(sys.executable).resolve()
    closed = any(not folder.stat().st_mode & 0o001 for folder in ours.parents)
    return "/usr/bin/python3" if closed else str(ours)


def git(folder: Path, *words: str) -> str:
    """Run Git with a user and a branch of its own and none of the machine's settings; return what it prints."""
    options = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        [program("git"), *options, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
