"""Whose containers are removed: those of processes that are gone for sure, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.containers import reaper as owner
from mlir_matrix.containers.reaper import LABEL, ProcessIdentity, me


def test_we_are_here() -> None:
    assert me().pid == os.getpid()
    assert not me().is_gone()
    assert ProcessIdentity.read(str(me())) == me()


def test_one_that_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert replace(me(), pid=process.pid).is_gone()


def test_a_later_process_of_the_same_number() -> None:
    assert replace(me(), started=me().started - 1).is_gone()


@pytest.mark.parametrize("other", [{"boot": "another"}, {"namespace": "pid:[1]"}])
def test_one_that_cannot_be_seen_may_be_there(other: dict[str, str]) -> None:
    assert not replace(me(), pid=2**22, **other).is_gone()


@given(st.text(max_size=60))
def test_any_label_is_read(label: str) -> None:
    found = ProcessIdentity.read(label)
    assert found is None or isinstance(found.pid, int)


class Daemon:
    """A daemon with containers, and what was removed."""

    def __init__(self, *containers: tuple[str, str, str]) -> None:
        self.client = self.api = self
        self.found = [{"Id": name, "Labels": {LABEL: label}, "State": state} for name, label, state in containers]
        self.removed: list[str] = []
        #: What it answers first to who wants a container removed.
        self.errors: list[APIError] = []

    def containers(self, *, all: bool, filters: dict[str, str]) -> list[dict[str, Any]]:
        wanted = filters["label"]
        return [each for each in self.found if wanted in (LABEL, f"{LABEL}={each['Labels'][LABEL]}")]

    def remove_container(self, container: str, *, force: bool, v: bool) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.removed.append(container)

    def plainly(self, doing: str) -> Any:
        from contextlib import nullcontext

        return nullcontext()


def test_what_is_removed() -> None:
    gone = str(replace(me(), started=me().started - 1))
    daemon: Any = Daemon(
        ("ours", str(me()), "running"),
        ("gone", gone, "running"),
        ("made", gone, "created"),
        ("nonsense", "1", "running"),
        ("elsewhere", str(replace(me(), boot="another")), "running"),
        ("before", str(replace(me(), boot="another")), "exited"),
        ("beside", str(replace(me(), namespace="pid:[1]")), "exited"),
    )
    owner.reap(daemon)
    assert daemon.removed == ["gone", "made", "nonsense", "before"]
    owner.remove_ours(daemon)
    assert daemon.removed[4:] == ["ours"]


def refusal(code: int, words: str) -> APIError:
    return APIError("refused", SimpleNamespace(status_code=code, url="", reason=""), words)


ENDING = "cannot remove container x as it could not be stopped: sending SIGKILL: container state improper: stopped"


@pytest.mark.parametrize(
    ("errors", "removed"),
    [
        ([refusal(404, "no such container")], []),
        ([refusal(409, "removal is already in progress")], []),
        ([refusal(500, ENDING)] * 2, ["x"]),
        ([refusal(500, ENDING), refusal(404, "no such container")], []),
    ],
)
def test_what_ends_by_itself(errors: list[APIError], removed: list[str]) -> None:
    """Podman refuses while it does."""
    daemon: Any = Daemon()
    daemon.errors = list(errors)
    owner.remove(daemon, "x")
    assert (daemon.removed, daemon.errors) == (removed, [])


@pytest.mark.parametrize("errors", [[refusal(500, "other")], [refusal(500, ENDING)] * 4])
def test_what_cannot_be_removed(errors: list[APIError], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_PAUSES_S", (0.0, 0.0, 0.0))
    daemon: Any = Daemon()
    daemon.errors = list(errors)
    with pytest.raises(APIError):
        owner.remove(daemon, "x")
