"""One call of a program as Bazel is called; a service from which nothing comes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mlir_matrix.bazel.client import STALL_END_S, STALL_NOTE_S, StallDetector
from support.clock import Clock

REPOSITORY = Path(__file__).resolve().parents[3]

#: A hook of fork, as the module logging has one, in which Ctrl-C arrives: Python drops what is raised there.
INTERRUPTED_IN_FORK = """
import os, signal, sys
from pathlib import Path
from mlir_matrix.bazel.client import BazelBuild
folder = Path(sys.argv[1])
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    BazelBuild(["sleep", "600"], folder, folder / "log", folder / "events")
except KeyboardInterrupt:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        sys.exit(42)
"""


def test_an_interrupt_inside_fork_is_not_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED_IN_FORK, str(tmp_path)]
    environment = {"PYTHONPATH": str(REPOSITORY / "tools")}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 42, done.stderr


def test_told_once_in_a_while(clock: Clock) -> None:
    stall = StallDetector("grpc://farm:1", [("pool", "one"), ("zig:pool", "two")])
    assert stall.note() == ""
    clock.now += STALL_NOTE_S
    told = stall.note()
    assert f"no action came back from grpc://farm:1 for {STALL_NOTE_S:.0f} s" in told
    assert "(--exec-property pool=one, zig:pool=two)" in told
    assert stall.note() == ""
    clock.now += STALL_NOTE_S
    assert f"for {2 * STALL_NOTE_S:.0f} s" in stall.note()


def test_an_action_begins_it_anew(clock: Clock) -> None:
    stall = StallDetector("grpc://farm:1", [])
    clock.now += STALL_END_S - 1
    stall.progressed()
    clock.now += STALL_NOTE_S - 1
    assert (stall.note(), stall.end()) == ("", "")


def test_given_up(clock: Clock) -> None:
    stall = StallDetector("grpc://farm:1", [])
    clock.now += STALL_END_S - 1
    assert stall.end() == ""
    clock.now += 1
    assert "no worker with the properties that actions ask for" in stall.end()
    assert "--exec-property" not in stall.end()


def test_nobody_waits_for_this_machine(clock: Clock) -> None:
    stall = StallDetector("", [])
    clock.now += 2 * STALL_END_S
    assert (stall.note(), stall.end()) == ("", "")
