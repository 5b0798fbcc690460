"""Warm worker processes, and the protocol between a worker and the scheduler."""

from __future__ import annotations

import json
import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mlir_matrix.actions.contract import BACKEND, WorkRequest, WorkResponse
from mlir_matrix.actions.runtime.bytecode import options
from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.catalog.models.base import PYTHON_FILE
from mlir_matrix.environments.own_packages import OwnPackages
from mlir_matrix.environments.package import with_needs
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.source.package import SourceBuild
from mlir_matrix.execute.keys import ACTIONS_FOLDER
from mlir_matrix.plan.graph import File, PlannedAction


def worker_command(
    environment: ResolvedEnvironment,
    *,
    store: Path,
    bytecode: Path,
    arguments: Sequence[str],
    at: Path | None = None,
    actions: Path = ACTIONS_FOLDER,
) -> list[str]:
    """Return the command line of an environment's worker. It has absolute paths; actions have none.

    ``store`` is the folder of packages on this machine. In a container, ``at`` is that folder and ``actions`` the program's.
    """
    there = at or store
    folders = [word for site in environment.sites(there) for word in ("--site", site)]
    own = [unit for unit in environment.prefixes if isinstance(unit, OwnPackages)]
    folders += [word for unit in own for word in ("--own", unit.folder)]
    for unit in environment.prefixes:
        folder = unit.folder_for(environment.interpreter.tag)
        if folder:
            folders += ["--prefix", f"{unit.release}={there / folder}"]
    folders += [word for program in environment.host_programs() for word in ("--program", program)]
    folders += [word for unit in own for path in unit.outside for word in ("--bind", path)]
    if environment.interpreter.prefix:
        folders += ["--bind", str(there / environment.interpreter.prefix.folder)]
    # Programs built from source use the loader and the libraries of the compiler's prefix.
    for need in with_needs(
        need for unit in environment.prefixes if isinstance(unit, SourceBuild) for need in unit.needs
    ):
        folders += ["--bind", str(there / need.folder_for(""))]
    python = [*environment.interpreter.command(store, at=at), "-P", "-s", "-S", *options(bytecode)]
    foreign = ["--foreign"] if environment.foreign else []
    return [*python, str(actions / "runtime" / "bootstrap.py"), *folders, *foreign, *arguments]


class Preload(NamedTuple):
    """Modules that a worker imports before it answers requests: those of our tools, and those that catalogs' tools name."""

    tools: set[str]
    modules: set[str]

    def add(self, action: PlannedAction) -> None:
        """Add the modules of an action. For a tool of any catalog but the first, add only top-level packages."""
        self.tools.add(action.tool)
        tool = action.inputs.get("tool")
        names = action.params.get("preload", ())
        ours = not isinstance(tool, File) or tool.root == 0
        self.modules.update(names if ours else (re.split("[.:]", name)[0] for name in names))
        if action.tool == PYTHON_FILE and "bindings" in action.params:
            # The module creates a context of the bindings, so that no child has to.
            self.tools.add(BACKEND)


def serving(preload: Preload, devices: Iterable[str] = ()) -> list[str]:
    """Return the arguments of a worker that imports ``preload`` and then answers requests on ``devices``."""
    words = [word for tool in sorted(preload.tools) for word in ("--tool", tool)]
    words += [word for module in sorted(preload.modules) for word in ("--module", module)]
    return [*words, *(word for device in devices for word in ("--device", device)), "--persistent_worker"]


def bound(environment: ResolvedEnvironment, *, store: Path, bytecode: Path) -> dict[str, Any]:
    """Return what the actions of an environment can read (``bound``) and what is not isolated (``lost``)."""
    command = worker_command(environment, store=store, bytecode=bytecode, arguments=["--bound"])
    done = subprocess.run(
        command, env=CLEAN_ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InfrastructureError(f"the worker of {environment.name} does not start: {last_line(done.stderr)}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@dataclass(kw_only=True)
class WorkerHandle(ABC):
    """A process that executes jobs, and the requests that it has not answered."""

    environment: ResolvedEnvironment
    #: The payload of each request, by its number. It is returned with the answer.
    pending: dict[int, Any] = field(default_factory=dict)
    _requests: int = 0
    answered: int = 0
    #: Time of the last answer, or of the first request after it.
    heard: float = 0.0
    _buffer: bytes = b""

    @property
    def warm(self) -> bool:
        """Return whether the worker has answered before; until then it may still be importing."""
        return self.answered > 0

    def request(self, folder: str, payload: Any, *, timeout_s: float, memory_mb: int, actions: int = 1) -> WorkRequest:
        """Return the request to execute that many actions in ``folder``, and note it."""
        if not self.pending:
            self.heard = time.monotonic()
        self._requests += 1
        self.pending[self._requests] = payload
        limits = ["--timeout-s", str(timeout_s), "--memory-mb", str(memory_mb)]
        arguments = [*limits, "--actions", str(actions)]
        return WorkRequest(request_id=self._requests, folder=folder, arguments=arguments)

    def parse(self, chunk: bytes) -> tuple[list[tuple[Any, WorkResponse]], bool]:
        """Return the payloads and answers that these bytes complete, and False if the bytes are no answers."""
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        answers = []
        self.heard = time.monotonic()
        for line in lines:
            try:
                answer = WorkResponse.from_line(line)
                payload = self.pending[answer.request_id] if answer.more else self.pending.pop(answer.request_id)
                answers.append((payload, answer))
            except (ValueError, LookupError, TypeError):
                # Another program has written to the stream of answers, so no later answer can be trusted.
                return answers, False
            self.answered += 1
        return answers, True

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor of the answers, for a selector."""

    @abstractmethod
    def receive(self) -> tuple[list[tuple[Any, WorkResponse]], bool]:
        """Return answered payloads with their answers, and False if the worker has ended or its answer is invalid."""

    @abstractmethod
    def last_output(self) -> str:
        """Return why the worker ended, or the last line of its error output."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker and everything that it runs, without waiting."""

    @abstractmethod
    def stop(self) -> None:
        """End the worker and everything that it runs, wait, and close the connection."""


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
