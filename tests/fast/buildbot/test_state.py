"""Events and results as a master reads them: of this version, of another one, and damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mlir_matrix.buildbot import state
from mlir_matrix.buildbot.state import CellOutcomes, judge, read_event, read_results, result_of


def entry(name: str = "a", outcome: str = "pass", expected: bool = True, **more: Any) -> dict[str, Any]:
    names = {"id": f"jax/p/t/{name}", "framework": "jax", "pipeline": "p", "target": "t", "workload": name}
    return {**names, "outcome": outcome, "expected": expected, "reason": "", **more}


HELD = {"owner": "a", "until": "2999-12-31", "reason": "r", "position": "q:1:1"}


def document(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"schema": "mlir-matrix/results/v1", "tests": list(entries), "summary": {"by_outcome": {"pass": 1}}}


def cause(*names: str, title: str = "tile: no loop", kind: str = "step") -> dict[str, Any]:
    tests = [f"jax/p/t/{name}" for name in names]
    return {"key": "k", "kind": kind, "title": title, "example": tests[0], "tests": tests, "globs": ["jax/p/t/*"]}


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "nested too deeply"),
        ('{"event":"finished","test":{"id":"a/b/c/d"', "delimiter"),
        ("[1]", "not an event"),
        ('{"event":7}', "not an event"),
        ('{"event":"planned","schema":"mlir-matrix/events/v2"}', "expected mlir-matrix/events/v1"),
        ('{"event":"finished"}', "not complete"),
        ('{"event":"finished","test":{"id":["x"]}}', "not complete"),
    ],
)
def test_a_line_that_is_no_event(line: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        read_event(line)


def test_events_of_an_older_program_have_no_cell() -> None:
    line = json.dumps({"event": "finished", "test": entry() | {"id": "jax/p/t/a@llvm=19"}})
    assert read_event(line)["cell"] == "jax/p/t@llvm=19"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema":"mlir-matrix/results/v9","tests":[]}',
        json.dumps(document({})),
        json.dumps(document() | {"selection": []}),
        json.dumps(document() | {"selection": {"over_budget": "all"}}),
        json.dumps(document() | {"causes": [{"key": "k"}]}),
        json.dumps(document() | {"causes": [cause("a")]}),
        json.dumps(document() | {"causes": 7}),
    ],
)
def test_results_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError):
        read_results(text)


@pytest.mark.parametrize(
    ("entries", "result", "text"),
    [
        ([entry(), entry("b", "mismatch")], state.SUCCESS, "1 pass, 1 mismatch (expected), 1 of 3 to come"),
        ([entry(), entry("b", "mismatch", False)], state.FAILURE, "1 mismatch UNEXPECTED, 1 pass, 1 of 3 to come"),
        ([entry("b", "infra-error", False)], state.EXCEPTION, "1 infra-error UNEXPECTED, 2 of 3 to come"),
        ([entry("b", "infra-error", False), entry("c", "pass", False)], state.FAILURE, None),
        ([entry("b", "unsupported"), entry("c", "skipped")], state.SKIPPED, None),
    ],
)
def test_the_step_of_a_cell(entries: list[dict[str, Any]], result: int, text: str | None) -> None:
    cell = CellOutcomes("jax/p/t", 3)
    for each in [*entries, entries[0]]:
        cell.add(each)
    assert cell.result == result
    assert text in (cell.text, None)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (0, "SUCCESS"),
        (1, "FAILURE"),
        (2, "FAILURE"),
        (3, "EXCEPTION"),
        (143, "RETRY"),
        (-9, "EXCEPTION"),
        (None, "EXCEPTION"),
    ],
)
def test_exit_codes(code: int | None, result: str) -> None:
    assert result_of(code) == getattr(state, result)


def test_what_is_new_and_what_is_fixed() -> None:
    tests = [
        entry("good"), entry("repaired"), entry("new", "mismatch", False), entry("old", "run-failed", False),
        entry("lost", "infra-error", False), entry("lost-before", "infra-error", False), entry("skipped", "skipped"),
        entry("gone", "unsupported"), entry("excused", "mismatch"), entry("held", "mismatch", False, quarantine=HELD),
    ]  # fmt: skip
    names = ("repaired", "old", "lost-before", "skipped", "removed", "gone", "excused", "held", "late")
    before = [f"jax/p/t/{name}" for name in names]
    over = {"over_budget": ["jax/p/t/late", "jax/p/t/never-failed"]}
    found = judge(document(*tests) | {"selection": over}, before)
    names = {
        name: [each.rpartition("/")[2] for each in getattr(found, name)]
        for name in ("failing", "new", "fixed", "still_failing", "known")
    }
    assert names == {
        "failing": ["new", "old"],
        "new": ["new"],
        "fixed": ["repaired"],
        "still_failing": ["lost-before", "skipped", "late"],
        "known": ["new", "old", "lost-before", "skipped", "late"],
    }
    assert found.text == (
        "2 failing: jax/p/t/new, jax/p/t/old; 1 new: jax/p/t/new; 1 fixed: jax/p/t/repaired; "
        "3 still failing, not run this time: jax/p/t/lost-before, jax/p/t/skipped, jax/p/t/late"
    )
    assert found.properties["matrix_still_failing"] == found.still_failing
    assert judge(document(*tests), None).new == []


def test_a_property_lists_no_more_than_a_page_shows() -> None:
    tests = [entry(f"t{number}", "mismatch", False) for number in range(500)]
    listed = judge(document(*tests), []).properties["matrix_failing"]
    assert (len(listed), listed[-1]) == (201, "and 300 more")


def test_what_is_in_quarantine_warns() -> None:
    cell = CellOutcomes("jax/p/t")
    cell.add(entry("b"))
    cell.add(entry("a", "mismatch", expected=False, quarantine=HELD))
    assert (cell.result, cell.text) == (state.WARNINGS, "1 mismatch (in quarantine), 1 pass")
    cell.add(entry("c", "mismatch", expected=False))
    assert (cell.result, cell.text) == (state.FAILURE, "1 mismatch UNEXPECTED, 1 mismatch (in quarantine), 1 pass")
    assert judge(document(*cell.entries.values()), before=[]).failing == ["jax/p/t/c"]


def test_the_largest_cause_is_named_first() -> None:
    entries = [entry(name, "lower-failed", expected=False) for name in "abc"]
    lost = [entry(name, "infra-error", expected=False) for name in "de"]
    causes = [cause(*"ab"), cause(*"de", title="no network", kind="infrastructure"), cause("c")]
    text = json.dumps(document(*entries, *lost) | {"causes": causes})
    found = judge(read_results(text), None)
    assert found.text == "3 failing: 2 tests: tile: no loop, jax/p/t/c"
    assert found.properties["matrix_causes"] == [
        "2 tests: tile: no loop (k)",
        "2 tests: no network (k)",
        "jax/p/t/c (k)",
    ]
