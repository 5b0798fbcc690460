"""Answer when tests went bad, between which runs and by which cause."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import sqlalchemy as sa

from mlir_matrix.history.checked import BAD, GOOD, UNKNOWN
from mlir_matrix.history.questions import MOST_TESTS, Questions
from mlir_matrix.history.store import among, causes, results, sets, tests
from mlir_matrix.results.cause_changes import differing
from mlir_matrix.results.cause_globs import RanTests

if TYPE_CHECKING:
    from mlir_matrix.history.bisect_command import BisectCommands
    from mlir_matrix.history.documents import FirstBadCause, FirstBadSummary, FirstBadTest, MovedCommit, RecordedRun


class WentBad(NamedTuple):
    """A test that is bad when last decided: keys of the test, of its last good run, of the first bad run after it."""

    id: str
    test: int
    good: int | None
    bad: int
    #: Keys of its cause and its behaviour in the first bad run.
    cause: int | None
    behaviour: int


class FirstBadAnswer(TypedDict):
    """When tests went bad."""

    causes: list[FirstBadCause]
    tests: list[FirstBadTest]
    summary: FirstBadSummary


def first_bad_by_cause(questions: Questions, patterns: Sequence[str], most: int = MOST_TESTS) -> FirstBadAnswer:
    """Return when the tests that are bad now went bad, and what they have in common; at most so many causes and tests."""
    ends = went_bad(questions, patterns)
    known = {row.key: row for row in questions.rows(sa.select(causes))}
    # Without a cause, in runs of older programs, equal behaviours are one.
    groups: dict[tuple[object, ...], list[WentBad]] = defaultdict(list)
    for end in ends:
        cause = known[end.cause].cause if end.cause is not None else end.behaviour
        groups[end.good, end.bad, cause].append(end)
    ordered = sorted(groups.values(), key=lambda group: (-len(group), -group[0].bad, group[0].id))
    examples = [_example(group, known) for group in ordered[:most]]
    shown = ends[:most]
    entries = {each["id"]: each for each in details(questions, list(dict.fromkeys([*shown, *examples])))}
    globs = RanTests(row.id for row in questions.rows(sa.select(tests.c.id)))
    found = [
        _cause(group, entries[example.id], known, globs) for group, example in zip(ordered, examples, strict=False)
    ]
    summary: FirstBadSummary = {"tests": len(ends), "shown": len(shown), "causes": len(ordered)}
    return {"causes": found, "tests": [entries[end.id] for end in shown], "summary": summary}


def _example(group: Sequence[WentBad], known: dict[int, Any]) -> WentBad:
    named = {known[end.cause].example for end in group if end.cause is not None}
    return next((end for end in group if end.id in named), group[0])


def _cause(group: Iterable[WentBad], example: FirstBadTest, known: dict[int, Any], globs: RanTests) -> FirstBadCause:
    names = sorted((end.id for end in group), key=lambda name: (name != example["id"], name))
    row = next((known[end.cause] for end in group if end.cause is not None), None)
    return {
        "key": row.cause if row else "",
        "title": row.title if row else example["behaviour"],
        "tests": names,
        "globs": globs.globs(names),
        "example": example,
    }


def went_bad(questions: Questions, patterns: Sequence[str]) -> list[WentBad]:
    """Return the tests that are bad in the last run that decided them. Those that went bad last come first."""
    of = questions.results.c
    of_tests = sa.select(of.test).where(of.state < UNKNOWN).group_by(of.test)
    names = questions.tests(patterns)
    bad_last = of_tests.having(questions.last_decided % 2 == 1)
    if patterns:
        bad_last = bad_last.where(among(of.test, names))
    names = questions.among([row.test for row in questions.rows(bad_last)], ())
    ended = (
        of_tests.add_columns(of.run, sa.func.min(of.state).label("state"))
        .where(among(of.test, names))
        .group_by(of.run)
        .subquery("ended")
    )
    good = (
        sa.select(ended.c.test, sa.func.max(sa.case((ended.c.state == GOOD, ended.c.run))).label("good"))
        .group_by(ended.c.test)
        .subquery("good")
    )
    bad = (
        sa.select(sa.func.min(of.run))
        .where(of.test == good.c.test, of.state == BAD, of.run > sa.func.coalesce(good.c.good, 0))
        .scalar_subquery()
    )
    ends = sa.select(good.c.test, good.c.good, bad.label("bad")).subquery("ends")
    # Of several results in the first bad run, any that is bad will do.
    both = (results.c.test == ends.c.test) & (results.c.run == ends.c.bad) & (results.c.state == BAD)
    statement = sa.select(
        ends.c.test, ends.c.good, ends.c.bad, sa.func.max(results.c.cause), sa.func.max(results.c.behaviour)
    )
    rows = questions.rows(statement.join_from(ends, results, both).group_by(ends.c.test, ends.c.good, ends.c.bad))
    found = [WentBad(names[test], test, *rest) for test, *rest in rows]
    return sorted(found, key=lambda each: (-each.bad, each.id))


def details(
    questions: Questions, shown: Sequence[WentBad], commands: BisectCommands | None = None
) -> list[FirstBadTest]:
    """Return when these tests went bad, and what changed then. ``commands`` keeps the catalogs that several questions need."""
    words = questions.behaviours()
    recorded = questions.named([run for row in shown for run in (row.good, row.bad) if run is not None])
    statement = (
        sa.select(results.c.behaviour, sets.c.pins, results.c.inputs)
        .join(sets, sets.c.key == results.c.pins)
        .where(
            results.c.test == sa.bindparam("test"),
            results.c.run == sa.bindparam("run"),
            results.c.state == sa.bindparam("state"),
        )
    )
    from mlir_matrix.history.bisect_command import BisectCommands  # imports the models of catalogs

    found: list[FirstBadTest] = []
    commands = commands or BisectCommands()
    for row in shown:
        at = {
            run: questions.rows(statement, test=row.test, run=run, state=state)[0]
            for run, state in ((row.good, GOOD), (row.bad, BAD))
            if run is not None
        }
        pins = {run: json.loads(text) for run, (_, text, _) in at.items()}
        before = pins.get(row.good or 0, {})
        moved = differing(before, pins[row.bad])
        inputs = [of_run.inputs for of_run in at.values()]
        known = len(inputs) == 2 and None not in inputs
        # The first catalog is the program's own.
        folders = [each["folder"] for each in recorded[row.bad]["catalogs"][1:]]
        command, notes = commands.command(row.id, before, pins[row.bad], folders) if moved else ("", [])
        found.append({
            "id": row.id, "behaviour": words[at[row.bad][0]][1] or words[at[row.bad][0]][0],
            "last_good": recorded[row.good] if row.good is not None else None, "first_bad": recorded[row.bad],
            "commits": _moved(recorded.get(row.good or 0), recorded[row.bad]), "pins": moved,
            "inputs_differ": inputs[0] != inputs[1] if known else None,
            "bisect": command, "bisect_notes": notes,
        })  # fmt: skip
    return found


def _moved(good: RecordedRun | None, bad: RecordedRun) -> list[MovedCommit]:
    """Return the catalogs whose commit changed, or may have: folder, commits, and whether files had changed."""
    before = {each["folder"]: each for each in good["catalogs"]} if good else {}
    found: list[MovedCommit] = []
    for now in bad["catalogs"]:
        was = before.get(now["folder"])
        dirty = now["dirty"] or bool(was and was["dirty"])
        if was and (was["commit"] != now["commit"] or dirty):
            found.append({"folder": now["folder"], "good": was["commit"], "bad": now["commit"], "dirty": dirty})
    return found
