"""Trying newer releases: one component at a time, only the tests that it touches, the findings as a patch.

What is green stays in for the components after it, so that the set that is proposed at the end is one that was tried.
A trial is made under the very known-good file that the patch would make: environments that keep to releases of their
own keep to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import yaml

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.load import KNOWN_GOOD
from mlir_matrix.catalog.models.toolchains import Component, KnownGood, Passed, Release
from mlir_matrix.catalog.yaml_reader import ScalarError, Source, plain_scalar
from mlir_matrix.digest import digest_value
from mlir_matrix.environments.resolve import UnavailableEnvironment
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose, granted
from mlir_matrix.judge.results import TestResult, outcomes_digest
from mlir_matrix.plan.graph import Input, Produced
from mlir_matrix.plan.planner import Plan
from mlir_matrix.session import Session
from mlir_matrix.tolerances.patch import Edit, apply, patch

#: Runs a plan and returns the results.
Run = Callable[[Session, Plan], Sequence[TestResult]]


@dataclass(frozen=True, kw_only=True)
class Break:
    """A test that does not end as the suite expects."""

    id: str
    outcome: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What running some tests came to: what is broken, else what kept the machine from finding that out."""

    broken: tuple[Break, ...] = ()
    #: Nothing under test failed, but not everything could be tried.
    reason: str = ""

    @property
    def green(self) -> bool:
        """Whether everything is as expected."""
        return not self.broken and not self.reason


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A release that was tried, or was to be."""

    component: str
    pinned: str
    release: str
    #: Releases of other components that were found to be green before, under which it was tried.
    kept: Mapping[str, str]
    #: Tests that the release touches.
    affected: tuple[str, ...]
    findings: Findings

    @property
    def green(self) -> bool:
        """Whether it can take the pinned one's place."""
        return bool(self.affected) and self.findings.green


@dataclass(kw_only=True)
class Roll:
    """What came of trying."""

    trials: list[Trial] = field(default_factory=list)
    #: The pins that are green, instead of the known good ones.
    pins: dict[str, str] = field(default_factory=dict)
    #: Of the whole suite under all of these together, which is not run where there are none.
    together: Findings = Findings()
    #: What the known-good file is to say of it; only where all is as expected.
    passed: Passed | None = None

    def touching(self, test: str) -> list[str]:
        """The components whose new release touches a test."""
        return [trial.component for trial in self.trials if trial.green and test in trial.affected]

    @property
    def exit_code(self) -> int:
        """1: something breaks, and no other release of the component is green; 3: the machine could not try everything."""
        broken = {trial.component for trial in self.trials if trial.findings.broken}
        if broken - self.pins.keys() or self.together.broken:
            return 1
        return 3 if self.together.reason or any(trial.findings.reason for trial in self.trials) else 0


def roll(
    session: Session,
    components: Iterable[str],
    suite: str,
    run: Run,
    *,
    today: str,
    tell: Callable[[str], object] = lambda _line: None,
) -> Roll:
    """Try newer releases of components, the newest first, until one is green; then the suite under all that are."""
    found = Roll()
    before = _Stand(session, suite)
    for name in components:
        entry = session.catalog.components[name]
        pinned = session.catalog.default_pins("")[name]
        for release in reversed(newer(entry, pinned)):
            tell(f"{name}: {pinned} -> {release.release}")
            after = _Stand(with_pins(session, {**found.pins, name: release.release}), suite)
            affected = after.differs_from(before)
            found.trials.append(
                Trial(
                    component=name, pinned=pinned, release=release.release, kept=dict(found.pins),
                    affected=affected, findings=_try(before, after, affected, run) if affected else Findings(),
                )
            )  # fmt: skip
            if found.trials[-1].green:
                found.pins[name] = release.release
                before = after
                break
    if found.pins:
        tell(f"suite {suite} under all of it")
        results = run(before.session, before.plan)
        found.together = judged(results, before.tests)
        if found.together.green:
            found.passed = _passed(suite, results, today)
    return found


def newer(entry: Entry[Component], pinned: str) -> list[Release]:
    """The releases that the component's file lists after the pinned one."""
    names = [release.release for release in entry.document.releases]
    return list(entry.document.releases[names.index(pinned) + 1 :])


@dataclass(frozen=True)
class _Stand:
    """A suite under one set of pins."""

    session: Session
    suite: str

    @cached_property
    def tests(self) -> dict[str, Test]:
        chosen = choose(self.session.catalog, [self.suite], pins=self.session.pins)
        return {test.id: test for test in granted(self.session.catalog, chosen.tests())}

    @cached_property
    def plan(self) -> Plan:
        return self.session.plan(self.tests.values())

    @cached_property
    def _made_of(self) -> dict[str, str]:
        """For each test that runs a digest of all that its actions are, down to the releases that they use.

        An action's own identifier has the name of its environment, which stays when a default pin moves.
        """
        found: dict[str, str] = {}
        releases: dict[str, list[tuple[str, str]]] = {}

        def known(source: Input) -> list[object]:
            if isinstance(source, Produced):
                return [found[source.action], source.output]
            return [source.root, source.path]

        for identifier, action in self.plan.graph.actions.items():
            environment = action.environment
            if environment not in releases:
                used = (*self.session.releases(environment), *self.session.needs(environment))
                releases[environment] = [(entry.name, release.release) for entry, release in used]
            inputs = {name: known(source) for name, source in action.inputs.items()}
            words = [action.tool, action.stage, action.params_digest, action.native, dict(action.outputs)]
            found[identifier] = digest_value([*words, releases[environment], inputs])
        return {test: found[last] for test, last in self.plan.verdicts.items()}

    def differs_from(self, other: _Stand) -> tuple[str, ...]:
        """The tests that are others here: they can run or not, or are made of something else."""
        return tuple(
            identifier
            for identifier, test in self.tests.items()
            if identifier not in other.tests
            or test.outcome != other.tests[identifier].outcome
            or self._made_of.get(identifier) != other._made_of.get(identifier)
        )


def _try(before: _Stand, after: _Stand, affected: Sequence[str], run: Run) -> Findings:
    lost = [test for test in map(after.tests.__getitem__, affected) if test.outcome and test.id in before.plan.verdicts]
    if lost:
        # It cannot be green: nothing needs to be fetched to know that.
        return Findings(broken=tuple(Break(id=test.id, outcome=str(test.outcome), reason=test.reason) for test in lost))
    plan = after.session.plan(after.tests[identifier] for identifier in affected)
    references = (action.environment for action in plan.graph.actions.values())
    for environment in after.session.environments(references).values():
        if isinstance(environment, UnavailableEnvironment):
            return Findings(reason=environment.reason)
    return judged(run(after.session, plan), affected)


def judged(results: Sequence[TestResult], wanted: Iterable[str]) -> Findings:
    """What results of the tests ``wanted`` say. What the machine could not try is nobody's failure, and no success."""
    broken = tuple(
        Break(id=result.id, outcome=result.outcome, reason=result.reason)
        for result in results
        if not result.expected and result.outcome != Outcome.INFRA_ERROR
    )
    if broken:
        return Findings(broken=broken)
    hindered = [result for result in results if result.outcome in (Outcome.INFRA_ERROR, Outcome.SKIPPED)]
    if hindered:
        count = sum(result.outcome == hindered[0].outcome for result in hindered)
        return Findings(reason=f"{count} of its tests: {hindered[0].outcome}: {hindered[0].reason}")
    if not {result.id for result in results}.issuperset(wanted):
        return Findings(reason="the run did not come to its end")
    return Findings()


def _passed(suite: str, results: Sequence[TestResult], today: str) -> Passed:
    as_expected = sum(result.expected for result in results)
    outcomes = outcomes_digest(results)
    return Passed(suite=suite, as_expected=as_expected, total=len(results), outcomes=outcomes, date=today)


def with_pins(session: Session, pins: Mapping[str, str]) -> Session:
    """The session as it would be if the known-good files had these pins."""
    catalog = session.catalog
    known = {entry.root: entry for entry in catalog.known_good}
    for root, ours in by_root(catalog, pins).items():
        entry = known.get(root) or _no_known_good(root)
        known[root] = replace(entry, document=entry.document.model_copy(update={"pins": entry.document.pins | ours}))
    order = {root: number for number, root in enumerate(catalog.roots)}
    files = sorted(known.values(), key=lambda entry: order.get(entry.root, 0))
    changed = replace(catalog, known_good=tuple(files))
    return replace(session, catalog=changed, pins=replace(session.pins, catalog=changed))


def by_root(catalog: Catalog, pins: Mapping[str, str]) -> dict[Path, dict[str, str]]:
    """Pins by the catalog whose known-good file is to have them: the one whose word counts, else the component's own."""
    found: dict[Path, dict[str, str]] = {}
    for name, release in pins.items():
        said = (known.root for known in catalog.known_good if name in known.document.pins)
        found.setdefault(next(said, catalog.components[name].root), {})[name] = release
    return found


def _no_known_good(root: Path) -> Entry[KnownGood]:
    name = KNOWN_GOOD.partition(".")[0]
    source = Source(file=KNOWN_GOOD, data={}, places={})
    return Entry(name=name, document=KnownGood(pins={}), source=source, root=root, folder=root / "toolchains")


def patches(session: Session, pins: Mapping[str, str], passed: Passed) -> Iterator[tuple[Path, str]]:
    """For each catalog whose known-good file changes its folder, and the change as ``git apply`` takes it there."""
    catalog = session.catalog
    known = {entry.root: entry.folder / KNOWN_GOOD for entry in catalog.known_good}
    suite_root = catalog.suites[passed.suite].root
    shown = f"toolchains/{KNOWN_GOOD}"
    for root, ours in by_root(catalog, pins).items():
        path = known.get(root)
        # As it is: whatever ends its lines, the patch must fit.
        text = path.read_bytes().decode() if path else None
        # A catalog that others join must load without them, and knows none of their suites.
        told = passed if suite_root in (root, catalog.roots[0]) else None
        changed = edited(text or "pins: {}\n", ours, told)
        yield root, patch(shown, text, changed)


def edited(text: str, pins: Mapping[str, str], passed: Passed | None) -> str:
    """A known-good file with other pins, and with what a suite passed under them in the place of what it passed before."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None, "it was loaded"
    document = _values(root)
    edits = [*_passed_edits(text, document.get("passed"), passed)] if passed else []
    edits += _pin_edits(text, document["pins"], pins)
    return apply(text, edits)


def _pin_edits(text: str, node: yaml.Node, pins: Mapping[str, str]) -> Iterator[Edit]:
    there = _values(node)
    new = {name: f"{name}: {_plain(release)}" for name, release in sorted(pins.items()) if name not in there}
    if not there:
        yield _added(text, node, None, ", ".join(new.values()))
        return
    for name in there.keys() & pins.keys():
        yield _replaced(there[name], _plain(pins[name]))
    for name in reversed(new):
        before = [there[each] for each in there if each < name] or list(there.values())
        yield _added(text, node, before[-1], new[name])


def _passed_edits(text: str, node: yaml.Node | None, passed: Passed) -> Iterator[Edit]:
    words = {
        "suite": _plain(passed.suite), "as_expected": str(passed.as_expected), "total": str(passed.total),
        # In quotes, since YAML has a type of its own for dates.
        "date": f'"{passed.date}"', "outcomes": _plain(passed.outcomes),
    }  # fmt: skip
    if node is None:
        new = "" if text.endswith("\n") else "\n"
        yield (len(text), len(text), f"{new}passed:\n  - {_entry(words, '     ')}\n")
        return
    entries = [_values(entry) for entry in node.value]
    for entry in entries:
        if entry["suite"].value == passed.suite:
            yield from (_replaced(entry[key], word) for key, word in words.items())
            return
    indent = " " * (node.start_mark.column + 3)
    item = _entry(words, indent)
    yield _added(text, node, node.value[-1] if entries else None, item if _brackets(node) else f"- {item}")


def _entry(words: Mapping[str, str], indent: str) -> str:
    *head, last = (f"{key}: {word}" for key, word in words.items())
    return f"{{{', '.join(head)},\n{indent}{last}}}"


def _added(text: str, parent: yaml.Node, before: yaml.Node | None, item: str) -> Edit:
    """Something more in a mapping or list, after another, as that is written: in brackets, or on lines of its own."""
    if before is None:
        place = parent.end_mark.index - 1
        return (place, place, item)
    place = _end(before)
    if _brackets(parent):
        return (place, place, f", {item}")
    line_end = text.find("\n", place)
    place = len(text) if line_end < 0 else line_end
    return (place, place, f"\n{' ' * parent.start_mark.column}{item}")


def _end(node: yaml.Node) -> int:
    """Where the last word of a node ends: that of a block would be where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not _brackets(node):
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _brackets(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _replaced(node: yaml.Node, word: str) -> Edit:
    return node.start_mark.index, node.end_mark.index, word


def _values(node: yaml.Node) -> dict[str, yaml.Node]:
    return {key.value: value for key, value in node.value}


def _plain(value: str) -> str:
    """As YAML takes it for text: what would be a number, or is nothing to every reader, is quoted."""
    try:
        return value if plain_scalar(value) == value else f'"{value}"'
    except ScalarError:
        return f'"{value}"'
