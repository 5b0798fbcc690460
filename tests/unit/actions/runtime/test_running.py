"""When an action that has reached its limit in wall time goes on: by the CPU time of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mlir_matrix.actions.runtime.running import Running

#: Uses CPU time, and then waits for its input.
COMPUTE = "import time\nwhile time.process_time() < 0.2: pass\n"
WAIT = "print(flush=True); input()\n"
CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {!r}])\n"
THREAD = "import threading\nthread = threading.Thread(target=lambda: exec({!r})); thread.start(); thread.join()\n"
PROGRAMS = {
    "itself": COMPUTE + WAIT,
    "child": CHILD.format(COMPUTE + WAIT),
    "ended child": CHILD.format(COMPUTE) + WAIT,
    "grandchild of a thread": THREAD.format(CHILD.format(CHILD.format(COMPUTE + WAIT))),
}


@contextmanager
def running(program: str) -> Iterator[Running]:
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pidfd = os.pidfd_open(process.pid)
        yield Running(
            request_id=1, folder="", stage="run", pid=process.pid, pidfd=pidfd, space=None, started=0.0, deadline=0.0,
            timeout_s=60, staged=None, memory_mb=1,
        )  # fmt: skip
        os.close(pidfd)
        process.communicate(b"\n")


@pytest.mark.parametrize("program", PROGRAMS)
def test_who_computes_goes_on_until_the_limit_in_cpu_time(program: str) -> None:
    with running(PROGRAMS[program]) as action:
        assert action.goes_on(0.5)
        assert 0.15 < action.cpu_s < 10
        assert action.goes_on(action.cpu_s * 3.5)
        assert not action.goes_on(action.cpu_s * 4.5), "it waits"
        action.timeout_s = action.cpu_s
        assert not action.goes_on(0.5), "it has had its limit"


def test_actions_before_it_in_its_process_do_not_count() -> None:
    with running(COMPUTE + WAIT) as action:
        assert action.goes_on(0.5)
        action.before = (action.cpu_s, 0.0)
        assert not action.goes_on(0.5)


def test_one_that_only_waits_does_not_go_on() -> None:
    with running(WAIT) as action:
        assert not action.goes_on(60)
