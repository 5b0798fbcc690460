"""Group the unexpected results of a run by what they have in common, so that one cause is one entry.

Tests with the same deciding action, the same step and signature, or the same wrong output are one group. Groups are joined where
evidence shows one step behind them: its IR test fails, too, or most tests that go through it fail.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.names import MEMBER
from mlir_matrix.base.text import shortened
from mlir_matrix.results.cause_globs import RanTests
from mlir_matrix.results.results import TestResult, is_refused
from mlir_matrix.results.signature import Signature, behaviour, behaviour_of_run, shape

if TYPE_CHECKING:
    from mlir_matrix.results.documents import Cause

Kind: TypeAlias = Literal[
    "step", "pipeline", "several", "importer", "target", "workload", "expectation", "infrastructure"
]
#: The file of a suspect. The name of an expectation is a position, which begins with its file.
_FILES: dict[Kind, str] = {
    "step": "recipes/steps/{}/step.yaml",
    "pipeline": "recipes/pipelines/{}.yaml",
    "several": "",
    "importer": "matrix/frameworks/{}/framework.yaml",
    "target": "matrix/targets/{}/target.yaml",
    "workload": "matrix/workloads/{}/workload.yaml",
    "expectation": "{}",
    "infrastructure": "",
}
#: How the names of actions begin that belong to a target, not to a step or a workload.
_OF_TARGETS = ("compile", "driver", "link", "runtime", "text")
#: Fewer failing tests, or tests of fewer workloads, do not incriminate a step that they go through.
_FEW_TESTS, _FEW_WORKLOADS = 4, 3
#: The most characters of a title.
_LONGEST = 200
#: A breach of a kind's contract. Breaches by one step differ in the numbers, names and places of operations.
_BREACH = re.compile(r"(?:left|emits) \S+ operations?((?: with types)? that kind \S+ does not have).*", re.DOTALL)


class Suspect(NamedTuple):
    """What may be behind failures."""

    kind: Kind
    #: A step, pipeline, framework, target or workload; the position of a rule; several names; empty for infrastructure.
    name: str

    @property
    def file(self) -> str:
        """Return its file, relative to the catalog that has it; empty for infrastructure, and for several."""
        name, member, _ = self.name.partition(MEMBER)
        if self.kind == "target":
            name, _, _ = name.partition("+")
        if self.kind == "workload" and member:
            return f"matrix/corpora/{name}/corpus.yaml"
        return _FILES[self.kind].format(name)


@dataclass(frozen=True)
class _Group:
    """Failing tests with one cause."""

    suspect: Suspect
    results: Sequence[TestResult]
    #: What identifies the cause in other runs, too.
    identity: tuple[str, ...]
    #: What shows that the suspect is behind different failures; empty if all tests fail in one way.
    evidence: str = ""


def causes_of(results: Sequence[TestResult]) -> list[Cause]:
    """Return the causes of a run's unexpected outcomes, without those in quarantine. The one of most tests comes first."""
    failing = [result for result in results if result.fails]
    if not failing:
        return []
    machine = [result for result in failing if suspect_of(result).kind in ("infrastructure", "expectation")]
    under_test = _UnderTest(results, failing)
    groups = [*_alike(machine), *under_test.joined(), *_alike(under_test.left)]
    ran = ran_tests(results)
    return sorted((_cause(group, ran) for group in groups), key=order)


def order(cause: Cause) -> tuple[int, bool, str, str]:
    """Return what causes are sorted by: that of most tests comes first."""
    return -len(cause["tests"]), cause["kind"] == "infrastructure", cause["title"], cause["key"]


def ran_tests(results: Iterable[TestResult]) -> RanTests:
    """Return the tests among which the globs of a cause choose. Expected failures are as good as absent."""
    return RanTests(result.id for result in results if result.fails or result.outcome == Outcome.PASS)


def title(parts: Iterable[str]) -> str:
    """Return the parts of a title, of limited length."""
    return shortened(": ".join(filter(None, parts)), _LONGEST)


def suspect_of(result: TestResult) -> Suspect:
    """Return what the action that decided a failing test points at."""
    if result.outcome == Outcome.INFRA_ERROR:
        return Suspect("infrastructure", "")
    if result.outcome == Outcome.PASS and result.expectation is not None:
        return Suspect("expectation", result.expectation["position"])
    if result.identity.is_ir:
        return Suspect("step", result.pipeline)
    name = result.step["name"] if result.step else ""
    if name in result.steps:
        return Suspect("step", name)
    first, slash, rest = name.partition("/")
    if first == "import":
        return Suspect("importer", rest.partition("/")[0])
    if first in _OF_TARGETS:
        return Suspect("target", result.target)
    # Other actions than those of steps have names with a slash, which end in the workload.
    return Suspect("step", first) if first and not slash else Suspect("workload", result.workload)


def _alike(failing: Sequence[TestResult]) -> list[_Group]:
    """Group failing tests that share a deciding action, a step and signature, or a wrong output."""
    groups = _Partition(len(failing))
    identities = []
    for number, result in enumerate(failing):
        suspect = suspect_of(result)
        identities.append(_identity(suspect, result))
        groups.unite(number, identities[-1])
        if suspect.kind in ("infrastructure", "expectation"):
            continue
        if result.step is not None:
            groups.unite(number, ("action", result.step["action"]))
        if result.wrong_output:
            groups.unite(number, ("output", result.wrong_output))
    found = []
    for members in groups.parts():
        # The most usual failure identifies the group, so that one test more or less makes no other cause.
        counts = Counter(identities[number] for number in members)
        identity = min(counts, key=lambda each: (-counts[each], each))
        usual = next(failing[number] for number in members if identities[number] == identity)
        found.append(_Group(suspect_of(usual), [failing[number] for number in members], identity))
    return found


def _identity(suspect: Suspect, result: TestResult) -> tuple[str, ...]:
    """Return what the failures of one cause share, in other runs, too: no numbers and no places."""
    if suspect.kind == "infrastructure":
        return suspect.kind, shape(result.reason)
    if suspect.kind == "expectation":
        assert result.expectation is not None
        return suspect.kind, suspect.file, result.expectation["reason"]
    signature = behaviour(result)
    if signature.step:
        # The name of an importer's action has the workload.
        signature = replace(signature, step=suspect.name)
    return suspect.kind, suspect.name, _BREACH.sub(r"operations\1", str(signature))


def _common_identity(suspect: Suspect, results: Iterable[TestResult]) -> tuple[str, ...]:
    """Return what most failures at a suspect share, as without evidence; else the suspect, which then stands for them all."""
    there = (each for each in results if suspect_of(each) == suspect and not each.identity.is_ir)
    counts = Counter(_identity(suspect, each) for each in there)
    for identity, count in counts.items():
        if 2 * count > counts.total():
            return identity
    return tuple(suspect)


class _Partition:
    """Numbers from 0, united where they have a key in common."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))
        self._first: dict[Hashable, int] = {}

    def unite(self, number: int, key: Hashable) -> None:
        one, other = self._root(number), self._root(self._first.setdefault(key, number))
        self._parents[max(one, other)] = min(one, other)

    def _root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def parts(self) -> list[list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for number in range(len(self._parents)):
            found[self._root(number)].append(number)
        return list(found.values())


@dataclass
class _Evidence:
    """The failing tests behind which one step or importer is."""

    words: str
    results: list[TestResult] = field(default_factory=list)


class _UnderTest:
    """Failing tests that say something about the code under test, and what they and the passing tests went through."""

    def __init__(self, results: Iterable[TestResult], failing: Iterable[TestResult]) -> None:
        #: Failing tests without evidence so far.
        self.left = [each for each in failing if suspect_of(each).kind not in ("infrastructure", "expectation")]
        self._passing = [each for each in results if each.outcome == Outcome.PASS and each.expected]
        self._tests = [*self._passing, *self.left]
        #: How many tests reached each step, importer and target, how many of them failed, and how many failed there.
        self._failed = Counter(suspect for each in self.left for suspect in route(each))
        self._reached = self._failed + Counter(suspect for each in self._passing for suspect in route(each))
        on_target = (each for each in (*self._passing, *self.left) if suspect_of(each).kind in ("target", "workload"))
        self._reached += Counter(Suspect("target", each.target) for each in on_target)
        self._there = Counter(map(suspect_of, self.left))
        #: Steps with an IR test that fails.
        self._checked = {suspect_of(each): each for each in reversed(self.left) if each.identity.is_ir}
        self._found: dict[Suspect, _Evidence] = {}

    def joined(self) -> list[_Group]:
        """Return the groups for which there is evidence; ``left`` are the other tests."""
        self._take_by_step()
        self._take_by_what_they_share()
        self._take_by_workload()
        return [
            _Group(suspect, each.results, _common_identity(suspect, each.results), each.words)
            for suspect, each in self._found.items()
        ]

    def _take_by_step(self) -> None:
        """Take the tests of steps whose IR test fails, or in which most tests fail."""
        left = []
        for result in self.left:
            suspect = suspect_of(result)
            if suspect not in self._checked:
                suspect = next(filter(self._is_checked, reversed(route(result))), suspect)
            if suspect in self._checked:
                self._take(result, suspect, f"its IR test {self._checked[suspect].workload} fails")
            elif suspect.kind != "workload" and self._are_most(self._there[suspect], suspect):
                count = f"{self._there[suspect]} of {self._reached[suspect]}"
                self._take(result, suspect, f"{count} tests that reach it fail there")
            else:
                left.append(result)
        self.left = left

    def _take_by_workload(self) -> None:
        """Take the tests of workloads most of whose tests fail while or after they run."""
        left = []
        there = Counter(map(suspect_of, self.left))
        for result in self.left:
            suspect = suspect_of(result)
            if suspect.kind == "workload" and self._are_most(there[suspect], suspect):
                self._take(
                    result, suspect, f"{there[suspect]} of its {self._reached[suspect]} tests fail when they run"
                )
            else:
                left.append(result)
        self.left = left

    def _take(self, result: TestResult, suspect: Suspect, words: str) -> None:
        self._found.setdefault(suspect, _Evidence(words)).results.append(result)

    def _are_most(self, failing: int, suspect: Suspect) -> bool:
        """Return whether so many failing tests are most of those that reach a suspect, and not few."""
        return failing >= _FEW_TESTS and 2 * failing > self._reached[suspect]

    def _is_checked(self, suspect: Suspect) -> bool:
        """Return whether a step's IR test fails, and most tests that go through the step fail, too."""
        return suspect in self._checked and 2 * self._failed[suspect] > self._reached[suspect]

    def _take_by_what_they_share(self) -> None:
        """Take the tests that fail in one way while or after they run, if most tests of one step do."""
        ways = defaultdict[Signature, list[TestResult]](list)
        for result in self.left:
            if suspect_of(result).kind == "workload" and not is_refused(result):
                ways[_way(result)].append(result)
        gone = set[int]()
        for failing in ways.values():
            while taken := self._take_most([result for result in failing if id(result) not in gone]):
                gone |= taken
        self.left = [result for result in self.left if id(result) not in gone]

    def _take_most(self, failing: Sequence[TestResult]) -> set[int]:
        """Take the tests of a step, if most of its tests are failing ones. Return their ids, none if there is no such step.

        Of several such steps, it is the one that failing tests have most in common, and passing tests least (Ochiai).
        """
        failed, workloads = Counter[Suspect](), defaultdict[Suspect, set[str]](set)
        for result in failing:
            for suspect in route(result):
                failed[suspect] += 1
                workloads[suspect].add(result.workload)
        scores = {
            suspect: number / sqrt(len(failing) * self._reached[suspect])
            for suspect, number in failed.items()
            if len(workloads[suspect]) >= _FEW_WORKLOADS and self._are_most(number, suspect)
        }
        if not scores:
            return set()
        highest = max(scores.values())
        best = [suspect for suspect, score in scores.items() if score == highest]
        taken = [result for result in failing if best[0] in route(result)]
        # Another one with other tests is another fault.
        best = [suspect for suspect in best if all(suspect in route(result) for result in taken)]
        names = " or ".join(suspect.name for suspect in best)
        suspect = self._behind(best, names, taken)
        through = "them" if suspect.kind == "several" else names
        words = f"{len(taken)} of {self._reached[best[0]]} tests that go through {through} fail when they run"
        for result in taken:
            self._take(result, suspect, words)
        return set(map(id, taken))

    def _behind(self, best: Sequence[Suspect], names: str, taken: Sequence[TestResult]) -> Suspect:
        """Return one suspect for those that nothing tells apart: the pipeline, if no other test goes through them."""
        if len(best) == 1:
            return best[0]
        pipeline = taken[0].pipeline
        through = [each for each in self._tests if best[0] in route(each)]
        own = [each for each in self._passing if each.pipeline == pipeline]
        is_only = all(each.pipeline == pipeline for each in through) and all(best[0] in route(each) for each in own)
        return Suspect("pipeline", pipeline) if is_only else Suspect("several", names)


def _way(result: TestResult) -> Signature:
    """Return how a test fails that runs: all wrong numbers are one way."""
    if result.outcome == Outcome.MISMATCH:
        return Signature(outcome=result.outcome)
    # A release without symbols names no frame.
    return replace(behaviour_of_run(result), frame="")


def route(result: TestResult) -> list[Suspect]:
    """Return what a test went through: its workload, its importer, and its steps up to the one that decided."""
    route = (
        [] if result.identity.is_ir else [Suspect("workload", result.workload), Suspect("importer", result.framework)]
    )
    route += [Suspect("step", step) for step in result.steps]
    # Documents of older programs have no steps.
    own = suspect_of(result)
    return route if own in route or own.kind not in ("step", "importer") else [*route, own]


def _cause(group: _Group, ran: RanTests) -> Cause:
    suspect = group.suspect
    ordered = sorted(group.results, key=lambda each: (not each.identity.is_ir, len(each.steps), each.id))
    example = ordered[0]
    tests = sorted((each.id for each in group.results), key=lambda each: (each != example.id, each))
    cause: Cause = {
        "key": digest_value(list(group.identity))[:16],
        "kind": suspect.kind,
        "name": suspect.name,
        "title": _title(group, example),
        "tests": tests,
        "globs": ran.globs(tests),
        "example": example.id,
    }
    if file := _file(group):
        cause["file"] = file
    # Another test of the cause may have a command that helps more than to repeat the example.
    following = next((each.next for each in ordered if each.next), example.repeat)
    if following:
        cause["next"] = following
    return cause


def _title(group: _Group, example: TestResult) -> str:
    """Return a sentence that begins with the suspect."""
    name, reason = group.suspect.name, " ".join(example.reason.split())
    match group.suspect.kind:
        case "infrastructure":
            words = [reason]
        case "expectation":
            assert example.expectation is not None
            words = [f"{name} expects {example.expectation['outcome']}", "it passes"]
        case "importer":
            words = [f"import by {name}", group.evidence, reason]
        case _:
            words = [name, group.evidence, reason.removeprefix(f"{name}: ")]
    return title(words)


def _file(group: _Group) -> str:
    """Return the file of the suspect in which most tests fail, else the one that defines it."""
    folder = group.suspect.file.rpartition("/")[0]
    places = (each.position for each in group.results if not (each.kept and each.position.startswith(each.kept)))
    files = Counter(place.partition(":")[0] for place in places if place)
    if group.suspect.kind == "infrastructure":
        return next((file for file, _ in files.most_common(1)), "")
    inside = next((file for file, _ in files.most_common() if folder and file.startswith(f"{folder}/")), "")
    # A step's IR test is where its fault shows, not where it is.
    return group.suspect.file if not inside or "/tests/" in inside else inside
