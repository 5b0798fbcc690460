"""The Bazel executor: writes a workspace with the plan, has Bazel build it, reads what becomes of each action.

Bazel decides what runs where (warm workers here, or a service elsewhere) and what is known already. What it leaves are the
results of actions as files; they are what the local executor would have found.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mlir_matrix.actions.runtime.bazel_layout import MARK
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.catalog.pins import MARK as MARK_OF_PINS
from mlir_matrix.digest import digest_bytes
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install.installer import install_all
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.action_cache import LostBlob, Result, Store, read_bytes
from mlir_matrix.execute.bazel.bep import Completed, Event, Failed, Finished, Made
from mlir_matrix.execute.bazel.client import Build, flags_of
from mlir_matrix.execute.bazel.locate import Bazel
from mlir_matrix.execute.bazel.patience import Patience
from mlir_matrix.execute.bazel.workspace import (
    ACTIONS,
    REPOSITORY,
    action_label_of,
    label_of,
    place_of,
    write_workspace,
)
from mlir_matrix.execute.job import Done, Limits, Observer, infrastructure, lacking, passed_on
from mlir_matrix.execute.keys import cpu_digest
from mlir_matrix.execute.sandbox import make_scratch
from mlir_matrix.names import did_you_mean, printable
from mlir_matrix.plan.graph import Action
from mlir_matrix.plan.planner import Plan
from mlir_matrix.session import Session

if TYPE_CHECKING:
    from mlir_matrix.judge.run import Means

#: How Bazel's exit codes are called where the build itself went its way.
_WENT = frozenset({"SUCCESS", "BUILD_FAILURE"})
#: Seconds after which a server of Bazel ends that nobody asks for anything.
_IDLE_S = 900


class BazelExecutor:
    """Runs the tests of a plan by Bazel."""

    def __init__(
        self,
        session: Session,
        plan: Plan,
        *,
        bazel: Bazel,
        means: Means,
        environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment],
        limits: Limits,
        observer: Observer,
    ) -> None:
        self._session = session
        self._plan = plan
        self._bazel = bazel
        self._means = means
        self._environments = environments
        self._limits = limits
        self._observer = observer
        self._folder = session.home.cache / "bazel"
        #: What Bazel reports: results, usages and verdicts, by the name of the file below the actions.
        self._files: dict[str, str] = {}
        self._failed: dict[str, Done] = {}
        self._blobs: dict[str, str] = {}
        #: The first thing that Bazel complained about.
        self._complaint = ""
        self._actions = {action_label_of(name): action for name, action in plan.graph.actions.items()}
        self._tests = {label_of(test): verdict for test, verdict in plan.verdicts.items()}
        #: The tests that Bazel was asked for.
        self._built: frozenset[str] = frozenset()
        #: Why the service is no longer waited for.
        self._gone = ""
        self.done: dict[str, Done] = {}

    def run(self) -> dict[str, Done]:
        """Execute; returns what was done, which is everything unless an observer stopped the run."""
        lost = self._bring_environments()
        tests = []
        for test, verdict in self._plan.verdicts.items():
            chain = self._chain(verdict)
            if not any(action.environment in lost for action in chain):
                tests.append(test)
            elif self._lose(chain, lost):
                return self.done
        if tests:
            self._build(tests)
        return self.done

    def read_blob(self, digest: str) -> bytes:
        """A verdict's bytes. Raises LostBlob."""
        data = read_bytes(self._blobs[digest]) if digest in self._blobs else b""
        if digest_bytes(data) != digest:
            raise LostBlob(digest, "is not what Bazel said")
        return data

    def bring(self, tests: Sequence[str]) -> None:
        """Have what the actions of these tests made in the store, for people to look at."""
        store = Store(self._session.home.actions)
        store.prepare()
        # Each by itself: Bazel brings nothing of a target that fails, and would try again what ran out of time.
        made = {
            action_label_of(action.id): None
            for test in tests
            if test in self._built and not self._gone
            for action in self._chain(self._plan.verdicts[test])
            if action.id not in self._failed and f"{place_of(action.id)}/result.json" in self._files
        }
        for event in self._events([*made], "default") if made else ():
            if isinstance(event, Made) and "/out/" in event.name.partition(ACTIONS)[2]:
                store.add_copy(event.path)

    # Environments -------------------------------------------------------------------------------------------------

    def _bring_environments(self) -> dict[str, str]:
        """Fetch what environments lack, with progress, before Bazel links it; names of those that cannot be had, and why."""
        wanted = [found for found in self._environments.values() if isinstance(found, ResolvedEnvironment)]
        lost = {name: "" for name, found in self._environments.items() if isinstance(found, UnavailableEnvironment)}
        home = self._session.home
        errors = install_all(
            wanted, home.packages, Artifacts(home.artifacts), self._observer.package, self._observer.tick
        )
        missing = ((found.name, unit.label) for found in wanted for unit in found.missing(home.packages))
        return lost | {name: errors[label] for name, label in missing if label in errors}

    def _lose(self, chain: Sequence[Action], lost: Mapping[str, str]) -> bool:
        """Tell what the actions of a test come to whose environments cannot be had; True where the observer has enough."""
        # What might run is of no interest; what waits for the rest passes that on.
        return any(
            self._settle(action, passed_on(action, self.done) or self._lost(action, lost) or _well(action))
            for action in chain
        )

    def _lost(self, action: Action, lost: Mapping[str, str]) -> Done | None:
        environment = self._environments[action.environment]
        if isinstance(environment, UnavailableEnvironment):
            return lacking(action, environment)
        reason = lost.get(action.environment)
        return infrastructure(action, reason) if reason is not None else None

    # The build ----------------------------------------------------------------------------------------------------

    def _build(self, tests: Sequence[str]) -> None:
        self._began = time.time()
        self._built = frozenset(tests)
        for event in self._events([label_of(test) for test in tests], "matrix_results"):
            if self._take(event):
                return
            self._observer.tick()
        why = self._gone or f"Bazel did not come to it: {self._complaint or 'it does not say why'}"
        unsaid = Completed(label="", success=False, reason=why)
        for test in tests:
            self._finish(self._plan.verdicts[test], unsaid)

    def _take(self, event: Event | None) -> bool:
        """Note what an event tells; True where the observer has enough."""
        match event:
            case Made():
                _, found, name = event.name.partition(ACTIONS)
                if found:
                    self._files[name] = event.path
            case Failed():
                self._note_failure(event)
            case Completed():
                verdict = self._tests.get(event.label.partition("//")[2])
                return verdict is not None and self._finish(verdict, event)
        return False

    def _events(self, labels: Sequence[str], groups: str) -> Iterator[Event | None]:
        """Have Bazel build a group of files of targets, and tell what happens. Raises InfrastructureError where Bazel cannot."""
        workspace = write_workspace(self._session, self._plan, self._properties())
        scratch = make_scratch(self._session.home)
        stream, log, targets = (scratch / name for name in ("events", "log", "targets"))
        targets.write_text("".join(f"@{REPOSITORY}//{label}\n" for label in labels), encoding="utf-8")
        flags = flags_of(
            jobs=self._limits.jobs,
            remote=self._means.remote,
            remote_cache=self._means.remote_cache,
            stream=stream,
            cache=self._folder / "results",
            settings=self._settings(),
            groups=groups,
        )
        root = f"--output_user_root={self._folder / 'root'}"
        command = [
            *self._bazel.command,
            root,
            f"--max_idle_secs={_IDLE_S}",
            "build",
            *flags,
            f"--target_pattern_file={targets}",
        ]
        build = Build(command, workspace, log, stream)
        patience = Patience(self._means.remote, self._means.properties)
        code = ""
        try:
            for event in build.events():
                if event is not None:
                    patience.heard()
                elif note := patience.complaint():
                    self._observer.note(note)
                if gone := patience.given_up():
                    self._gone = gone
                    return
                if isinstance(event, Finished):
                    code = event.code
                yield event
            build.wait()
            self._complaint = next(iter(build.errors()), "")
            if code not in _WENT:
                raise build.failure(self._session.home.state / "bazel.log")
        finally:
            build.close()
            remove_folder(str(scratch))

    def _properties(self) -> dict[str, str]:
        """What the service is told of this plan's environments. Raises UsageError for an environment that there is none of."""
        found = {}
        for key, value in self._means.properties:
            environment, mark, _ = key.partition(":")
            if not mark or environment in self._environments:
                found[key] = value
            elif environment.partition(MARK_OF_PINS)[0] not in self._session.catalog.environments:
                hint = did_you_mean(environment, self._session.catalog.environments)
                raise UsageError(
                    f"--exec-property {printable(key)}: there is no environment {printable(environment)}{hint}"
                )
        return found

    def _settings(self) -> list[str]:
        # Whose CPU it is that code is made for: this machine's, or that of the service's.
        cpu = self._means.remote or cpu_digest()
        values = {"cpu": cpu, "memory_mb": self._limits.memory_mb, "timeout_s": f"{self._limits.timeout_s:g}"}
        return [f"--@{REPOSITORY}//:{name}={value}" for name, value in values.items()]

    def _note_failure(self, event: Failed) -> None:
        """An action that failed as a command: for the moment's sake, and nobody keeps it."""
        action = self._actions.get(event.label.partition("//")[2])
        if action is None:
            return
        line = next((line for line in reversed(event.output.splitlines()) if line.startswith(MARK)), "")
        if line:
            done = Done(result=Result(outcome=json.loads(line.removeprefix(MARK))), cached=False, executed=True)
        else:
            said = event.output.strip().splitlines()
            done = infrastructure(action, f"Bazel could not execute it: {event.reason or (said or ['no reason'])[-1]}")
        self._failed[action.id] = done

    # What became of tests -----------------------------------------------------------------------------------------

    def _chain(self, verdict: str) -> list[Action]:
        return [self._plan.graph.actions[identifier] for identifier in self._plan.graph.needed_by(verdict)]

    def _finish(self, verdict: str, event: Completed) -> bool:
        """Tell what became of the actions of a test; True where the observer has enough."""
        for action in self._chain(verdict):
            if action.id not in self.done and self._settle(action, self._done(action, verdict, event)):
                return True
        return False

    def _settle(self, action: Action, done: Done) -> bool:
        if action.id in self.done:
            return False
        self.done[action.id] = done
        return self._observer.action_done(action, done)

    def _done(self, action: Action, verdict: str, event: Completed) -> Done:
        if action.id in self._failed:
            return self._failed[action.id]
        failed = passed_on(action, self.done)
        if failed is not None:
            return failed
        name = place_of(action.id)
        if f"{name}/result.json" in self._files:
            return self._read(name, action)
        if action.id == verdict:
            return infrastructure(action, event.reason or "Bazel built the test and does not say what became of it")
        # What failed comes after it, or it is of no interest to what did.
        return _well(action)

    def _read(self, name: str, action: Action) -> Done:
        try:
            result = json.loads(read_bytes(self._files[f"{name}/result.json"]))
            beside = json.loads(read_bytes(self._files[f"{name}/usage.json"]))
            if "verdict" in result["outputs"]:
                self._blobs[result["outputs"]["verdict"]] = self._files[f"{name}/out/{action.outputs['verdict']}"]
            executed = beside["ended"] >= self._began
            return Done(
                result=Result(
                    outcome=result["outcome"],
                    outputs=result["outputs"],
                    usage=beside["usage"],
                    metrics=beside.get("metrics", {}),
                ),
                cached=not executed,
                executed=executed,
            )
        except (OSError, ValueError, LookupError, TypeError) as error:
            return infrastructure(action, f"what Bazel made cannot be read: {error}")


def _well(action: Action) -> Done:
    """An action of which nobody says what it made, and nothing that it failed."""
    return Done(result=Result(outcome={"outcome": "ok", "stage": action.stage}), cached=True)
