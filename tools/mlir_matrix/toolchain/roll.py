"""Test newer releases of components, one at a time, and patch the known-good file with those that pass.

Only the tests that a release affects run. A green release stays pinned for the next components, so that the proposed set is one
that was tested. A trial uses the known-good file that the patch would make: environments keep their own pins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import yaml

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.text import Edit, apply, patch
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.load import KNOWN_GOOD
from mlir_matrix.catalog.models.suites import Expectations
from mlir_matrix.catalog.models.toolchains import Component, KnownGood, Passed, Release
from mlir_matrix.catalog.releases import number
from mlir_matrix.catalog.yaml_reader import Source, parse
from mlir_matrix.environments.package import distributions
from mlir_matrix.environments.resolve import UnavailableEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expectations.expectations import FileChange, expectations_change
from mlir_matrix.plan.graph import Input, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.results.results import TestResult, outcomes_digest
from mlir_matrix.results.signature import behaviour
from mlir_matrix.toolchain.edits import added, brackets, plain, replaced, values, values_of

#: Runs a plan and returns the results.
Run = Callable[[Session, PlannedTests], Sequence[TestResult]]


@dataclass(frozen=True, kw_only=True)
class BrokenTest:
    """A test with an unexpected outcome."""

    id: str
    outcome: str
    reason: str
    #: What tells causes apart: the action that failed, and how; empty if it was a comparison, or no action.
    action: str = field(default="", compare=False)
    behaviour: str = field(default="", compare=False)


def causes(broken: Iterable[BrokenTest]) -> list[list[BrokenTest]]:
    """Return broken tests by their causes, the most frequent first: one action failed, or one step failed alike."""
    groups: list[list[BrokenTest]] = []
    known: dict[tuple[str, str], list[BrokenTest]] = {}
    for each in broken:
        keys = [key for key in (("action", each.action), ("behaviour", each.behaviour or each.reason)) if key[1]]
        group = next((known[key] for key in keys if key in known), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(each)
        known.update(dict.fromkeys(keys, group))
    return sorted(groups, key=len, reverse=True)


@dataclass(frozen=True, kw_only=True)
class TrialFindings:
    """The broken tests of a run, or the reason why not all tests could run."""

    broken: tuple[BrokenTest, ...] = ()
    #: The machine could not run everything; no test is broken.
    reason: str = ""
    #: What the tests that ran made.
    results: Sequence[TestResult] = field(default=(), compare=False)

    @property
    def green(self) -> bool:
        return not self.broken and not self.reason


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A newer release of a component, and its test results."""

    component: str
    pinned: str
    release: str
    #: Releases of components that it goes with, which moved with it.
    moved: Mapping[str, str]
    #: Green releases of other components that were pinned, too.
    kept: Mapping[str, str]
    #: Tests that the release affects.
    affected: tuple[str, ...]
    findings: TrialFindings
    #: The change of the suite's expectations with which the release is taken, although it breaks tests.
    accepted: FileChange | None = None

    @property
    def green(self) -> bool:
        return bool(self.affected) and self.findings.green


@dataclass(kw_only=True)
class Roll:
    """The results of all trials."""

    trials: list[Trial] = field(default_factory=list)
    #: The green releases, by component.
    pins: dict[str, str] = field(default_factory=dict)
    #: The results of the whole suite under all green releases; it runs only if there are any.
    together: TrialFindings = TrialFindings()
    #: The record of the suite for the known-good file, if all outcomes are as expected.
    passed: Passed | None = None

    def touching(self, test: str) -> list[str]:
        """Return the components whose new release affects a test."""
        taken = (trial for trial in self.trials if trial.green or trial.accepted)
        return [trial.component for trial in taken if test in trial.affected]

    @property
    def exit_code(self) -> int:
        """1: a component breaks tests and has no green release; 3: the machine could not run everything; else 0."""
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
    accept: bool = False,
) -> Roll:
    """Test newer releases of components, the newest first, until one is green; then the suite under all green releases.

    ``accept``: also take a release that breaks tests, if expectations can say so of each.
    """
    found = Roll()
    before = _Stand(session, suite)
    for name in leaders_first(session.catalog, components):
        entry = session.catalog.components[name]
        pins = {**session.catalog.default_pins(""), **found.pins}
        for release in reversed(newer(entry, pins[name])):
            moved = partners(session.catalog, pins, name, release)
            also = "".join(f", {other} -> {new}" for other, new in moved.items())
            tell(f"{name}: {pins[name]} -> {release.release}{also}")
            tried = {**moved, name: release.release}
            after = _Stand(with_pins(session, {**found.pins, **tried}), suite)
            affected = after.differs_from(before)
            trial = Trial(
                component=name, pinned=pins[name], release=release.release, moved=moved, kept=dict(found.pins),
                affected=affected, findings=_try(before, after, affected, run) if affected else TrialFindings(),
            )  # fmt: skip
            if (
                accept
                and trial.findings.results
                and (change := acceptance(after.session, suite, trial.findings.results))
            ):
                trial = replace(trial, accepted=change)
                session = _expecting(session, suite, change)
                after = _Stand(with_pins(session, {**found.pins, **tried}), suite)
            found.trials.append(trial)
            if trial.green or trial.accepted:
                found.pins |= tried
                before = after
                break
    if found.pins:
        tell(f"suite {suite} with all green releases")
        results = run(before.session, before.plan)
        found.together = judged(results, before.tests)
        if found.together.green:
            expected, outcomes = sum(result.expected for result in results), outcomes_digest(results)
            found.passed = Passed(suite=suite, as_expected=expected, total=len(results), outcomes=outcomes, date=today)
    return found


def acceptance(session: Session, suite: str, results: Iterable[TestResult]) -> FileChange | None:
    """Return the change of the suite's expectations that these results need; None if some test can have none."""
    catalog = session.catalog
    others = {name: entry for name, entry in catalog.expectations.items() if name != suite}
    # Ignore the rules of the file itself, which change.
    bare = session.with_catalog(replace(catalog, expectations=others))
    tests = [test for test in select_tests(bare, [suite]) if test.selected]
    by_id = {result.id: result for result in results}
    old = catalog.expectations.get(suite)
    change, document = expectations_change(catalog.suites[suite], old, tests, by_id)
    return None if document["left"] else change


def _expecting(session: Session, suite: str, change: FileChange) -> Session:
    """Return a session whose suite has these expectations."""
    catalog = session.catalog
    source = parse(change.text, str(change.path))
    document = Expectations.model_validate(source.data)
    entry = Entry(
        name=suite, document=document, source=source, root=catalog.suites[suite].root, folder=change.path.parent
    )
    return session.with_catalog(replace(catalog, expectations={**catalog.expectations, suite: entry}))


def leaders_first(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """Return components, with those that go with them; one that goes with others comes before them."""
    wanted = list(dict.fromkeys(names))
    documents = {name: entry.document for name, entry in catalog.components.items()}
    leaders = [name for name, document in documents.items() if set(document.goes_with).intersection(wanted)]
    found = dict.fromkeys([*leaders, *wanted])
    return sorted(found, key=lambda name: not documents[name].goes_with)


def partners(catalog: Catalog, pins: Mapping[str, str], name: str, release: Release) -> dict[str, str]:
    """Return the newer releases of components that a release goes with: of the same build, else of the same number.

    ``pins``: the present release of each component.
    """
    entry, found = catalog.components[name], {}
    ours = distributions([(entry, release)])
    for other in entry.document.goes_with:
        component = catalog.components[other]
        candidates = newer(component, pins[other])
        same = [each for each in candidates if ours.items() & distributions([(component, each)]).items()]
        alike = same or [each for each in candidates if number(each.release) == number(release.release)]
        if alike:
            found[other] = alike[-1].release
    return found


def newer(entry: Entry[Component], pinned: str) -> list[Release]:
    """Return the releases that a component lists after the pinned one."""
    names = [release.release for release in entry.document.releases]
    return list(entry.document.releases[names.index(pinned) + 1 :])


@dataclass(frozen=True)
class _Stand:
    """A suite under one set of pins."""

    session: Session
    suite: str

    @cached_property
    def tests(self) -> dict[str, Test]:
        return {test.id: test for test in select_tests(self.session, [self.suite])}

    @cached_property
    def plan(self) -> PlannedTests:
        return plan_tests(self.session, self.tests.values())

    @cached_property
    def _digests(self) -> dict[str, str]:
        """The digest of the actions of each test and of the releases that they use.

        The identifier of an action has the name of its environment, which does not change with a default pin.
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
        """Return the tests whose actions differ, or which can run under only one set of pins."""
        return tuple(
            identifier
            for identifier, test in self.tests.items()
            if identifier not in other.tests
            or test.outcome != other.tests[identifier].outcome
            or self._digests.get(identifier) != other._digests.get(identifier)
        )


def _try(before: _Stand, after: _Stand, affected: Sequence[str], run: Run) -> TrialFindings:
    lost = [test for test in map(after.tests.__getitem__, affected) if test.outcome and test.id in before.plan.verdicts]
    if lost:
        # A test that cannot run any more is broken; no package is needed to know that.
        return TrialFindings(
            broken=tuple(BrokenTest(id=test.id, outcome=str(test.outcome), reason=test.reason) for test in lost)
        )
    plan = plan_tests(after.session, (after.tests[identifier] for identifier in affected))
    references = (action.environment for action in plan.graph.actions.values())
    for environment in after.session.environments(references).values():
        if isinstance(environment, UnavailableEnvironment):
            return TrialFindings(reason=environment.reason)
    return judged(run(after.session, plan), affected)


def judged(results: Sequence[TestResult], wanted: Iterable[str]) -> TrialFindings:
    """Return the findings of a run of the tests ``wanted``. A failure of the machine is neither broken nor green."""
    broken = tuple(
        BrokenTest(
            id=result.id,
            outcome=result.outcome,
            reason=result.reason,
            action=result.step["action"] if result.step else "",
            behaviour=str(behaviour(result)),
        )
        for result in results
        if not result.expected and result.outcome != Outcome.INFRA_ERROR
    )
    if broken:
        return TrialFindings(broken=broken, results=results)
    hindered = [result for result in results if result.outcome in (Outcome.INFRA_ERROR, Outcome.SKIPPED)]
    if hindered:
        count = sum(result.outcome == hindered[0].outcome for result in hindered)
        return TrialFindings(reason=f"{count} of its tests: {hindered[0].outcome}: {hindered[0].reason}")
    if not {result.id for result in results}.issuperset(wanted):
        return TrialFindings(reason="the run did not finish")
    return TrialFindings()


def with_pins(session: Session, pins: Mapping[str, str]) -> Session:
    """Return a session whose known-good files have these pins."""
    catalog = session.catalog
    known = {entry.root: entry for entry in catalog.known_good}
    for root, ours in by_root(catalog, pins).items():
        entry = known.get(root) or _no_known_good(root)
        known[root] = replace(entry, document=entry.document.model_copy(update={"pins": entry.document.pins | ours}))
    order = {root: number for number, root in enumerate(catalog.roots)}
    files = sorted(known.values(), key=lambda entry: order.get(entry.root, 0))
    return session.with_catalog(replace(catalog, known_good=tuple(files)))


def by_root(catalog: Catalog, pins: Mapping[str, str]) -> dict[Path, dict[str, str]]:
    """Return pins by the root of the known-good file that pins the component, else of the component."""
    found: dict[Path, dict[str, str]] = {}
    for name, release in pins.items():
        pinned = (known.root for known in catalog.known_good if name in known.document.pins)
        found.setdefault(next(pinned, catalog.components[name].root), {})[name] = release
    return found


def _no_known_good(root: Path) -> Entry[KnownGood]:
    name = KNOWN_GOOD.partition(".")[0]
    source = Source(file=KNOWN_GOOD, data={}, places={})
    return Entry(name=name, document=KnownGood(pins={}), source=source, root=root, folder=root / "toolchains")


def expectations_patches(session: Session, found: Roll, suite: str) -> Iterator[tuple[Path, str]]:
    """Yield the root of the suite's catalog and the patch of its expectations, if releases are taken although they break tests."""
    last = next((trial.accepted for trial in reversed(found.trials) if trial.accepted), None)
    if last is not None:
        root, path = session.catalog.suites[suite].root, last.path
        before = path.read_text(encoding="utf-8") if path.exists() else None
        yield root, patch(path.relative_to(root).as_posix(), before, last.text)


def patches(session: Session, pins: Mapping[str, str], passed: Passed) -> Iterator[tuple[Path, str]]:
    """Yield the root of each catalog whose known-good file changes, and a patch for ``git apply``."""
    catalog = session.catalog
    known = {entry.root: entry.folder / KNOWN_GOOD for entry in catalog.known_good}
    suite_root = catalog.suites[passed.suite].root
    shown = f"toolchains/{KNOWN_GOOD}"
    for root, ours in by_root(catalog, pins).items():
        path = known.get(root)
        # As bytes, because the patch must match the line ends.
        text = path.read_bytes().decode() if path else None
        # A catalog must load alone, so it cannot name suites of the catalogs that join it.
        record = passed if suite_root in (root, catalog.roots[0]) else None
        changed = edited(text or "pins: {}\n", ours, record)
        yield root, patch(shown, text, changed)


def edited(text: str, pins: Mapping[str, str], passed: Passed | None) -> str:
    """Return a known-good file with other pins and the new record of a suite."""
    document = values_of(text)
    edits = [*_passed_edits(text, document.get("passed"), passed)] if passed else []
    edits += _pin_edits(text, document["pins"], pins)
    return apply(text, edits)


def _pin_edits(text: str, node: yaml.Node, pins: Mapping[str, str]) -> Iterator[Edit]:
    there = values(node)
    new = {name: f"{name}: {plain(release)}" for name, release in sorted(pins.items()) if name not in there}
    if not there:
        yield added(text, node, None, ", ".join(new.values()))
        return
    for name in there.keys() & pins.keys():
        yield replaced(there[name], plain(pins[name]))
    for name in reversed(new):
        before = [there[each] for each in there if each < name] or list(there.values())
        yield added(text, node, before[-1], new[name])


def _passed_edits(text: str, node: yaml.Node | None, passed: Passed) -> Iterator[Edit]:
    words = {
        "suite": plain(passed.suite), "as_expected": str(passed.as_expected), "total": str(passed.total),
        # In quotes, since YAML has a type of its own for dates.
        "date": f'"{passed.date}"', "outcomes": plain(passed.outcomes),
    }  # fmt: skip
    if node is None:
        new = "" if text.endswith("\n") else "\n"
        yield (len(text), len(text), f"{new}passed:\n  - {_entry(words, '     ')}\n")
        return
    entries = [values(entry) for entry in node.value]
    for entry in entries:
        if entry["suite"].value == passed.suite:
            yield from (replaced(entry[key], word) for key, word in words.items())
            return
    indent = " " * (node.start_mark.column + 3)
    item = _entry(words, indent)
    if not brackets(node):
        item = f"- {item}"
    last = node.value[-1] if entries else None
    yield added(text, node, last, item)


def _entry(words: Mapping[str, str], indent: str) -> str:
    *head, last = (f"{key}: {word}" for key, word in words.items())
    return f"{{{', '.join(head)},\n{indent}{last}}}"
