"""People are told when nothing comes back, and at last it is over."""

from __future__ import annotations

import time

import pytest

from mlir_matrix.execute.bazel.patience import GIVE_UP_S, TELL_S, Patience


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def test_told_once_in_a_while(clock: Clock) -> None:
    patience = Patience("grpc://farm:1", [("pool", "one"), ("zig:pool", "two")])
    assert patience.complaint() == ""
    clock.now += TELL_S
    told = patience.complaint()
    assert f"no action came back from grpc://farm:1 for {TELL_S:.0f} s" in told
    assert "(--exec-property pool=one, zig:pool=two)" in told
    assert patience.complaint() == ""
    clock.now += TELL_S
    assert f"for {2 * TELL_S:.0f} s" in patience.complaint()


def test_an_action_begins_it_anew(clock: Clock) -> None:
    patience = Patience("grpc://farm:1", [])
    clock.now += GIVE_UP_S - 1
    patience.heard()
    clock.now += TELL_S - 1
    assert (patience.complaint(), patience.given_up()) == ("", "")


def test_given_up(clock: Clock) -> None:
    patience = Patience("grpc://farm:1", [])
    clock.now += GIVE_UP_S - 1
    assert patience.given_up() == ""
    clock.now += 1
    assert "no worker with the properties that actions ask for" in patience.given_up()
    assert "--exec-property" not in patience.given_up()


def test_nobody_waits_for_this_machine(clock: Clock) -> None:
    patience = Patience("", [])
    clock.now += 2 * GIVE_UP_S
    assert (patience.complaint(), patience.given_up()) == ("", "")
