"""Tasks, jobs, finished actions and the events that report them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.child import failure
from mlir_matrix.base.events import Event
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.folders import Prepared
from mlir_matrix.plan.graph import PlannedAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A finished action: its result, and whether it came from the cache."""

    result: Result
    cached: bool
    #: True if this action was executed: it is not a twin, and did not fail before it started.
    executed: bool = False


#: A function that returns the end of an action that is not executed, for a reason: one of the two below.
NotExecuted = Callable[[PlannedAction, str], Done]


def infra_error(action: PlannedAction, reason: str, diagnostics: str = "") -> Done:
    """Return the end of an action that this machine could not execute."""
    return Done(result=Result(outcome=failure(action.stage, Outcome.INFRA_ERROR, reason, diagnostics)), cached=False)


def unavailable(action: PlannedAction, reason: str) -> Done:
    """Return the end of an action whose environment is unavailable on this machine."""
    outcome = failure(action.stage, Outcome.SKIPPED, f"unavailable on this machine: {reason}")
    return Done(result=Result(outcome=outcome), cached=False)


def inherited_failure(action: PlannedAction, done: Mapping[str, Done]) -> Done | None:
    """Return the failure that an action inherits, or None. ``done`` has its sources up to the first failed one."""
    for source in action.sources:
        upstream = done[source]
        if not upstream.result.ok:
            return Done(result=Result(outcome=upstream.result.outcome), cached=upstream.cached)
    return None


@dataclass(frozen=True, slots=True)
class ActionStarted(Event):
    """An action is being executed."""

    action: PlannedAction


@dataclass(frozen=True, slots=True)
class ActionDone(Event):
    """An action is finished. Sent twice if its outputs were lost and it was executed again."""

    action: PlannedAction
    done: Done


@dataclass(slots=True, eq=False)
class Task:
    """An action to execute, with its twins: actions with the same key."""

    action: PlannedAction
    prepared: Prepared
    environment: ResolvedEnvironment
    twins: list[PlannedAction] = field(default_factory=list)
    #: Number of lost workers and unreadable outputs.
    losses: int = 0


@dataclass(slots=True, eq=False)
class Job:
    """What one process executes: actions, each of which reads outputs of the one before. It ends with the first failure.

    The key of an action is known once the one before is finished. The job then goes on with it, or ends.
    """

    actions: Sequence[PlannedAction]
    environment: ResolvedEnvironment
    #: The current action; None where the job is being ended.
    task: Task | None
    #: Number of the current action.
    at: int = 0
    #: The pool chooses it.
    folder: str = ""
    #: Copies of large inputs of the first action, which the pool moves into its folder, by their path there.
    copies: Mapping[str, str] = field(default_factory=dict)
    #: Whether large outputs of the current action are being hashed, and whether the worker has ended meanwhile.
    hashing: bool = False
    lost: bool = False
