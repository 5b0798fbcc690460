"""Warm worker processes, and the protocol by which workers are sent jobs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.execute.keys import ACTIONS_FOLDER


def worker_command(
    environment: ResolvedEnvironment,
    *,
    store: Path,
    bytecode: Path,
    arguments: Sequence[str],
    at: Path | None = None,
    actions: Path = ACTIONS_FOLDER,
) -> list[str]:
    """Return the command line of an environment's worker. Only this, not the action, has absolute paths.

    ``store`` has the packages here. ``at`` and ``actions`` are the paths of packages and program inside the worker, if they
    differ.
    """
    there = at or store
    folders = [word for site in environment.sites(there) for word in ("--site", site)]
    folders += [word for prefix in _prefixes(environment, there) for word in ("--prefix", prefix)]
    folders += [word for program in environment.host_programs() for word in ("--program", program)]
    if environment.interpreter.prefix:
        folders += ["--bind", str(there / environment.interpreter.prefix.folder)]
    python = [*environment.interpreter.command(store, at=at), "-P", "-s", "-S", "-X", f"pycache_prefix={bytecode}"]
    return [*python, str(actions / "runtime" / "bootstrap.py"), *folders, *arguments]


def serving(tools: Iterable[str], devices: Iterable[str] = ()) -> list[str]:
    """Return the arguments of a worker that imports what ``tools`` need and then answers requests on ``devices``."""
    words = [word for tool in sorted(tools) for word in ("--tool", tool)]
    return [*words, *(word for device in devices for word in ("--device", device)), "--persistent_worker"]


def bound(environment: ResolvedEnvironment, *, store: Path, bytecode: Path) -> dict[str, Any]:
    """Ask an environment's worker what its actions can read (``bound``) and what is not isolated (``lost``)."""
    command = worker_command(environment, store=store, bytecode=bytecode, arguments=["--bound"])
    done = subprocess.run(
        command, env=CLEAN_ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InfrastructureError(f"the worker of {environment.name} does not start: {last_line(done.stderr)}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _prefixes(environment: ResolvedEnvironment, store: Path) -> Iterator[str]:
    """Yield prefixes as a worker's command line has them, ``RELEASE=FOLDER``, in order of precedence."""
    for unit in environment.prefixes:
        folder = unit.folder_for(environment.interpreter.tag)
        if folder:
            yield f"{unit.release}={store / folder}"


@dataclass(kw_only=True)
class WorkerLink:
    """Requests that a worker was sent and has not answered."""

    environment: ResolvedEnvironment
    #: By request number: the payload that is returned with the answer.
    pending: dict[int, Any] = field(default_factory=dict)
    answered: int = 0
    #: When it last answered, or was first asked after that.
    heard: float = 0.0
    _buffer: bytes = b""

    @property
    def warm(self) -> bool:
        """Return whether the worker has answered before; until then it may still be importing."""
        return self.answered > 0

    def ask(self, number: int, folder: str, payload: Any, *, timeout_s: float, memory_mb: int) -> bytes:
        """Return the line that requests the action in ``folder``, and note the request."""
        if not self.pending:
            self.heard = time.monotonic()
        self.pending[number] = payload
        message = {
            "requestId": number,
            "sandboxDir": folder,
            "arguments": ["--timeout-s", str(timeout_s), "--memory-mb", str(memory_mb)],
            "inputs": [],
        }
        return json.dumps(message).encode() + b"\n"

    def hear(self, chunk: bytes) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
        """Return the answers that these bytes complete, with their payloads, and False if they are no answers."""
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        answers = []
        self.heard = time.monotonic()
        for line in lines:
            try:
                message = json.loads(line)
                answers.append((self.pending.pop(message["requestId"]), message))
            except (ValueError, LookupError, TypeError):
                # Another program has written into the answers: none can be trusted any more.
                return answers, False
            self.answered += 1
        return answers, True


def last_line(text: str) -> str:
    """Return the last line of a text."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


@dataclass(kw_only=True)
class WorkerProcess(WorkerLink):
    """A running worker."""

    process: subprocess.Popen[bytes]
    log: Path

    def fileno(self) -> int:
        """Return the descriptor of its answers, for a selector."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, number: int, folder: str, payload: Any, *, timeout_s: float, memory_mb: int) -> None:
        """Request the action in ``folder``. Raise BrokenPipeError if the worker has ended."""
        line = self.ask(number, folder, payload, timeout_s=timeout_s, memory_mb=memory_mb)
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), line)

    def receive(self) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
        """Return answers with their payloads, and False if the worker has ended or answers nonsense."""
        chunk = os.read(self.fileno(), 1 << 16)
        return self.hear(chunk) if chunk else ([], False)

    def last_words(self) -> str:
        """Return the last line of its error output."""
        try:
            return last_line(self.log.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return ""

    def kill(self) -> None:
        """Terminate the worker with everything that it runs; its answers then end."""
        self.process.terminate()

    def hang_up(self) -> None:
        """Close its requests, so that it ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop(self) -> None:
        """End the worker and everything that it runs, and wait for that."""
        assert self.process.stdout is not None
        self.hang_up()
        for end in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(timeout=2)
                break
            except subprocess.TimeoutExpired:
                end()
        self.process.wait()
        self.process.stdout.close()


def start_worker(
    environment: ResolvedEnvironment,
    tools: Iterable[str],
    *,
    store: Path,
    bytecode: Path,
    scratch: Path,
    devices: Iterable[str] = (),
) -> WorkerProcess:
    """Start the worker of an environment. It imports what ``tools`` need and then answers requests."""
    command = worker_command(environment, store=store, bytecode=bytecode, arguments=serving(tools, devices))
    log = scratch / f"worker-{environment.name}.log"
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=scratch,
            env={**CLEAN_ENVIRONMENT, "HOME": str(scratch), "TMPDIR": str(scratch)},
            # Only this process gets Ctrl-C, and then ends the workers.
            start_new_session=True,
        )
    return WorkerProcess(environment=environment, process=process, log=log)
