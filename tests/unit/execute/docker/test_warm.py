"""What tools import is compiled once for an image and our own code, and again where either, or the tools, are others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from mlir_matrix.execute.docker import options
from mlir_matrix.execute.docker import warm as module
from mlir_matrix.execute.docker.options import User
from mlir_matrix.images.images import Image
from mlir_matrix.paths import Home
from support.fake_containers import Fake
from support.shelf import made_of

ENVIRONMENT = made_of("numpy")
Warm = Callable[..., Fake]


@pytest.fixture
def warm(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Callable[..., Any]) -> Warm:
    """Warms, and gives the daemon that had to do it."""
    code = tmp_path / "actions"
    code.mkdir()
    (code / "tool.py").touch()
    monkeypatch.setattr(module, "ACTIONS_FOLDER", code)
    monkeypatch.setattr(options, "command", lambda _environment, _image, tools, _home: sorted(tools))

    def call(*tools: str, image: str = "one", code: int = 0) -> Fake:
        daemon: Fake = fake(code=code)
        monkeypatch.setattr(module, "start", daemon.start)
        user = User(inside="0:0")
        made = Image(id=image, tag="", environment_digest=ENVIRONMENT.digest)
        module.warm(cast("Any", daemon), ENVIRONMENT, made, tools=set(tools), home=home, user=user)
        return daemon

    return call


def test_once(warm: Warm) -> None:
    first = warm("judge")
    assert first.started == [["judge"]]
    assert first.removed == ["1"]
    assert first.ends[0].recv(1) == b"", "it is told that nobody will ask"
    assert warm("judge").started == []
    assert warm().started == []


def test_more_tools(warm: Warm) -> None:
    """Those of before need not be named again."""
    warm("judge")
    assert warm("run").started == [["run"]]
    assert warm("judge", "run").started == []


def test_another_image_or_our_own_code(warm: Warm, tmp_path: Path) -> None:
    warm("judge")
    assert warm("run", image="two").started == [["run"]]
    assert warm("judge", image="two").started == [["judge"]], "for that image it was never compiled"
    os.utime(tmp_path / "actions" / "tool.py", ns=(0, 10**18))
    assert warm("judge", image="two").started == [["judge"]]


def test_what_failed_is_tried_again(warm: Warm) -> None:
    failed = warm("judge", code=1)
    assert failed.removed == ["1"]
    assert warm("judge").started == [["judge"]]


@pytest.mark.parametrize("text", ["", "[]", '{"image": "one"}'])
def test_a_spoilt_note_is_none(warm: Warm, home: Home, text: str) -> None:
    stamp = home.bytecode / "containers" / f"{options.bytecode_folder(ENVIRONMENT, home).name}.json"
    warm("judge")
    stamp.write_text(text)
    assert warm("judge").started == [["judge"]]
