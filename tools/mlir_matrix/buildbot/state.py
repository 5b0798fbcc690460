"""Hold the state of a build: events, the counts of each cell, and earlier failures. This module does not import Buildbot."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.names import TestId
from mlir_matrix.base.text import counted, first_few, harmless, shortened
from mlir_matrix.results.report.failure_text import cause_name
from mlir_matrix.results.results import NOT_RUN, SCHEMA

EVENTS = "mlir-matrix/events/v1"
#: Results of a step, in Buildbot's numbers.
SUCCESS, WARNINGS, FAILURE, SKIPPED, EXCEPTION, RETRY, CANCELLED = range(7)
#: The result of a build by the exit code of ``matrix run``. After SIGHUP, SIGINT or SIGTERM, the build is repeated.
_BY_EXIT_CODE = {0: SUCCESS, 1: FAILURE, 2: FAILURE, 129: RETRY, 130: RETRY, 143: RETRY}
#: Suffixes of outcomes in the text of a cell, in their order.
_STATES = (" UNEXPECTED", " (in quarantine)", "", " (expected)")
#: Outcomes after which a test that failed before still counts as failing.
_UNDECIDED = frozenset({Outcome.SKIPPED, Outcome.INFRA_ERROR})
#: The most test identifiers that a property lists, and the most characters of a cause in the summary of a build.
_LISTED, _TITLE = 200, 100

Entry = Mapping[str, Any]


def result_of(code: int | None) -> int:
    return _BY_EXIT_CODE.get(-1 if code is None else code, EXCEPTION)


def read_event(line: str) -> dict[str, Any]:
    """Parse a line of ``--events``. Raise ValueError if it is not an event, or an event of another version."""
    event = _parsed(line)
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError("it is not an event")
    if event["event"] == "planned" and event.get("schema") != EVENTS:
        raise ValueError(f"its schema is {event.get('schema')!r}; expected {EVENTS}")
    if event["event"] == "finished":
        check_entry(event.get("test"))
        event.setdefault("cell", TestId.parse(event["test"]["id"]).row)
    return event


def read_results(text: str) -> dict[str, Any]:
    """Parse a results document. Raise ValueError."""
    document = _parsed(text)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}")
    for entry in document["tests"]:
        check_entry(entry)
    selection = document.setdefault("selection", {})
    if not (isinstance(selection, dict) and isinstance(selection.get("over_budget", []), list)):
        raise ValueError("its selection is damaged")
    causes, known = document.setdefault("causes", []), {entry["id"] for entry in document["tests"]}
    if not isinstance(causes, list):
        raise ValueError("its causes are damaged")
    for cause in causes:
        check_cause(cause, known)
    return document


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_entry(entry: object) -> None:
    """Raise ValueError if an entry lacks a key that this module reads."""
    names = ("id", "framework", "pipeline", "target", "outcome", "reason")
    if not (
        isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in names) and "expected" in entry
    ):
        raise ValueError("an entry of a test is not complete")
    TestId.parse(entry["id"])


def check_cause(cause: object, known: Set[str]) -> None:
    """Raise ValueError if a cause lacks a key that this module reads, or names a test that the results do not have."""
    if not (
        isinstance(cause, dict)
        and all(isinstance(cause.get(name), str) for name in ("key", "kind", "title", "example"))
        and all(isinstance(cause.get(name), list) and cause[name] for name in ("tests", "globs"))
        and all(isinstance(each, str) for each in [*cause["tests"], *cause["globs"]])
        and known >= {cause["example"], *cause["tests"]}
    ):
        raise ValueError("a cause is not complete")


@dataclass
class CellOutcomes:
    """The outcomes of a cell so far."""

    name: str
    #: Tests that run; 0 if unknown.
    tests: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        self.entries[entry["id"]] = entry

    @property
    def result(self) -> int:
        """Return the result of the step. As in the exit code, a failure takes precedence over an infrastructure error."""
        wrong = {entry["outcome"] for entry in self.entries.values() if fails(entry)}
        if wrong:
            return EXCEPTION if wrong == {Outcome.INFRA_ERROR} else FAILURE
        if not all(entry["expected"] for entry in self.entries.values()):
            return WARNINGS
        return SKIPPED if all(entry["outcome"] in NOT_RUN for entry in self.entries.values()) else SUCCESS

    @property
    def text(self) -> str:
        """Return ``26 pass, 1 mismatch (expected)``; before the end also the number of remaining tests."""
        counts = Counter((_state(entry), entry["outcome"]) for entry in self.entries.values())
        words = [
            f"{number} {harmless(outcome)}{state}" for (state, outcome), number in sorted(counts.items(), key=_order)
        ]
        left = self.tests - sum(entry["outcome"] not in NOT_RUN for entry in self.entries.values())
        running = [f"{left} of {self.tests} to come"] if left > 0 else []
        return ", ".join([*words, *running])


def fails(entry: Entry) -> bool:
    """Return whether the outcome of a test fails a run: it is unexpected, and the test is not in quarantine."""
    return not entry["expected"] and not entry.get("quarantine")


def _state(entry: Entry) -> str:
    if not entry["expected"]:
        return " UNEXPECTED" if fails(entry) else " (in quarantine)"
    return "" if entry["outcome"] in {Outcome.PASS, *NOT_RUN} else " (expected)"


def _order(item: tuple[tuple[str, str], int]) -> tuple[int, bool, str]:
    (state, outcome), _ = item
    return min(_STATES.index(state), 2), outcome != Outcome.PASS, outcome


@dataclass(frozen=True)
class BuildVerdict:
    """The failures of a build, compared with the previous build with the same command."""

    summary: Mapping[str, Any]
    pins: Mapping[str, str]
    failing: Sequence[str]
    new: Sequence[str]
    fixed: Sequence[str]
    #: The causes of what fails, the largest first.
    causes: Sequence[Mapping[str, Any]]
    #: Tests that failed before and are not decided now: over the budget, skipped, or the infrastructure failed.
    still_failing: Sequence[str]

    @property
    def known(self) -> list[str]:
        """Return the failures with which the next build compares."""
        return [*self.failing, *self.still_failing]

    @property
    def properties(self) -> dict[str, Any]:
        names = ("failing", "new", "fixed", "still_failing")
        return {
            "matrix_pins": dict(self.pins),
            "matrix_outcomes": self.summary.get("outcomes", ""),
            "matrix_counts": dict(self.summary.get("by_outcome", {})),
            **{f"matrix_{name}": _listed(getattr(self, name)) for name in names},
            "matrix_causes": _listed([f"{harmless(cause_name(cause))} ({cause['key']})" for cause in self.causes]),
        }

    @property
    def counts(self) -> str:
        counts = self.summary.get("by_outcome", {})
        by = ", ".join(f"{number} {harmless(outcome)}" for outcome, number in counts.items())
        return f"{counted(sum(counts.values()), 'test')}: {by}"

    @property
    def text(self) -> str:
        """Return the summary: ``5 failing: 4 tests: bufferize: …, b; 1 new: b``. The largest cause comes first."""
        causes = [shortened(cause_name(cause), _TITLE) for cause in self.causes if cause["kind"] != "infrastructure"]
        lists = {
            "new": self.new,
            "fixed": self.fixed,
            "still failing, not run this time": self.still_failing,
        }
        failing = [f"{len(self.failing)} failing: {_some(causes or self.failing)}"] if self.failing else []
        others = [f"{len(tests)} {name}: {_some(tests)}" for name, tests in lists.items() if tests]
        return "; ".join(failing + others)


def judge(document: Mapping[str, Any], before: Iterable[str] | None) -> BuildVerdict:
    """Compare results with earlier failures. ``before`` is None if no earlier failures are known."""
    outcomes = {entry["id"]: entry for entry in document["tests"]}
    failing = [name for name, entry in outcomes.items() if _fails(entry)]
    known = dict.fromkeys(before or ())
    undecided = {*document.get("selection", {}).get("over_budget", ())}
    undecided |= {name for name, entry in outcomes.items() if entry["outcome"] in _UNDECIDED}
    pins: dict[str, str] = {}
    for entry in document["tests"]:
        pins |= entry.get("pins", {})
    return BuildVerdict(
        summary=document.get("summary", {}),
        pins=dict(sorted(pins.items())),
        failing=failing,
        causes=document.get("causes", ()),
        new=[] if before is None else [name for name in failing if name not in known],
        fixed=[name for name in known if name in outcomes and _passes(outcomes[name])],
        still_failing=[name for name in known if name in undecided],
    )


def _passes(entry: Entry) -> bool:
    return bool(entry["expected"]) and entry["outcome"] == Outcome.PASS


def _fails(entry: Entry) -> bool:
    return fails(entry) and entry["outcome"] != Outcome.INFRA_ERROR


def _listed(tests: Sequence[str]) -> list[str]:
    more = [f"and {len(tests) - _LISTED} more"] if len(tests) > _LISTED else []
    return [*tests[:_LISTED], *more]


def _some(tests: Sequence[str]) -> str:
    return harmless(first_few(tests, 3))
