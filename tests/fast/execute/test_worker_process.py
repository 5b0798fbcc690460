"""A worker from the outside: sending, hearing, and letting go, of the real one and of one that misbehaves."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import WorkResponse
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.local_pool import WorkerProcess, start_worker
from mlir_matrix.execute.worker_process import Preload, worker_command
from mlir_matrix.plan.graph import File, Graph

PYTHON = ResolvedEnvironment(name="python", interpreter=own(), packages=())


def send(worker: WorkerProcess, folder: str, payload: object, *, timeout_s: float, memory_mb: int) -> None:
    worker.send(worker.request(folder, payload, timeout_s=timeout_s, memory_mb=memory_mb))


def hear(worker: WorkerProcess, seconds: float = 30) -> tuple[list[tuple[Any, WorkResponse]], bool]:
    """The next that it says."""
    assert select.select([worker.fileno()], [], [], seconds)[0], "nothing is heard"
    return worker.receive()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[WorkerProcess]:
    worker = start_worker(
        PYTHON, Preload({"run"}, set()), store=tmp_path, bytecode=tmp_path / "bytecode", scratch=tmp_path
    )
    yield worker
    worker.stop()


Odd = Callable[[str], WorkerProcess]


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Odd]:
    """Something that only claims to be a worker: code that runs in its place."""
    made = []

    def make(code: str) -> WorkerProcess:
        log = tmp_path / "log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        made.append(WorkerProcess(environment=PYTHON, process=process, log=log))
        return made[-1]

    yield make
    for worker in made:
        # Nothing waits for it to end by itself.
        worker.process.kill()
        worker.stop()


def folder(tmp_path: Path, name: str, script: str) -> str:
    """A folder with a request that runs a script."""
    place = tmp_path / name
    (place / "in").mkdir(parents=True)
    (place / "in" / "kernel").write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    (place / "in" / "kernel").chmod(0o755)
    params: dict[str, list[Any]] = {"arguments": [], "results": []}
    request = {"tool": "run", "stage": "run", "params": params, "inputs": {"kernel": "in/kernel"}, "outputs": {}}
    (place / "action.json").write_text(json.dumps(request))
    return str(place)


def test_worker_answers_with_the_payload(real: WorkerProcess, tmp_path: Path) -> None:
    assert not real.warm
    payload = object()
    send(real, folder(tmp_path, "1", "exit 0"), payload, timeout_s=10, memory_mb=512)
    assert real.pending == {1: payload}
    ((what, answer),), alive = hear(real)
    assert (what, answer.request_id, alive) == (payload, 1, True)
    assert real.warm
    assert real.pending == {}


def test_limits_are_passed_on(real: WorkerProcess, tmp_path: Path) -> None:
    send(real, folder(tmp_path, "1", "kill -STOP $$"), None, timeout_s=0.5, memory_mb=512)
    send(real, folder(tmp_path, "2", "ulimit -d; exit 1"), None, timeout_s=10, memory_mb=512)
    while real.pending:
        hear(real)
    assert json.loads((tmp_path / "1" / "outcome.json").read_text())["outcome"] == "timed-out"
    # KiB, above what the child was forked with.
    limit = int(json.loads((tmp_path / "2" / "outcome.json").read_text())["diagnostics"].split()[0])
    assert 524_288 <= limit < 524_288 + 65_536


@pytest.mark.parametrize("busy", [False, True])
def test_stopping_ends_all_of_it(real: WorkerProcess, tmp_path: Path, busy: bool) -> None:
    """When ``stop`` returns nothing runs any more."""
    alive = tmp_path / "1" / "alive"
    if busy:
        script = "sh -c 'while true; do : > alive; done' & kill -STOP $$"
        send(real, folder(tmp_path, "1", script), None, timeout_s=60, memory_mb=512)
        until = time.monotonic() + 120
        while not alive.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
    started = time.monotonic()
    real.stop()
    assert time.monotonic() - started < 60
    alive.unlink(missing_ok=True)
    time.sleep(0.2)
    assert not alive.exists()
    real.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_one_that_is_gone_or_stopped(real: WorkerProcess, tmp_path: Path, how: signal.Signals) -> None:
    """Its answers end, at once or when it is ended."""
    real.process.send_signal(how)
    if how == signal.SIGSTOP:
        real.process.kill()
    assert hear(real) == ([], False)
    real.process.wait()
    with pytest.raises(BrokenPipeError):
        send(real, folder(tmp_path, "1", "exit 0"), None, timeout_s=1, memory_mb=512)
    assert list(real.pending) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        '{"requestId": 2}',
        '{"requestId": null}',
        '{"requestId": [1]}',
        "\\xff",
        '{"requestId": "1"}',
    ],
)
def test_one_that_makes_no_sense(odd: Odd, line: str) -> None:
    """Is as good as gone; what it said before that counts."""
    worker = odd(
        "import sys, time; sys.stdin.readline(); "
        f"sys.stdout.buffer.write(b'{{\"requestId\": 1}}\\n' + b'{line}' + b'\\n'); sys.stdout.flush(); time.sleep(60)"
    )
    send(worker, "/nowhere", "one", timeout_s=1, memory_mb=512)
    answers, alive = hear(worker)
    assert (answers, alive) == ([("one", WorkResponse(request_id=1))], False)


def test_an_answer_in_pieces(odd: Odd) -> None:
    worker = odd(
        "import sys, time; sys.stdin.readline(); out = sys.stdout\n"
        "for part in ('{\"reque', 'stId\": 1}', '\\n'):\n    out.write(part); out.flush(); time.sleep(0.2)\ntime.sleep(60)"
    )
    send(worker, "/nowhere", "one", timeout_s=1, memory_mb=512)
    heard = []
    while worker.pending:
        answers, alive = hear(worker)
        assert alive
        heard += answers
    assert heard == [("one", WorkResponse(request_id=1))]


def test_its_last_output(odd: Odd, tmp_path: Path) -> None:
    worker = odd("import sys; print('first\\n\\nlast', file=sys.stderr); sys.exit(1)")
    assert hear(worker) == ([], False)
    worker.process.wait()
    assert worker.last_output() == "last"
    os.unlink(tmp_path / "log")
    assert worker.last_output() == ""


def test_one_that_ignores_the_end(odd: Odd) -> None:
    """It is asked, then told, then made to."""
    worker = odd(
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('{', flush=True); time.sleep(600)"
    )
    hear(worker)
    worker.pending[1] = None
    started = time.monotonic()
    worker.stop()
    assert time.monotonic() - started < 60
    assert worker.process.returncode == -signal.SIGKILL


def test_a_stopped_worker_is_ended(odd: Odd) -> None:
    worker = odd("import os, signal; print('{', flush=True); os.kill(os.getpid(), signal.SIGSTOP)")
    hear(worker)
    os.waitid(os.P_PID, worker.process.pid, os.WSTOPPED | os.WNOWAIT)
    worker.kill()
    assert worker.process.wait(timeout=60) == -signal.SIGTERM


def test_when_it_was_last_heard(real: WorkerProcess, tmp_path: Path) -> None:
    """From the first question on: being idle is not being silent."""
    before = time.monotonic()
    send(real, folder(tmp_path, "1", "sleep 0.3"), None, timeout_s=10, memory_mb=512)
    asked = real.heard
    assert asked >= before
    time.sleep(0.05)
    send(real, folder(tmp_path, "2", "exit 0"), None, timeout_s=10, memory_mb=512)
    assert real.heard == asked
    hear(real)
    assert real.heard > asked


def test_the_command_names_each_package(tmp_path: Path) -> None:
    packages = tuple(WheelPackage(name=name, version="1", hashes=("0" * 64,)) for name in ("one", "two"))
    environment = ResolvedEnvironment(name="x", interpreter=own(), packages=packages)
    command = worker_command(environment, store=tmp_path, bytecode=tmp_path / "b", arguments=["--more"])
    sites = [command[at + 1] for at, word in enumerate(command) if word == "--site"]
    assert sites == [f"{tmp_path}/{package.folder_for(own().tag)}" for package in packages]
    assert command[0] == own().path
    assert command[-1] == "--more"
    command = worker_command(
        replace(environment, foreign=True), store=tmp_path, bytecode=tmp_path, arguments=["--more"]
    )
    assert command[-2:] == ["--foreign", "--more"]


@pytest.mark.parametrize(("root", "modules"), [(0, {"one.two:three", "four"}), (1, {"one", "four"})])
def test_what_tools_of_catalogs_have_imported(root: int, modules: set[str]) -> None:
    """Of another catalog than the first no function is called, and no module inside a package is imported."""
    graph = Graph()
    action = graph.add(
        tool="python_file", stage="lower", environment="x", label="x", outputs={},
        params={"tool": "tool.py", "preload": ["one.two:three", "four"]}, inputs={"tool": File(root, "tool.py")},
    )  # fmt: skip
    found = Preload(set(), set())
    found.add(graph.actions[action])
    assert found.modules == modules
