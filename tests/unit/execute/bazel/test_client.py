"""Tests of one call of a program as Bazel is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]

#: A hook of fork, as the module logging has one, in which Ctrl-C arrives: Python drops what is raised there.
INTERRUPTED_IN_FORK = """
import os, signal, sys
from pathlib import Path
from mlir_matrix.execute.bazel.client import Build
folder = Path(sys.argv[1])
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    Build(["sleep", "600"], folder, folder / "log", folder / "events")
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
