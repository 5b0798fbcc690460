"""When an action that has reached its limit in wall time goes on: by the CPU time of real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlir_matrix.actions.runtime.running import BUSY, Ends, Running

#: Uses CPU time, and then waits for its input.
COMPUTE = "import time\nwhile time.process_time() < 0.2: pass\n"
WAIT = "print(flush=True); input()\n"
CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {!r}])\n"
THREAD = "import threading\nthread = threading.Thread(target=lambda: exec({!r})); thread.start(); thread.join()\n"
PROGRAMS = {
    "itself": COMPUTE + WAIT,
    "thread": THREAD.format(COMPUTE + WAIT),
    "child": CHILD.format(COMPUTE + WAIT),
    "ended child": CHILD.format(COMPUTE) + WAIT,
    "grandchild of a thread": THREAD.format(CHILD.format(CHILD.format(COMPUTE + WAIT))),
}
#: The kernel counts in ticks, so it computes for some before it says that it runs.
ENDLESS = COMPUTE + "print(flush=True)\nwhile True: pass\n"


@contextmanager
def running(program: str, *, folder: str = "", nice: int = 0) -> Iterator[Running]:
    words = ["nice", f"-n{nice}", sys.executable, "-c", program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pidfd = os.pidfd_open(process.pid)
        try:
            yield Running(
                request_id=1, folder=folder, stage="run", pid=process.pid, pidfd=pidfd, space=None, started=0.0,
                looked=0.0, deadline=0.0, timeout_s=60, staged=None, memory_mb=1,
            )  # fmt: skip
        finally:
            os.close(pidfd)
            process.kill()


def wait_until_it_runs(pid: int) -> None:
    """Return once the process was given a CPU again: only then does the kernel count how long it waited."""
    schedule = Path(f"/proc/{pid}/schedstat")
    before = schedule.read_text().split()[2]
    while schedule.read_text().split()[2] == before:
        time.sleep(0.01)


@pytest.mark.parametrize("program", PROGRAMS)
def test_who_computes_goes_on_until_it_waits(program: str) -> None:
    with running(PROGRAMS[program]) as action:
        assert action.goes_on(0.5)
        # The kernel counts in ticks.
        assert action.cpu_s > 0.15
        assert not action.goes_on(0.6), "it has done nothing since"


def test_who_has_had_its_limit_does_not_go_on() -> None:
    with running(ENDLESS) as action:
        assert action.goes_on(0.001)
        action.timeout_s = action.cpu_s
        assert not action.goes_on(0.002)


def test_nobody_goes_on_for_more_than_four_times_the_limit() -> None:
    with running(ENDLESS) as action:
        action.looked = 239.999
        assert action.goes_on(239.9999)
        action.looked = 240.0
        assert not action.goes_on(240.0001)


@pytest.mark.parametrize(("threads", "goes_on"), [(127, True), (128, False)])
def test_many_threads_do_not_go_on(threads: int, goes_on: bool) -> None:
    """As of a fork bomb: a worker that looked at them all would have no CPU left to end them."""
    more = f"import threading\nfor _ in range({threads}): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    with running(more + ENDLESS) as action:
        assert action.goes_on(0.001) == goes_on


def test_actions_before_it_in_its_process_do_not_count() -> None:
    with running(COMPUTE + WAIT) as action:
        assert action.goes_on(0.5)
        action.before = (action.cpu_s, 0.0)
        action.looked, action.cpu_s = 0.0, 0.0
        assert not action.goes_on(0.5)


def test_who_waits_for_a_cpu_goes_on() -> None:
    """Other processes of a busy machine have it."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        with running(ENDLESS, nice=10) as action, running(ENDLESS):
            action.started = action.looked = time.monotonic()
            action.goes_on(time.monotonic())
            used, since = action.cpu_s, action.looked
            time.sleep(0.5)
            wait_until_it_runs(action.pid)
            assert action.goes_on(time.monotonic())
            assert action.cpu_s - used < (action.looked - since) / BUSY, "by its CPU time alone it would not"
    finally:
        os.sched_setaffinity(0, cpus)


def test_one_that_only_waits_does_not_go_on() -> None:
    with running(WAIT) as action:
        assert not action.goes_on(60)


@pytest.mark.parametrize(
    ("cpu_s", "reason"),
    [(59.9, "no answer within 60 s (--timeout)"), (60, "no answer within 60 s of CPU time (--timeout)")],
)
def test_which_limit_it_had_is_said(tmp_path: Path, cpu_s: float, reason: str) -> None:
    with running(WAIT, folder=str(tmp_path)) as action:
        action.timed_out, action.cpu_s = True, cpu_s
        assert Ends(None).settle(action, 0) == ""
    assert json.loads((tmp_path / "outcome.json").read_text())["reason"] == reason
