"""Run the actions of candidates in warm workers, each candidate in a process of its own, and cache nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.child import REQUEST_FILE, failed_outcome
from mlir_matrix.actions.runtime.collect import DamagedFolderError, outcome_of, remove_folder
from mlir_matrix.actions.tools.fused import BEGUN
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import unwritable
from mlir_matrix.base.paths import Home
from mlir_matrix.environments.package import Package
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.folders import make_folder
from mlir_matrix.execute.local_pool import WorkerProcess, start_worker
from mlir_matrix.execute.worker_process import Preload
from mlir_matrix.plan.request import Limits

#: Tools that need nothing of the environment of the steps but its interpreter. They run in the process of the steps.
_LIGHT = frozenset({"inputs", "link", "run", "disagree"})
#: How often the actions of a candidate are repeated if their worker ends: code under test may have ended it.
_ATTEMPTS = 2
#: The stage of a request whose actions have stages of their own.
_STAGE = "lower"


@dataclass(frozen=True, kw_only=True)
class ActionRequest:
    """An action of a candidate; its paths are those of the candidate's folder."""

    label: str
    tool: str
    stage: str
    environment: ResolvedEnvironment
    params: Mapping[str, Any]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        """Return the request as the tool ``fused`` reads it."""
        return {"tool": self.tool, "params": self.params, "inputs": self.inputs, "outputs": self.outputs}


@dataclass(frozen=True, kw_only=True)
class CandidateResult:
    """What became of the actions of a candidate."""

    #: As an action leaves it: ``outcome``, ``stage``, ``reason``, ``diagnostics``, and ``signal``.
    outcome: Mapping[str, str]
    #: The action that failed, or the last one.
    label: str
    #: The wanted outputs, by their paths, if no action failed.
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.outcome["outcome"] == "ok"


def composed(requests: Sequence[ActionRequest]) -> list[tuple[ResolvedEnvironment, list[ActionRequest]]]:
    """Return the requests in groups for one process each, with an environment that has the packages of all in it.

    Two environments of compilers are never in one process: their bindings would collide.
    """
    groups: list[tuple[ResolvedEnvironment, list[ActionRequest]]] = []
    for each in requests:
        if groups:
            environment, members = groups[-1]
            heavy = any(member.tool not in _LIGHT for member in members)
            is_light = each.tool in _LIGHT or not heavy
            if each.environment.digest == environment.digest or (is_light and _fits(environment, each.environment)):
                groups[-1] = (_joined(environment, each.environment), [*members, each])
                continue
        groups.append((each.environment, [each]))
    return groups


def _fits(one: ResolvedEnvironment, other: ResolvedEnvironment) -> bool:
    return one.interpreter.identity() == other.interpreter.identity()


def _joined(one: ResolvedEnvironment, other: ResolvedEnvironment) -> ResolvedEnvironment:
    """Return an environment with the packages of both; of two releases of a package it has that of the first."""
    known = {each.name for each in one.packages}
    packages = [each for each in other.packages if each.name not in known]
    prefixes: list[Package] = [each for each in other.prefixes if each not in one.prefixes]
    if not packages and not prefixes:
        return one
    return replace(
        one,
        packages=(*one.packages, *packages),
        prefixes=(*one.prefixes, *prefixes),
        foreign=one.foreign or other.foreign,
    )


class Workers:
    """The warm workers of one thread, by environment."""

    def __init__(self, home: Home, scratch: Path, limits: Limits) -> None:
        """``scratch``: a folder of this thread alone."""
        self._home, self._scratch, self._limits = home, scratch, limits
        self._workers: dict[str, WorkerProcess] = {}

    def run(
        self,
        requests: Sequence[ActionRequest],
        files: Mapping[str, bytes],
        *,
        wanted: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> CandidateResult:
        """Run actions in a folder with these files. ``wanted``: paths of outputs to return. Raise InfrastructureError."""
        try:
            folder = make_folder(self._scratch)
            try:
                return self._run_in(folder, requests, files, wanted, timeout_s or self._limits.timeout_s)
            finally:
                remove_folder(folder)
        except OSError as error:
            raise unwritable("a candidate could not run", error) from None

    def _run_in(
        self,
        folder: str,
        requests: Sequence[ActionRequest],
        files: Mapping[str, bytes],
        wanted: Sequence[str],
        timeout_s: float,
    ) -> CandidateResult:
        for path, data in files.items():
            Path(folder, path).write_bytes(data)
        ended = CandidateResult(outcome={"outcome": "ok", "stage": "", "reason": ""}, label="")
        for environment, group in composed(requests):
            ended = self._run_group(environment, group, folder, timeout_s)
            if not ended.ok:
                return ended
        return replace(ended, files={path: Path(folder, path).read_bytes() for path in wanted})

    def _run_group(
        self, environment: ResolvedEnvironment, group: Sequence[ActionRequest], folder: str, timeout_s: float
    ) -> CandidateResult:
        last = group[-1]
        request = {
            "tool": "fused",
            "stage": _STAGE,
            "params": {"actions": [each.document() for each in group]},
            "inputs": {},
            "outputs": last.outputs,
        }
        Path(folder, REQUEST_FILE).write_text(json.dumps(request), encoding="utf-8")
        begun = Path(folder, BEGUN)
        trouble = ""
        for _ in range(_ATTEMPTS):
            begun.write_bytes(b"")
            trouble = self._answer(self._worker(environment, group), folder, timeout_s)
            if not trouble:
                break
            self._end(environment)
        if trouble:
            raise InfrastructureError(f"a candidate could not run: {trouble}")
        paths = {name: path.partition("/")[2] for name, path in last.outputs.items()}
        try:
            outcome = outcome_of(folder, _STAGE, paths)
        except DamagedFolderError as error:
            outcome = error.outcome
        at = group[max(begun.stat().st_size - 1, 0)]
        return CandidateResult(outcome=_at_stage(outcome, at.stage), label=at.label)

    def _answer(self, worker: WorkerProcess, folder: str, timeout_s: float) -> str:
        """Have a worker execute the request in a folder. Return why the machine could not; empty if it did."""
        try:
            worker.send(worker.request(folder, None, timeout_s=timeout_s, memory_mb=self._limits.memory_mb))
            while True:
                answers, sound = worker.receive()
                for _, response in answers:
                    return response.trouble
                if not sound:
                    return worker.last_output() or "its worker has ended"
        except BrokenPipeError:
            return worker.last_output() or "its worker has ended"

    def _worker(self, environment: ResolvedEnvironment, group: Sequence[ActionRequest]) -> WorkerProcess:
        found = self._workers.get(environment.digest)
        if found is None:
            preload = Preload({"fused", *(each.tool for each in group)}, set())
            found = self._workers[environment.digest] = start_worker(
                environment,
                preload,
                store=self._home.packages,
                bytecode=self._home.bytecode,
                scratch=self._scratch,
            )
        return found

    def _end(self, environment: ResolvedEnvironment) -> None:
        worker = self._workers.pop(environment.digest)
        worker.kill()
        worker.stop()

    def close(self) -> None:
        with ExitStack() as stack:
            for worker in self._workers.values():
                stack.callback(worker.stop)
            self._workers = {}


def _at_stage(outcome: Mapping[str, str], stage: str) -> dict[str, str]:
    """Return the outcome of a request as the action has it that failed."""
    if outcome["outcome"] in ("ok", Outcome.INFRA_ERROR, Outcome.SKIPPED):
        return dict(outcome)
    word = failed_outcome(stage) if outcome["outcome"] == failed_outcome(_STAGE) else outcome["outcome"]
    reason = outcome["reason"].replace(f"while at stage {_STAGE}", f"while at stage {stage}")
    return {**outcome, "outcome": word, "stage": stage, "reason": reason}
