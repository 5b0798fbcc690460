"""Propose the expectations of a suite by test: add tests that fail, and remove tests that pass."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.collect import is_measurable
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import TestId, printable
from mlir_matrix.base.text import patch
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.corpora import LIST, MOST_MEMBERS, names_in
from mlir_matrix.catalog.models.base import Corpus
from mlir_matrix.catalog.models.suites import Expectations, Suite
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.run_graph import outputs_of
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.programs import add_members
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.results import NOT_RUN, TestResult
from mlir_matrix.results.signature import mismatch_words, shape, wrong_outputs

if TYPE_CHECKING:
    from mlir_matrix.compare.documents import Census
    from mlir_matrix.expectations.documents import ExpectationChange, ExpectationsChange, MembersChange, NotExpected

State = Literal["new", "changed", "gone"]
_STATES: Sequence[State] = ("new", "changed", "gone")
#: Outcomes that do not depend on the test.
_NEVER = NOT_RUN | {Outcome.TIMED_OUT, Outcome.INFRA_ERROR}
_NO_TEST = "is not a test of the suite that can run"
_WRITTEN = "# Written by `matrix expect {} --write`"
#: Sizes as in ``2x?xf32``, numbers as in ``1.5e-7``, and lists of placeholders.
_SIZES = re.compile(r"(?<!\w)(?:(?:\d+|\?)x)+(?:\d+(?!\w))?")
_NUMBER = re.compile(r"(?<![\w.%])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.]*\w)")
_LIST = re.compile(r"…(?:(?:, ?| )…)+")
_LONGEST = 200
#: Errors below and above this many times their bound are distinguished. Rounding, which differs between machines, rarely
#: reaches it.
_FAR = 100
#: Names that YAML reads as text; others need quotes.
_PLAIN = re.compile(r"(?!(?:true|false|yes|no|on|off|null|y|n)$)[a-z][\w.+:~-]*", re.IGNORECASE | re.ASCII)


class ExpectedFailure(NamedTuple):
    """How a test is expected to end."""

    outcome: str
    reason: str


class Proposal(NamedTuple):
    """The proposed expectations of a suite by test, the changes, and the tests that no rule can cover."""

    expected: Mapping[str, ExpectedFailure]
    changes: list[ExpectationChange]
    left: list[NotExpected]


class FileChange(NamedTuple):
    """The old and the new text of a generated file, and its patch, which is empty for equal texts."""

    path: Path
    before: str
    text: str
    patch: str


def normalised(reason: str) -> str:
    """Return a reason without details that differ between similar failures: numbers, shapes, names of values, paths."""
    text = shape(_NUMBER.sub("…", _SIZES.sub("…x", reason.strip()[:1000])))
    return printable(_LIST.sub("…", text), _LONGEST).strip()


def reason_of(result: TestResult) -> str:
    """Return why a test fails, without text that differs between runs or machines."""
    facts = ""
    if result.outcome == Outcome.MISMATCH and result.verdict:
        facts = "; ".join(f"{mismatch_words(each)}{_how_far(each)}" for each in wrong_outputs(result.verdict))
    return printable(facts, _LONGEST).strip() or normalised(result.reason) or str(result.outcome)


def _how_far(output: Census) -> str:
    """Return how far an output exceeds its bound; empty if no bound would help."""
    used = output.get("error_used")
    if used is None or output.get("nan_mismatches") or output.get("inf_mismatches"):
        return ""
    if used == "inf":
        return ", and they must be equal"
    return f", off by {'more than' if float(used) > _FAR else 'up to'} {_FAR} times the bound"


def expected_by(document: Expectations) -> dict[str, ExpectedFailure]:
    """Return the expectations of a file by test."""
    return {
        test: ExpectedFailure(group.outcome, group.reason.strip())
        for group in document.expect
        for test in group.identifiers
    }


def propose(
    old: Mapping[str, ExpectedFailure], tests: Mapping[str, Test], results: Mapping[str, TestResult]
) -> Proposal:
    """Return the expectations that follow from results.

    ``old``: the expectations of the file. ``tests``: the tests of the suite that can run, with only manual rules applied. A test
    without a result keeps its expectation.
    """
    expected: dict[str, ExpectedFailure] = {}
    left: list[NotExpected] = []
    groups: dict[tuple[State, str, ExpectedFailure, str], list[str]] = {}
    for test in sorted(old.keys() | results.keys()):
        before, result = old.get(test), results.get(test)
        after, why = _after(tests.get(test), result, before)
        if result and why:
            left.append({"test": test, "outcome": result.outcome, "reason": why})
        if after:
            expected[test] = after
        if after == before:
            continue
        identity = TestId.parse(test)
        now = after
        if now is None:
            outcome = result.outcome if result else ""
            reason = result.reason if result else _NO_TEST
            now = ExpectedFailure(outcome, why or reason)
        state: State = "gone" if after is None else "changed" if before else "new"
        was = f"{before.outcome}: {before.reason}" if before else ""
        groups.setdefault((state, identity.cell, now, was), []).append(identity.called)
    changes: list[ExpectationChange] = [
        {
            "state": state,
            "cell": cell,
            "outcome": now.outcome,
            "reason": now.reason,
            "was": was,
            "tests": groups[state, cell, now, was],
        }
        for state, cell, now, was in sorted(groups, key=lambda key: (_STATES.index(key[0]), key))
    ]
    return Proposal(expected, changes, left)


def _after(
    test: Test | None, result: TestResult | None, before: ExpectedFailure | None
) -> tuple[ExpectedFailure | None, str]:
    """Return the expectation of a test, and why a test that does not pass has none."""
    if test is None:
        return None, _NO_TEST if result and result.outcome not in (Outcome.UNSUPPORTED, Outcome.PASS) else ""
    if result is None:
        return before, ""
    if rule := test.expectation:
        met = result.outcome == rule.outcome
        return None, "" if met else f"{rule.position} expects {rule.outcome}: change it there"
    if result.outcome == Outcome.PASS:
        return None, ""
    if result.outcome in _NEVER:
        return before, result.reason
    if quarantine := result.quarantine:
        return before, f"in quarantine: {quarantine['reason']} ({quarantine['position']})"
    if result.verdict and not is_measurable(result.verdict):
        return before, f"nothing was compared: {result.reason}"
    return ExpectedFailure(result.outcome, reason_of(result)), ""


def text(suite: str, expected: Mapping[str, ExpectedFailure], links: Mapping[tuple[str, ExpectedFailure], str]) -> str:
    """Return the text of a file of expectations; ``links`` has links to issues by cell and failure."""
    groups: dict[tuple[str, ExpectedFailure], list[str]] = {}
    for test, failure in expected.items():
        identity = TestId.parse(test)
        groups.setdefault((identity.cell, failure), []).append(identity.called)
    lines = [
        "# yaml-language-server: $schema=../../docs/schemas/expectations.json",
        f"{_WRITTEN.format(suite)}; a person reviews it.",
        "expect:" if groups else "expect: []",
    ]
    for (cell, failure), names in sorted(groups.items()):
        lines += [f"  - outcome: {failure.outcome}", f"    reason: {_quoted(failure.reason)}"]
        lines += [f"    link: {_quoted(link)}"] if (link := links.get((cell, failure))) else []
        lines += [f"    cell: {cell}", "    tests:"]
        lines += [f"      - {name if _PLAIN.fullmatch(name) else _quoted(name)}" for name in sorted(names)]
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def expectations_change(
    suite: Entry[Suite], old: Entry[Expectations] | None, tests: Collection[Test], results: Mapping[str, TestResult]
) -> tuple[FileChange, ExpectationsChange]:
    """Return the change of a suite's file that follows from results of some of its tests, and its document."""
    groups = old.document.expect if old else ()
    links = {
        (group.cell, ExpectedFailure(group.outcome, group.reason.strip())): group.link for group in groups if group.link
    }
    before = expected_by(old.document) if old else {}
    expected, changes, left = propose(before, {test.id: test for test in tests}, results)
    path = suite.root / "matrix" / "expectations" / f"{suite.name}.yaml"
    file = _change(suite.root, path, text(suite.name, expected, links) if old or expected else "")
    return file, {"file": str(path), "patch": file.patch, "changes": changes, "left": left, "expected": len(expected)}


def members_change(current: Session, corpus: Entry[Corpus], limits: Limits) -> tuple[FileChange, MembersChange]:
    """List the members of a corpus by its tool; return the change of its list, and its document. Raise UsageError."""
    graph = Graph()
    action = add_members(graph, current.catalog, current.pins, corpus)
    listed = outputs_of(current, graph, action, f"members of corpus {corpus.name}", limits)["members"].decode(
        errors="replace"
    )
    names = names_in(listed)
    if not 0 < len(names) <= MOST_MEMBERS:
        raise UsageError(f"corpus {corpus.name}: {len(names)} members are listed; expected 1 to {MOST_MEMBERS}")
    if odd := next((name for name in names if not name.isprintable()), ""):
        raise UsageError(
            f"corpus {corpus.name}: '{printable(odd)}' is not a name of a member: it has a control character"
        )
    file = _change(corpus.root, corpus.folder / LIST, "\n".join((f"{_WRITTEN.format(corpus.name)}.", *names, "")))
    before, now = dict.fromkeys(names_in(file.before)), dict.fromkeys(names)
    return file, {
        "file": str(file.path),
        "patch": file.patch,
        "added": [name for name in now if name not in before],
        "removed": [name for name in before if name not in now],
    }


def _change(root: Path, path: Path, after: str) -> FileChange:
    before = path.read_text(encoding="utf-8") if path.exists() else None
    return FileChange(path, before or "", after, patch(path.relative_to(root).as_posix(), before, after))
