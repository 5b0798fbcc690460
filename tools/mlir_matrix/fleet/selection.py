"""Select the tests of ``matrix plan`` and ``matrix run``: suites and globs, then a change, a machine, a shard.

Each filter takes and returns all tests. Tests that it leaves out have the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.text import counted, first_few, now
from mlir_matrix.catalog.pins import read_pins
from mlir_matrix.cli.output import warn
from mlir_matrix.environments.machine import HOST, x86_level
from mlir_matrix.expand.select import choose, granted, is_suite
from mlir_matrix.expand.suite import expand, varied
from mlir_matrix.fleet.affected import affected_since, find_revision
from mlir_matrix.fleet.changed_files import affected_by, check_files
from mlir_matrix.fleet.choose import Left, MachineChoice, actions_at_once, choose_for, left_out, timed_actions
from mlir_matrix.fleet.durations import Estimates, read_snapshot, read_summary
from mlir_matrix.fleet.machines import find_machine
from mlir_matrix.fleet.shards import identifiers_digest, shards
from mlir_matrix.plan.request import DEFAULT_MEMORY_MB, SelectionOptions
from mlir_matrix.plan.session import plan_tests

if TYPE_CHECKING:
    from mlir_matrix.catalog.catalog import Entry
    from mlir_matrix.catalog.models.machines import Machine
    from mlir_matrix.environments.session import Session
    from mlir_matrix.expand.expansion import Test
    from mlir_matrix.plan.documents import Change, Selection
    from mlir_matrix.plan.planner import PlannedTests
    from mlir_matrix.plan.request import Request


#: The most tests over the budget that a line names.
_NAMED = 4


@dataclass(kw_only=True)
class Selected:
    """The tests of a command line, and the options that selected them."""

    #: The session, with the pins of the machine.
    current: Session
    #: The selected suites and globs.
    arguments: Sequence[str]
    devices: tuple[str, ...]
    #: All tests, also those left out, with reasons.
    tests: list[Test]
    machine: Entry[Machine] | None = None
    choice: MachineChoice | None = None
    #: None if only suites and globs select.
    document: Selection | None = None
    #: Whether other shards have tests that run, and this shard has none.
    elsewhere: bool = False
    #: A plan that has at least these tests, if one was made.
    whole: PlannedTests | None = None
    #: Lines for the user about tests left out.
    lines: list[str] = field(default_factory=list)

    @property
    def may_be_empty(self) -> bool:
        """Return whether a run without tests is no error: a change may affect none, and other shards may have all."""
        return "change" in (self.document or {}) or self.elsewhere

    def plan(self, tests: Iterable[Test]) -> PlannedTests:
        """Plan some of the tests."""
        return self.whole.only(tests) if self.whole is not None else plan_tests(self.current, tests)

    def with_results(self) -> list[Test]:
        """Return the tests that have a result in a run here. Raise UsageError if no test is left, or for another machine."""
        if self.machine is not None:
            _check_here(self.machine)
        if self.document is not None and not self.may_be_empty and not any(test.selected for test in self.tests):
            reasons = dict.fromkeys(test.reason for test in self.tests if not test.selected)
            raise UsageError(f"no test is selected: {'; '.join([*self.lines, *reasons][:4])}")
        return [test for test in self.tests if not test.excluded]

    def request(self, request: Request) -> Request:
        """Return the request of an equal command line without a machine."""
        if self.machine is None:
            return request
        executor = replace(request.executor, devices=self.devices)
        if self.devices and executor.executor != "local":
            why = f"only --executor local grants devices; this is {executor.executor}"
            raise UsageError(f"machine {self.machine.name} grants {self.devices[0]}: {why}")
        limits = replace(
            request.limits,
            jobs=min(request.limits.jobs, actions_at_once(self.machine.document.has, request.limits.memory_mb)),
        )
        given = {word.partition("=")[0] for word in request.pins}
        wanted = self.machine.document.wants.pins.items()
        own = [f"{name}={release}" for name, release in wanted if name not in given]
        pins = (*request.pins, *own)
        return replace(request, tests=tuple(self.arguments), pins=pins, executor=executor, limits=limits)


def _check_here(machine: Entry[Machine]) -> None:
    """Raise UsageError if this machine differs from the one in the file."""
    fix = f"compare them: matrix machine check {machine.name}"
    architecture = machine.document.has.cpu.architecture
    if architecture != HOST.name:
        where = machine.source.position("has", "cpu", "architecture")
        raise UsageError(f"{where}: machine {machine.name} is {architecture}, this one is {HOST.name}; {fix}")
    for number, device in enumerate(machine.document.wants.devices):
        if not os.path.exists(device):
            where = machine.source.position("wants", "devices", number)
            raise UsageError(f"{where}: this machine has no {device}; {fix}")


def select(
    current: Session,
    arguments: Sequence[str],
    options: SelectionOptions,
    devices: tuple[str, ...] = (),
    *,
    excluded: bool = False,
    memory_mb: int = DEFAULT_MEMORY_MB,
) -> Selected:
    """Select tests; with ``excluded`` also list those that suites leave out. Raise UsageError.

    ``memory_mb`` is the limit of an action, in MiB.
    """
    _check(options)
    machine = find_machine(current.catalog, options.machine) if options.machine else None
    if machine is None:
        chosen = choose(current.catalog, arguments, pins=current.pins).tests(excluded=excluded)
        whole = list(granted(current.catalog, chosen, devices, x86_level, HOST.name))
        tests, change, lines, plan = _by_change(current, arguments, whole, options)
        selected = Selected(current=current, arguments=arguments, devices=devices, tests=tests, lines=lines, whole=plan)
        if change is not None:
            selected.document = {"pins": dict(current.pins.overrides), "change": change}
    else:
        selected = by_machine(current, machine, options, arguments, devices, excluded=excluded, memory_mb=memory_mb)
    if options.shard is not None:
        _by_shard(selected, options.shard, options)
    if selected.document is not None and current.pins.swaps:
        selected.document["environments"] = dict(current.pins.swaps)
    return selected


def _check(options: SelectionOptions) -> None:
    for name, given, needs, present in (
        ("--history", options.history, "--machine", options.machine),
        ("--date", options.date, "--machine", options.machine),
        ("--durations", options.durations, "--shard", options.shard),
    ):
        if given and not present:
            raise UsageError(f"{name} requires {needs}")
    if options.changed_since and options.changed:
        raise UsageError("--changed-since and --changed exclude each other: --changed-since finds changed files by git")


def by_machine(
    current: Session,
    machine: Entry[Machine],
    options: SelectionOptions,
    arguments: Sequence[str] = (),
    devices: tuple[str, ...] = (),
    *,
    excluded: bool = False,
    memory_mb: int = DEFAULT_MEMORY_MB,
) -> Selected:
    """Select the tests of a machine under its pins: from the arguments, else from its suites."""
    wants = machine.document.wants
    words = [f"{name}={release}" for name, release in wants.pins.items() if name not in current.pins.overrides]
    current = current.with_pins(read_pins(current.catalog, words, f"machine {machine.name}"))
    of_machine = not arguments
    arguments = arguments or wants.suites
    history = read_snapshot(options.history) if options.history else read_summary(current.home.state, warn)
    date = options.date or now()
    chosen = choose(current.catalog, arguments, pins=current.pins).tests(excluded=excluded)
    tests, change, lines, plan = _by_change(current, arguments, chosen, options)
    plan = plan or plan_tests(current, (test for test in tests if test.selected))
    choice = choose_for(
        machine,
        tests,
        catalog=current.catalog,
        pins=current.pins,
        history=history,
        date=date,
        actions=lambda test: timed_actions(plan, test),
        devices=devices,
        memory_mb=memory_mb,
    )
    if of_machine:
        warn(*_left_alone(current, machine, choice.tests))
    if choice.excess:
        where = machine.source.position("wants", "require")
        minutes = f"{choice.excess:.3g} min, more than the budget of {wants.budget_minutes:g} min"
        warn(f"{where}: the required tests take {minutes}")
    limit = "" if wants.budget_minutes is None else f" of {wants.budget_minutes:g}"
    parts = ", ".join(f"{number} {left}" for left, number in choice.counts.items())
    number = sum(test.selected for test in choice.tests)
    summary = f"machine {machine.name}: {counted(number, 'test')}, about {choice.minutes:.2g}{limit} min"
    lines.append(f"{summary}; left out: {parts or 'none'}")
    over = [name for name, left in choice.left.items() if left == Left.OVER]
    if over:
        lines.append(f"{Left.OVER}: {first_few(over, _NAMED)}")
    document: Selection = {
        "pins": dict(current.pins.overrides),
        "machine": machine.name,
        "minutes": round(choice.minutes, 3),
        "history": {"digest": history.digest, "taken": history.taken},
        "date": date,
    }
    if over:
        document["over_budget"] = over
    if change is not None:
        document["change"] = change
    return Selected(
        current=current,
        arguments=arguments,
        devices=tuple(dict.fromkeys((*devices, *wants.devices))),
        tests=list(choice.tests),
        machine=machine,
        choice=choice,
        document=document,
        lines=lines,
    )


def _left_alone(current: Session, machine: Entry[Machine], tests: Iterable[Test]) -> Iterator[str]:
    """Say which expectations would be left alone: those of suites that the machine's globs do not name."""
    wanted = machine.document.wants.suites
    if not wanted or any(map(is_suite, wanted)):
        return
    plain = [test.id for test in tests if test.selected and test.expectation is None]
    found: dict[str, set[str]] = {}
    for suite in current.catalog.suites.values():
        if not suite.document.expect or list(varied(current.catalog, suite, current.pins)):
            continue
        expansion = expand(current.catalog, suite, current.pins)
        for name in plain:
            test = expansion.test(name)
            if test is not None and test.selected and test.expectation is not None:
                found.setdefault(test.expectation.position, set()).add(name)
    if found:
        parts = [f"{position} ({counted(len(names), 'test')})" for position, names in found.items()]
        where = machine.source.position("wants", "suites")
        yield f"{where}: globs without their suite leave expectations alone: {first_few(parts, _NAMED)}"


def _by_change(
    current: Session, arguments: Sequence[str], tests: Iterable[Test], options: SelectionOptions
) -> tuple[list[Test], Change | None, list[str], PlannedTests | None]:
    """Return the tests that a change can affect, with the reason for each, and a plan of all; without a change all tests."""
    chosen = list(tests)
    if not (options.changed_since or options.changed):
        return chosen, None, [], None
    count = sum(test.selected for test in chosen)
    change: Change = {"tests": count}
    if options.changed_since:
        revision = find_revision(options.changed_since, current.catalog.roots)
        change["since"] = revision.commit
        found = affected_since(current, arguments, chosen, revision)
        what = f"since {revision.commit[:12]}"
    else:
        check_files(options.changed)
        change["files"] = [str(file) for file in options.changed]
        found = affected_by(current, chosen, options.changed)
        what = f"of {counted(len(options.changed), 'file')}"
    kept = []
    for test in chosen:
        if why := found.reasons.get(test.id):
            kept.append(replace(test, reason=why if test.selected else f"{test.reason}; {why}"))
    number = sum(test.selected for test in kept)
    lines = [f"{number} of {counted(count, 'test')} can be affected by changes {what}"]
    # The other plan is not of this machine, so it also has tests that this machine skips.
    known = {test.id for test in chosen if test.selected or test.outcome == Outcome.SKIPPED}
    if gone := sorted(found.reasons.keys() - known):
        lines.append(f"no longer planned: {first_few(gone, _NAMED)}")
    warn(*found.notes)
    return kept, change, lines, found.plan


def _by_shard(selected: Selected, shard: tuple[int, int], options: SelectionOptions) -> None:
    index, count = shard
    history = read_snapshot(options.durations) if options.durations else None
    whole = [test for test in selected.tests if not test.excluded]
    parts = shards(whole, count, None if history is None else Estimates(history).seconds)
    places = {test.id: number for number, part in enumerate(parts, 1) for test in part}
    selected.tests = [
        test if places.get(test.id, index) == index else left_out(test, f"in shard {places[test.id]}/{count}")
        for test in selected.tests
    ]
    selected.elsewhere = any(test.selected for test in whole) and not any(test.selected for test in parts[index - 1])
    if selected.document is None:
        selected.document = {"pins": dict(selected.current.pins.overrides)}
    selected.document["shard"] = {
        "index": index,
        "count": count,
        "durations": history.digest if history else None,
        "tests": identifiers_digest([test.id for test in whole]),
    }
    selected.lines.append(f"shard {index}/{count}: {len(parts[index - 1])} of {len(whole)} tests")
