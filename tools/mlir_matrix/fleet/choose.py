"""Choose and order the tests of a machine: tests that it can run, that it wants, and that fit its budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from mlir_matrix.base.names import lacking_devices, split_pins, test_glob
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.machines import Has, Machine
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.routes import X86_LEVELS
from mlir_matrix.fleet.durations import Estimates, Snapshot
from mlir_matrix.plan.graph import BUILDING
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import DEFAULT_MEMORY_MB

#: A test that failed within this number of days comes before the others.
RECENT_DAYS = 14
#: The programs that the provider ``source`` runs.
_BUILDERS = ("git", "cmake", "ninja", "c++")


class Left(StrEnum):
    """Why a machine does not run a test."""

    CANNOT = "cannot run here"
    UNWANTED = "not wanted"
    OVER = "over the budget"


@dataclass(frozen=True)
class MachineChoice:
    """The tests of a machine: first those that run, in their order, then the others, with reasons."""

    tests: Sequence[Test]
    #: Why it leaves out tests that could run elsewhere, by identifier.
    left: Mapping[str, Left]
    #: Estimated minutes of the machine.
    minutes: float
    #: Minutes of the required tests alone, if they exceed the budget; else 0.
    excess: float

    @property
    def counts(self) -> dict[Left, int]:
        counts = Counter(self.left.values())
        return {left: counts[left] for left in Left if counts[left]}


def choose_for(
    machine: Entry[Machine],
    tests: Iterable[Test],
    *,
    catalog: Catalog,
    pins: Pins,
    history: Snapshot,
    date: str,
    actions: Callable[[Test], Collection[str]],
    devices: Collection[str] = (),
    memory_mb: int = DEFAULT_MEMORY_MB,
) -> MachineChoice:
    """Choose among tests.

    ``pins``: those of the plan. ``date``: the current time, in UTC. ``actions`` returns the actions of a test, so that an action
    that several tests share counts once. ``devices``: those granted to kernels. ``memory_mb``: the limit of an action, in MiB.
    """
    whys = (_Abilities(machine, catalog, pins).lack, _Wishes(machine, catalog, devices).refusal)
    able: list[Test] = []
    others: list[Test] = []
    left: dict[str, Left] = {}
    for test in tests:
        reason = ""
        for kind, why in zip((Left.CANNOT, Left.UNWANTED), whys, strict=True):
            if test.selected and not reason and (reason := why(test)):
                left[test.id] = kind
        (able if test.selected and not reason else others).append(left_out(test, reason) if reason else test)
    rows = _ordered(machine, able, history, date)
    minute = 60.0 * actions_at_once(machine.document.has, memory_mb)
    chosen, over, seconds, required = _fit(machine, rows, minute, Estimates(history).seconds, actions)
    left |= {test.id: Left.OVER for test in over}
    budget = machine.document.wants.budget_minutes
    excess = required / minute if budget is not None and required / minute > budget else 0.0
    return MachineChoice([*chosen, *over, *others], left, seconds / minute, excess)


def actions_at_once(has: Has, memory_mb: int) -> int:
    """Return how many actions a machine runs at a time: one a core, if its memory has room for their limits, in MiB.

    Few actions reach their limit, so that a part of the room counts as room.
    """
    return max(1, min(has.cores, -(-has.memory_gib * 1024 // memory_mb)))


def timed_actions(plan: PlannedTests, test: Test) -> list[str]:
    """Return the actions of a test whose seconds are recorded."""
    actions = plan.graph.actions
    return [name for name in plan.graph.needed_by(plan.verdicts[test.id]) if actions[name].tool not in BUILDING]


def left_out(test: Test, reason: str) -> Test:
    """Return a test that does not run, for a reason."""
    return replace(test, selected=False, outcome=None, expectation=None, reason=reason)


def _matching(globs: Iterable[str]) -> Callable[[Test], bool]:
    """Return a function that returns whether a test matches any glob. A glob without pins also matches tests with pins."""
    found = [test_glob(glob) for glob in globs]
    return lambda test: any(glob.matches(test.id) for glob in found)


class _Abilities:
    """Compares the declarations of targets and components with the properties of a machine."""

    def __init__(self, machine: Entry[Machine], catalog: Catalog, pins: Pins) -> None:
        self._machine, self._catalog, self._pins = machine, catalog, pins
        self._has = machine.document.has
        self._programs = {*self._has.tools, *self._has.emulators}
        self._environments: dict[str, str] = {}
        self._targets: dict[str, str] = {}
        self._routes: dict[int, str] = {}

    def lack(self, test: Test) -> str:
        """Return why the machine cannot run a test; empty if it can."""
        if test.route is None or test.tested_property is not None:
            return self._lack(test)
        # By identity: most tests of a cell share one route, which exists as long as they do.
        if (route := id(test.route)) not in self._routes:
            self._routes[route] = self._lack(test)
        return self._routes[route]

    def _lack(self, test: Test) -> str:
        if reason := next(filter(None, map(self._target, _targets(test))), ""):
            return reason
        if reason := self._level(test):
            return reason
        return next(filter(None, (self._environment(name) for name in _environments(test))), "")

    def _target(self, name: str) -> str:
        if name in self._catalog.targets and name not in self._targets:
            target, has = self._catalog.targets[name].document, self._has
            missing = lacking_devices(target.devices, has.devices)
            reason = ""
            if has.cpu.architecture not in target.machine:
                wanted = " or ".join(target.machine)
                reason = f"target {name} runs on {wanted}; {self._at('cpu', 'architecture')}: {has.cpu.architecture}"
            elif missing:
                reason = f"target {name} needs {' and '.join(missing)}, which {self._at('devices')} does not have"
            self._targets[name] = reason
        return self._targets.get(name, "")

    def _level(self, test: Test) -> str:
        """Return why kernels for the machine's own architecture use instructions that its CPU may lack."""
        target = self._catalog.targets.get(test.target)
        if test.route is None or target is None or target.document.runner:
            return ""
        own = self._has.cpu.level or X86_LEVELS[0]
        beyond = test.route.beyond(own) if own in X86_LEVELS else ""
        return f"{beyond}; {self._at('cpu', 'level')}: {own}" if beyond else ""

    def _environment(self, reference: str) -> str:
        """Return which program of the machine a component of an environment needs."""
        if reference not in self._environments:
            name, suffix = split_pins(reference)
            pins = self._pins.override(suffix)
            reason = ""
            for component, release in {**pins.needs(name), **pins.releases(name)}.items():
                entry = self._catalog.components[component].document
                provider = release.provider or entry.provider
                building = _BUILDERS[:1] if entry.build and entry.build.command else _BUILDERS
                programs = {"host": release.programs or entry.programs, "source": building}.get(provider, ())
                missing = [program for program in programs if program not in self._programs]
                if missing and not reason:
                    of = f"{component} {release.release} (provider {provider})"
                    reason = f"{of} needs {' and '.join(missing)}, which {self._at('tools')} does not have"
            self._environments[reference] = reason
        return self._environments[reference]

    def _at(self, *keys: str) -> str:
        return f"machine {self._machine.name} ({self._machine.source.position('has', *keys)})"


class _Wishes:
    """The tests that a machine leaves out, and the devices that it grants."""

    def __init__(self, machine: Entry[Machine], catalog: Catalog, devices: Collection[str]) -> None:
        self._rules = [
            (_matching(rule.match), rule.reason, machine.source.position("wants", "leave-out", number))
            for number, rule in enumerate(machine.document.wants.leave_out)
        ]
        at = f"machine {machine.name} ({machine.source.position('wants', 'devices')})"
        granted = {*devices, *machine.document.wants.devices}
        lacking = {name: lacking_devices(entry.document.devices, granted) for name, entry in catalog.targets.items()}
        self._withheld = {
            name: f"target {name} needs {' and '.join(globs)}, which {at} does not grant"
            for name, globs in lacking.items()
            if globs
        }

    def refusal(self, test: Test) -> str:
        """Return why the machine does not want a test; empty if it does."""
        for matches, reason, position in self._rules:
            if matches(test):
                return f"left out by {position}: {reason}"
        return next((self._withheld[name] for name in _targets(test) if name in self._withheld), "")


def _targets(test: Test) -> tuple[str, ...]:
    """Return the targets that a test runs on."""
    other = test.tested_property.cell if test.tested_property else None
    return (test.target, other[2]) if other else (test.target,)


def _environments(test: Test) -> Iterator[str]:
    """Yield the environments of a test's actions."""
    if test.resolved_step is not None:
        yield test.resolved_step.environment
    other = test.tested_property.route if test.tested_property else None
    for route in filter(None, (test.route, other)):
        yield route.runner.environment
        if route.ingress:
            yield route.ingress.environment
        if route.linker:
            yield route.linker
        yield from (step.resolved_step.environment for step in route.steps)


def _ordered(
    machine: Entry[Machine], tests: Iterable[Test], history: Snapshot, date: str
) -> list[tuple[Test, bool, str]]:
    """Return tests in the order in which to run them, each with whether it is required and when it last ran."""
    wants = machine.document.wants
    required, preferred = _matching(wants.require), _matching(wants.prefer)
    since = (datetime.fromisoformat(date) - timedelta(days=RECENT_DAYS)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    rows = []
    for test in tests:
        recorded = history.tests.get(test.id)
        last = recorded.last_run if recorded else ""
        must = required(test)
        # A test that never ran comes before one that failed, so whether there is a record is compared first.
        late = recorded is not None and recorded.last_failure < since
        rows.append(((not must, not preferred(test), recorded is not None, late, last), (test, must, last)))
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def _fit(
    machine: Entry[Machine],
    rows: Iterable[tuple[Test, bool, str]],
    minute: float,
    seconds: Callable[[Test], float],
    actions: Callable[[Test], Collection[str]],
) -> tuple[list[Test], list[Test], float, float]:
    """Return the tests within the budget, the others, and the seconds of the tests within it and of the required ones.

    ``minute``: the seconds of tests that a minute of the machine has.
    Seconds are recorded by test, so each of its actions counts as an equal part of them.
    """
    budget = machine.document.wants.budget_minutes
    position = machine.source.position("wants", "budget-minutes")
    limit = float("inf") if budget is None else budget * minute
    chosen: list[Test] = []
    over: list[Test] = []
    counted: set[str] = set()
    used = required = 0.0
    for test, must, last in rows:
        needed = actions(test)
        cost = seconds(test) * sum(action not in counted for action in needed) / max(1, len(needed))
        if must or used + cost <= limit:
            chosen.append(test)
            counted.update(needed)
            used += cost
            required += cost * must
        else:
            ran = f"last run {last[:10]}" if last else "never run"
            what = f"takes {cost / minute:.2g} min ({ran}), {used / minute:.3g} min are taken"
            over.append(left_out(test, f"over the budget of {budget:g} min ({position}): {what}"))
    return chosen, over, used, required
