"""The promise of this tier: no test starts a process other than Python, or connects to another machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: What the test that runs now did against the promise.
_broken: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note programs and other machines. An audit hook sees them wherever they are started; an exception could be caught."""
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        # Popen may leave the program to the first word.
        program = os.fsdecode(arguments[0] or arguments[1][0])
        if not os.path.basename(program).startswith("python"):
            _broken.append(f"starts {program}")
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
        if host not in ("127.0.0.1", "localhost", "::1"):
            _broken.append(f"connects to {host}")


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def promise(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail what belongs into another tier."""
    assert "network" not in request.keywords, "a test that installs packages belongs into tests/toolchain"
    _broken.clear()
    yield
    assert not _broken, f"belongs into tests/toolchain or tests/system: it {' and '.join(_broken)}"


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test in a folder of its own."""
    monkeypatch.chdir(tmp_path)
