"""What an executor is asked for and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mlir_matrix.actions.runtime.child import failure
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.sandbox import Prepared
from mlir_matrix.plan.graph import Action

if TYPE_CHECKING:
    from mlir_matrix.environments.package import PackageProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one action may use, and how many run at a time."""

    jobs: int
    timeout_s: float = 120.0
    memory_mb: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An action that needs no more work: its result, and whether it came from the cache."""

    result: Result
    cached: bool
    #: True where this action itself was executed, rather than failed before it began or found to be another's twin.
    executed: bool = False


#: Tools that build what is ours, not what is under test: no limit on tests makes them fail, and no test is to blame.
BUILDING = frozenset({"link_kit"})


def infrastructure(action: Action, reason: str, diagnostics: str = "") -> Done:
    """An action that the machine could not execute."""
    return Done(result=Result(outcome=failure(action.stage, "infra-error", reason, diagnostics)), cached=False)


def lacking(action: Action, environment: UnavailableEnvironment) -> Done:
    """An action whose environment cannot be had here."""
    reason = f"this machine lacks what it needs: {environment.reason}"
    return Done(result=Result(outcome=failure(action.stage, "skipped", reason)), cached=False)


def passed_on(action: Action, done: Mapping[str, Done]) -> Done | None:
    """What an action comes to that waits for one that failed; None where ``done`` has none such."""
    for source in action.sources:
        upstream = done[source]
        if not upstream.result.ok:
            return Done(result=Result(outcome=upstream.result.outcome), cached=upstream.cached)
    return None


class Observer(Protocol):
    """Who watches a run. ``action_done`` returns True to stop it."""

    def action_started(self, action: Action) -> None: ...
    def action_done(self, action: Action, done: Done) -> bool: ...
    def package(self, progress: PackageProgress) -> None: ...
    def note(self, text: str) -> None: ...
    def tick(self, waiting: int = 0) -> None:
        """Note that time goes by; ``waiting``: how many actions wait for other runs that execute them."""


@dataclass(slots=True, eq=False)
class Job:
    """An action that is being executed, with the others that turned out to be the same one."""

    action: Action
    prepared: Prepared
    environment: ResolvedEnvironment
    folder: str = ""
    #: Copies of large inputs, which the crew moves into the folder, by their path there.
    copies: Mapping[str, str] = field(default_factory=dict)
    twins: list[Action] = field(default_factory=list)
    #: How often it was lost: its worker ended, or what it left could not be read.
    losses: int = 0
