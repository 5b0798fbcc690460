"""The Bazel executor: write a workspace with the plan, build it, read the result of each action.

Bazel decides where each action runs (in a warm worker or a remote service) and which results it caches. Results of actions
are the same files as those of the local executor.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from mlir_matrix.actions.runtime.bazel_layout import OUTCOME_MARK
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Event as RunEvent
from mlir_matrix.base.events import Listener, Note, PackageProgress, Tick, ignore
from mlir_matrix.base.fingerprint import cpu_digest
from mlir_matrix.base.names import did_you_mean, printable, split_pins
from mlir_matrix.bazel.bep import BuildFinished, Completed, Event, Failed, Made
from mlir_matrix.bazel.client import BazelBuild, StallDetector, flags_of
from mlir_matrix.bazel.workspace import ACTIONS, REPOSITORY, action_label_of, label_of, place_of, write_workspace
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installer import install_all
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.environments.scratch import make_scratch, new_scratch
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, LostBlob, Result, read_bytes
from mlir_matrix.execute.c_libraries import builds_c_library
from mlir_matrix.execute.job import ActionDone, Done, NotExecuted, infra_error, inherited_failure, unavailable
from mlir_matrix.execute.local_pool import LocalPool
from mlir_matrix.execute.scheduler import Scheduler
from mlir_matrix.plan.graph import Graph, PlannedAction
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import ExecutorOptions, Limits

#: Names of Bazel's exit codes after a build, whether or not targets failed.
_WENT = frozenset({"SUCCESS", "BUILD_FAILURE"})
#: Seconds after which an idle server of Bazel ends.
_IDLE_S = 900


class BazelExecutor:
    """Runs the tests of a plan by Bazel."""

    def __init__(
        self,
        session: Session,
        plan: PlannedTests,
        *,
        locate: Callable[[Listener], Sequence[str]],
        options: ExecutorOptions,
        environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment],
        limits: Limits,
    ) -> None:
        """``locate`` returns the words that start Bazel, after downloading it if it is missing."""
        self._session = session
        self._plan = plan
        self._locate = locate
        self._options = options
        self._environments = environments
        self._limits = limits
        self._listener: Listener = ignore
        self._bazel: Sequence[str] = ()
        self._folder = session.home.cache / "bazel"
        #: Paths of results, usages and verdicts, by their names below ``_actions/``.
        self._files: dict[str, str] = {}
        self._failed: dict[str, Done] = {}
        #: The actions that build C libraries, which run on this machine.
        self._libraries: dict[str, Done] = {}
        self._blobs: dict[str, str] = {}
        #: The first error line of Bazel.
        self._complaint = ""
        self._actions = {action_label_of(name): action for name, action in plan.graph.actions.items()}
        self._tests = {label_of(test): verdict for test, verdict in plan.verdicts.items()}
        #: The tests of the build.
        self._built: frozenset[str] = frozenset()
        #: The reason why the remote service was given up, or an empty string.
        self._stalled = ""
        self.done: dict[str, Done] = {}

    def run(self, listener: Listener = ignore) -> dict[str, Done]:
        """Execute the plan. Return the finished actions: all of them unless the listener ended the run."""
        self._listener = listener
        self._bazel = self._locate(listener)
        lost = self._install_environments()
        tests = []
        for test, verdict in self._plan.verdicts.items():
            chain = self._chain(verdict)
            if not any(action.environment in lost for action in chain):
                tests.append(test)
            elif self._report_unavailable(chain, lost):
                return self.done
        if tests:
            self._build_c_libraries(tests)
            self._build(tests)
        return self.done

    def read_blob(self, digest: str) -> bytes:
        """Return the bytes of a verdict. Raise LostBlob."""
        data = read_bytes(self._blobs[digest]) if digest in self._blobs else b""
        if digest_bytes(data) != digest:
            raise LostBlob(digest, "differs from what Bazel reported")
        return data

    def rebuild(self, lost: LostBlob) -> None:
        """Raise InfrastructureError: Bazel has damaged its own output."""
        raise InfrastructureError(f"the output of Bazel cannot be read: {lost}") from lost

    def relied(self) -> None:
        """Return None: the results depend on Bazel's files."""

    def download_outputs(self, tests: Sequence[str]) -> None:
        """Add the outputs of these tests' actions to the action cache."""
        store = ActionCache(self._session.home.actions)
        store.prepare()
        # One target per action: Bazel downloads no outputs of a failed target, and would retry an action that timed out.
        made = {
            action_label_of(action.id): None
            for test in tests
            if test in self._built and not self._stalled
            for action in self._chain(self._plan.verdicts[test])
            if action.id not in self._failed and f"{place_of(action.id)}/result.json" in self._files
        }
        for event in self._events([*made], "default") if made else ():
            if isinstance(event, Made) and "/out/" in event.name.partition(ACTIONS)[2]:
                store.add_copy(event.path)
        store.record_growth()

    # Environments -------------------------------------------------------------------------------------------------

    def _install_environments(self) -> dict[str, tuple[NotExecuted, str]]:
        """Install missing packages before Bazel links them. Return how actions of the other environments end, and why.

        Raise DiskFullError.
        """
        lost = {
            name: (unavailable, found.reason)
            for name, found in self._environments.items()
            if isinstance(found, UnavailableEnvironment)
        }
        wanted = [found for found in self._environments.values() if isinstance(found, ResolvedEnvironment)]
        errors: dict[str, tuple[NotExecuted, str]] = {}

        def listen(event: RunEvent) -> bool | None:
            if isinstance(event, PackageProgress) and event.error:
                errors[event.package] = (unavailable if event.unavailable else infra_error, event.error)
            return self._listener(event)

        home = self._session.home
        install_all(wanted, home.packages, Artifacts(home.artifacts), listen)
        missing = ((found.name, unit.label) for found in wanted for unit in found.missing(home.packages))
        return lost | {name: errors[label] for name, label in missing if label in errors}

    def _report_unavailable(self, chain: Sequence[PlannedAction], lost: Mapping[str, tuple[NotExecuted, str]]) -> bool:
        """Report the actions of a test with an unavailable environment, without running any. True ends the run."""
        for action in chain:
            done = inherited_failure(action, self.done) or _succeeded(action)
            if done.result.ok and action.environment in lost:
                end, reason = lost[action.environment]
                done = end(action, reason)
            if self._settle(action, done):
                return True
        return False

    def _build_c_libraries(self, tests: Sequence[str]) -> None:
        """Build missing C libraries on this machine: a remote service would read 17,000 files of Zig for each."""
        chains = (self._chain(self._plan.verdicts[test]) for test in tests)
        actions = {action.id: action for chain in chains for action in chain if builds_c_library(action)}
        store = ActionCache(self._session.home.actions)

        def listen(event: RunEvent) -> bool | None:
            if not isinstance(event, ActionDone):
                return self._listener(event)
            # The workspace gets a copy.
            try:
                for digest in event.done.result.outputs.values():
                    store.read_blob(digest)
            except LostBlob as lost:
                scheduler.rebuild(lost)
                return None
            return self._settle(event.action, event.done)

        scheduler = Scheduler(
            Graph(actions=actions),
            roots=self._session.catalog.roots,
            environments=self._environments,
            home=self._session.home,
            limits=self._limits,
            make_pool=LocalPool,
        )
        self._libraries = scheduler.run(listen)

    # The build ----------------------------------------------------------------------------------------------------

    def _build(self, tests: Sequence[str]) -> None:
        self._began = time.time()
        self._built = frozenset(tests)
        for event in self._events([label_of(test) for test in tests], "matrix_results"):
            if self._take(event):
                return
            self._listener(Tick())
        why = self._stalled or f"Bazel did not build it: {self._complaint or 'no reason given'}"
        unreported = Completed(label="", reason=why)
        for test in tests:
            self._finish(self._plan.verdicts[test], unreported)

    def _take(self, event: Event | None) -> bool:
        """Handle an event of the build. True ends the run."""
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
        """Build an output group of targets and yield the events. Raise InfrastructureError if Bazel itself fails."""
        libraries = {
            action: digest
            for action, done in self._libraries.items()
            if done.result.ok
            for digest in done.result.outputs.values()
        }
        workspace = write_workspace(self._session, self._plan, self._properties(), libraries)
        scratch = make_scratch(new_scratch(self._session.home), self._session.home)
        stream, log, targets = (scratch / name for name in ("events", "log", "targets"))
        targets.write_text("".join(f"@{REPOSITORY}//{label}\n" for label in labels), encoding="utf-8")
        flags = flags_of(
            self._options,
            self._limits.jobs,
            stream=stream,
            cache=self._folder / "results",
            settings=self._settings(),
            groups=groups,
        )
        command = [
            *self._bazel,
            f"--output_user_root={self._folder / 'root'}",
            f"--max_idle_secs={_IDLE_S}",
            "--host_jvm_args=-XX:TieredStopAtLevel=1",
            "--host_jvm_args=-XX:+UseSerialGC",
            "build",
            *flags,
            f"--target_pattern_file={targets}",
        ]
        build = BazelBuild(command, workspace, log, stream)
        stall = StallDetector(self._options.remote, self._options.properties)
        code = ""
        try:
            for event in build.events():
                if event is not None:
                    stall.progressed()
                elif note := stall.note():
                    self._listener(Note(note))
                if stalled := stall.end():
                    self._stalled = stalled
                    return
                if isinstance(event, BuildFinished):
                    code = event.code
                yield event
            self._complaint = next(iter(build.errors()), "")
            if code not in _WENT:
                raise build.failure(self._session.home.state / "bazel.log")
        finally:
            build.close()
            remove_folder(str(scratch))

    def _properties(self) -> dict[str, str]:
        """Return the execution properties of this plan's environments. Raise UsageError for an unknown environment."""
        found = {}
        for key, value in self._options.properties:
            environment, mark, _ = key.partition(":")
            if not mark or environment in self._environments:
                found[key] = value
            elif split_pins(environment)[0] not in self._session.catalog.environments:
                hint = did_you_mean(environment, self._session.catalog.environments)
                raise UsageError(
                    f"--exec-property {printable(key)}: there is no environment {printable(environment)}{hint}"
                )
        return found

    def _settings(self) -> list[str]:
        # Native code is for the CPU of this machine or of the service.
        cpu = self._options.remote or cpu_digest()
        values = {"cpu": cpu, "memory_mb": self._limits.memory_mb, "timeout_s": f"{self._limits.timeout_s:g}"}
        return [f"--@{REPOSITORY}//:{name}={value}" for name, value in values.items()]

    def _note_failure(self, event: Failed) -> None:
        """Note an action whose command failed. Bazel does not cache such results."""
        action = self._actions.get(event.label.partition("//")[2])
        if action is None:
            return
        line = next((line for line in reversed(event.output.splitlines()) if line.startswith(OUTCOME_MARK)), "")
        if line:
            done = Done(result=Result(outcome=json.loads(line.removeprefix(OUTCOME_MARK))), cached=False, executed=True)
        else:
            said = event.output.strip().splitlines()
            done = infra_error(action, f"Bazel could not execute it: {event.reason or (said or ['no reason'])[-1]}")
        self._failed[action.id] = done

    # Results of tests ---------------------------------------------------------------------------------------------

    def _chain(self, verdict: str) -> list[PlannedAction]:
        return [self._plan.graph.actions[identifier] for identifier in self._plan.graph.needed_by(verdict)]

    def _finish(self, verdict: str, event: Completed) -> bool:
        """Report the actions of a test. True ends the run."""
        chain = (action for action in self._chain(verdict) if action.id not in self.done)
        return any(self._settle(action, self._done(action, verdict, event)) for action in chain)

    def _settle(self, action: PlannedAction, done: Done) -> bool:
        if action.id in self.done:
            return False
        self.done[action.id] = done
        return bool(self._listener(ActionDone(action, done)))

    def _done(self, action: PlannedAction, verdict: str, event: Completed) -> Done:
        if action.id in self._failed:
            return self._failed[action.id]
        failed = inherited_failure(action, self.done)
        if failed is not None:
            return failed
        name = place_of(action.id)
        if f"{name}/result.json" in self._files:
            return self._read(name, action)
        if action.id == verdict:
            return infra_error(action, event.reason or "Bazel built the test but reported no result")
        # A later action failed, or one that does not read this one.
        return _succeeded(action)

    def _read(self, name: str, action: PlannedAction) -> Done:
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
            return infra_error(action, f"the output of Bazel cannot be read: {error}")


def _succeeded(action: PlannedAction) -> Done:
    """Return the end of an action without a failure, whose result is unknown."""
    return Done(result=Result(outcome={"outcome": "ok", "stage": action.stage}), cached=True)
