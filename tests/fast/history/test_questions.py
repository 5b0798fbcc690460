"""Questions about histories whose answers are known."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.base.errors import UsageError
from mlir_matrix.fleet.durations import Recorded
from mlir_matrix.history import report as text
from mlir_matrix.history.checked import check
from mlir_matrix.history.chosen_runs import ChosenRuns
from mlir_matrix.history.first_bad import first_bad_by_cause
from mlir_matrix.history.questions import Questions, changed
from mlir_matrix.history.store import Store
from mlir_matrix.history.transfer import prune
from mlir_matrix.history.trends import Trends
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.documents import Costs
from mlir_matrix.results.results import TestResult
from mlir_matrix.schema.export import adapter
from support.recordings import TIMES, first_bad, recording, result

A, B = "jax/p/t/a", "jax/p/t/b"


def add(store: Store, runs: Iterable[dict[str, Any]]) -> list[str]:
    recordings = list(runs)
    for each in recordings:
        assert store.add(check(each), TIMES[300])
    return [each["id"] for each in recordings]


def days(*results: list[TestResult], **more: Any) -> list[dict[str, Any]]:
    """One run a day, with a commit of its own."""
    return [recording(each, day, commit=f"{day:040}", **more) for day, each in enumerate(results)]


def again(run: str, day: int) -> dict[str, Any]:
    times = {"started": TIMES[day], "ended": TIMES[day], "host": "one"}
    return {"id": f"{day:032x}", "same_as": run, "run": times}


def valid(name: str, **document: Any) -> None:
    adapter(name).validate_python({"schema": f"mlir-matrix/{name}/v1", "database": "d", **document})


def test_show(store: Store) -> None:
    ids = add(
        store, days([result("a"), result("b", pins={"llvm": "22"})], [result("a", "crashed")], [result("a", "skipped")])
    )
    add(store, [again(ids[2], 9)])
    with store.reading() as connection:
        tests, matched = Questions(store, connection).show(["jax/**"])
        runs, count = Questions(store, connection).runs()
    assert (matched, [text.strip(each["recent"]) for each in tests]) == (2, [".C-", "."])
    assert (tests[0]["results"], tests[0]["unexpected"], tests[0]["seconds"]) == (3, 1, 1.0)
    assert (tests[0]["first_seen"], tests[0]["last_seen"]) == (TIMES[0], TIMES[9])
    assert tests[1]["pins"] == {"llvm": "22"}
    assert [(run["id"], run["repeats"], run["unexpected"]) for run in runs] == [
        (ids[2], 1, 0),
        (ids[1], 0, 1),
        (ids[0], 0, 0),
    ]
    valid("history", summary={"matched": 2, "shown": 2, "unexpected": 0}, tests=tests)
    valid("history-runs", summary={"matched": count, "runs": 3}, runs=runs)
    assert (
        f"{ids[2][:12]}  2026-01-03 12:00      0.0  one   000000000      1           0         0        1 ×  matrix run"
        in list(text.runs_text(runs, count))
    )


def test_some_runs(store: Store) -> None:
    """Those of build machines, of a suite, of a branch, since a day; a run counts at its last repetition, too."""
    ids = add(
        store,
        [
            recording([result("a")], 0, host="build-1", arguments=["nightly"]),
            recording([result("a", "crashed")], 1, host="laptop", arguments=[]),
            recording([result("a")], 2, host="build-2", arguments=["nightly", "jax/**"]),
        ],
    )
    for number, each in enumerate(("main", "release/1", "release/2")):
        with store.writing() as connection:
            catalogs = json.dumps(
                [
                    {"folder": "/c", "commit": "c" * 40, "branch": each, "dirty": False},
                    {"folder": "/a-dev", "commit": "", "branch": "", "dirty": False},
                ]
            )
            connection.exec_driver_sql("UPDATE runs SET catalogs = ? WHERE id = ?", (catalogs, ids[number]))
    add(store, [again(ids[0], 9)])
    wanted = {
        ChosenRuns(host="build-*"): [2, 0],
        ChosenRuns(host="build%"): [],
        ChosenRuns(suite="nightly"): [2, 0],
        ChosenRuns(suite="night"): [],
        ChosenRuns(suite="smoke"): [1],
        ChosenRuns(host="BUILD-*"): [],
        ChosenRuns(branch="release/?"): [2, 1],
        ChosenRuns(branch="*/2"): [2],
        ChosenRuns(branch="*-dev"): [],
        ChosenRuns(since=TIMES[2]): [2, 0],
        ChosenRuns(host="build-*", branch="main"): [0],
    }
    with store.reading() as connection:
        for chosen, numbers in wanted.items():
            questions = Questions(store, connection, chosen)
            found, count = questions.runs(most=1)
            assert [run["id"] for run in questions.runs()[0]] == [ids[number] for number in numbers], chosen
            assert (len(found), count) == (min(1, count), len(numbers))
        builders = Questions(store, connection, ChosenRuns(host="build-*"))
        (shown,), _ = builders.show([A])
        assert text.strip(shown["recent"]) == ".."
        assert first_bad(builders, []) == ([], 0)
        assert builders.run_key("latest")[1] == builders.run_key(ids[0])[1]
        assert Trends(builders).snapshot("").tests[A].last_failure == ""
        laptop = Questions(store, connection, ChosenRuns(host="laptop"))
        assert laptop.outcomes("latest")[1][A].outcome == "crashed"
        with pytest.raises(UsageError, match="latest~1: the history has fewer runs"):
            laptop.run_key("latest~1")
        nobody = Questions(store, connection, ChosenRuns(host="nobody"))
        with pytest.raises(UsageError, match="the history has no such test in these runs"):
            nobody.show([A])
        assert list(text.runs_text(*Questions(store, connection).runs(most=2)))[-1] == (
            "the newest 2 of 3 runs; older ones: --limit 3, or --since DATE"
        )


def counted(name: str, **exact: float) -> TestResult:
    return result(name, costs={"exact": exact, "absent": {}, "operations": {}, "compile": []})


def test_exact_costs_are_kept_and_their_changes_shown(store: Store) -> None:
    results = [
        [counted("a", instructions=1000, vector_share=0.5)], [result("a")],
        [counted("a", instructions=1000, vector_share=0.5)], [counted("a", instructions=1500, vector_share=0.5, d1_misses=3)],
    ]  # fmt: skip
    ids = add(store, [recording(each, day) for day, each in enumerate(results)])
    with store.reading() as connection:
        tests, matched = Questions(store, connection).show([A])
        (rows,) = connection.exec_driver_sql("SELECT count(*) FROM costs").one()
    # Equal costs are one row.
    assert rows == 2
    assert [each.get("costs", {}).get("instructions") for each in tests[0]["recent"]] == [1000, None, 1000, 1500]
    summary = {"matched": matched, "shown": 1, "unexpected": 0}
    valid("history", summary=summary, tests=tests)
    lines = list(text.shown_text(tests, summary))
    place = next(number for number, line in enumerate(lines) if "costs that changed" in line)
    assert lines[place + 1] == f"  {ids[3][:12]} 2026-01-04 12:00: instructions 1,000 → 1,500 (+50.0 %)"
    assert lines[place + 2] == ""


def test_a_pattern_that_matches_nothing(store: Store) -> None:
    add(store, days([result("a")]))
    with store.reading() as connection:
        for pattern in ("jax/p/t/x", "mlir/**"):
            with pytest.raises(UsageError, match="has no such test"):
                Questions(store, connection).show([pattern])


def answered(store: Store, *patterns: str) -> list[str]:
    """The lines that tell when tests went bad."""
    with store.reading() as connection:
        answer = first_bad_by_cause(Questions(store, connection), patterns)
    valid("history-first-bad", **answer)
    return list(text.first_bad_text(answer["causes"], answer["summary"]))


def test_first_bad(store: Store) -> None:
    pins = {"llvm": "21.1.8", "jax": "0.9.2"}
    bad = result("a", "crashed", pins={**pins, "llvm": "22.1.8"})
    ids = add(
        store,
        days(
            [result("a", pins=pins), result("b", "crashed")],
            [result("a", pins=pins, cached=True), result("b")],
            [bad],
            [bad],
        ),
    )
    with store.reading() as connection:
        (found,), total = first_bad(Questions(store, connection), [])
        assert first_bad(Questions(store, connection), [B]) == ([], 0)
    assert found["last_good"] is not None
    assert (found["id"], found["last_good"]["id"], found["first_bad"]["id"]) == (A, ids[1], ids[2])
    assert found["pins"] == {"llvm": ["21.1.8", "22.1.8"]}
    assert found["bisect"].endswith(f"bisect {A} --pin jax=0.9.2 --good llvm=21.1.8 --bad llvm=22.1.8")
    assert found["commits"] == [{"folder": "/catalog", "good": f"{1:040}", "bad": f"{2:040}", "dirty": False}]
    assert total == 1
    assert "  pin        llvm: 21.1.8 → 22.1.8" in answered(store)


def test_the_nearest_releases_of_builds_are_bisected(store: Store) -> None:
    """A build in a folder and a release that the catalog lost are no ends."""
    old, new = {"llvm": "19.1.7+own.058010b1", "numpy": "1"}, {"llvm": "21.1.8", "numpy": "1"}
    add(store, days([result("a", pins=old)], [result("a", "crashed", pins=new)]))
    builds = [{"llvm": f"19.1.7+own.{digest:08}"} for digest in range(2)]
    add(store, days([result("b", pins=builds[0])], [result("b", "crashed", pins=builds[1])]))
    with store.reading() as connection:
        found, total = first_bad(Questions(store, connection), [])
    build, release = found
    assert release["bisect"].endswith(f"bisect {A} --good llvm=19.1.7 --bad llvm=21.1.8")
    assert release["bisect_notes"] == ["llvm 19.1.7+own.058010b1 is a build in a folder; the nearest release is 19.1.7"]
    assert build["bisect"] == ""
    assert f"bisect {B} --component llvm --repo DIR --build COMMAND" in build["bisect_notes"][-1]
    assert total == 2
    line = "             llvm 19.1.7+own.058010b1 is a build in a folder; the nearest release is 19.1.7"
    assert line in answered(store)


@pytest.mark.parametrize(
    ("commit", "digests", "more", "line"),
    [
        ("", "aa", {}, "no recorded input differs; see: matrix history show --flaky"),
        ("", "ab", {}, "its inputs differ; which files is not known, because /catalog is not in git"),
        ("c" * 40, "ab", {}, "its inputs differ; which is not recorded"),
        ("", "ab", {"host": "two"}, "the machine differs: one, two"),
        ("", "", {}, "whether its inputs differ is not recorded"),
    ],
)
def test_what_no_commit_explains(store: Store, commit: str, digests: str, more: dict[str, Any], line: str) -> None:
    before, after = ({A: each * 64} for each in digests) if digests else ({}, {})
    good = recording([result("a")], commit=commit, inputs=before)
    add(store, [good, recording([result("a", "crashed")], 1, commit=commit, inputs=after, **more)])
    assert f"  {line}" in answered(store)


def test_never_good(store: Store) -> None:
    add(store, days([result("a", "infra-error")], [result("a", "crashed")]))
    with store.reading() as connection:
        (found,), _ = first_bad(Questions(store, connection), ["jax/**"])
    assert (found["last_good"], found["bisect"]) == (None, "")


def test_flaky_is_who_contradicts_itself(store: Store) -> None:
    same = {"inputs": {A: "a" * 64, B: "b" * 64}}
    outcomes = ["pass", "pass", "crashed", "pass"]
    add(
        store,
        [recording([result("a", each), result("b", seconds=day)], day, **same) for day, each in enumerate(outcomes)],
    )
    with store.reading() as connection:
        (found,) = Trends(Questions(store, connection)).flaky([])
    assert (found["id"], found["executions"], found["differing"], found["rate"]) == (A, 4, 1, 0.25)
    assert found["interval"] == pytest.approx([0.0456, 0.6994], abs=1e-3)
    valid("history-flaky", summary={"tests": 1, "shown": 1}, tests=[found])
    assert any("3 × pass; 1 × crashed at run" in line for line in text.flaky_text([found], 1))


@pytest.mark.parametrize(
    "second",
    [
        {"inputs": {A: "b" * 64}}, {"inputs": {A: "a" * 64}, "host": "two"}, {"inputs": {A: "a" * 64}, "cached": True},
        {"inputs": {A: "a" * 64}, "outcome": "infra-error"},
    ],
)  # fmt: skip
def test_what_is_not_flaky(store: Store, second: dict[str, Any]) -> None:
    last = result("a", second.pop("outcome", "crashed"), cached=second.pop("cached", False))
    add(store, [recording([result("a")], inputs={A: "a" * 64}), recording([last], 1, **second)])
    with store.reading() as connection:
        assert Trends(Questions(store, connection)).flaky([]) == []


@contextmanager
def few_parameters() -> Iterator[None]:
    """Let a statement have 1000 parameters. SQLite's own limit, 32,766 or in Debian 250,000, would take long to exceed."""

    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 1000)

    sa.event.listen(sa.Engine, "connect", limit)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "connect", limit)


def test_answers_may_name_more_tests_than_a_statement_has_parameters(store: Store) -> None:
    add(
        store,
        [recording([result(f"t{number}", outcome) for number in range(2000)]) for outcome in ("pass", "crashed")],
    )
    with few_parameters():
        with store.reading() as connection:
            assert len(Trends(Questions(store, connection)).flaky([])) == 2000
            found, total = first_bad(Questions(store, connection), ["jax/**"])
        assert (len(found), total) == (200, 2000)
        assert answered(store)[-1] == "2000 tests bad when last decided, 1 cause"


def test_tests_of_one_cause_that_went_bad_together_are_one_entry(store: Store) -> None:
    def failing(name: str, step: str, reason: str) -> TestResult:
        return result(
            name, "lower-failed", f"{step}: {reason}", stage="lower", step={"name": step, "action": ""}, steps=[step]
        )

    good = [result(name) for name in "abcdefgh"]
    bad = [*(failing(name, "tile", "no loop") for name in "abcd"), failing("e", "fuse", "odd"), *good[5:]]
    later = [*bad[:5], failing("f", "tile", "no loop"), *good[6:]]
    runs = enumerate((good, bad, later))
    add(store, [recording(each, day, commit=f"{day:040}", causes=causes_of(each)) for day, each in runs])
    lines = answered(store)
    assert lines[0] == "[bold]tile: 4 of 4 tests that reach it fail there: no loop[/]"
    assert lines[1] == "  tests      4: jax/p/t/{a,b,c,d}"
    assert lines[2] == "  example    jax/p/t/a  [red]lower-failed at tile, no loop[/]"
    assert lines[4].startswith("  first bad ")
    assert [line.split("  ")[0] for line in lines if "[bold]jax" in line] == [
        "[bold]jax/p/t/f[/]",
        "[bold]jax/p/t/e[/]",
    ]
    assert lines[-1] == "6 tests bad when last decided, 3 causes"


def test_repeats_in_one_run_count(store: Store) -> None:
    add(store, [recording([result("a"), result("a", "crashed")])])
    with store.reading() as connection:
        (found,) = Trends(Questions(store, connection)).flaky([])
        _, outcomes = Questions(store, connection).outcomes("latest")
    assert found["executions"] == 2
    assert outcomes[A].outcome == "crashed"


def test_slower_is_decided_for_each_host(store: Store) -> None:
    slow = [1.0, 1.1, 0.9, 1.0, 1.05, 1.02, 2.0, 2.1, 1.9, 2.0, 2.2]
    add(store, [recording([result("a", seconds=each), result("b")], day) for day, each in enumerate(slow)])
    # This machine was always slow.
    add(store, [recording([result("a", seconds=2.5)], 20 + day, host="two") for day in range(11)])
    with store.reading() as connection:
        (found,) = Trends(Questions(store, connection)).slower([])
        assert Trends(Questions(store, connection)).slower([B]) == []
    assert (found["id"], found["host"], found["before"], found["after"]) == (A, "one", 1.01, 2.0)
    valid("history-slower", summary={"tests": 1, "shown": 1}, tests=[found])
    assert found["cost"] == "seconds"
    assert found["interval"][0] > 1.7
    assert any("one" in line and f"{found['factor']:.2f}" in line for line in text.slower_text([found], 1))


def test_more_instructions_are_found_by_one_count(store: Store) -> None:
    counts = {"a": [100, 100, 100, 103], "b": [100, 100, 100, 101], "c": [100, 150, 150, 150, 150, 150, 150]}
    for name, series in counts.items():
        for day, count in enumerate(series):
            counted = replace(
                result(name), costs=Costs(exact={"instructions": count}, absent={}, operations={}, compile=[])
            )
            add(store, [recording([counted], day)])
    with store.reading() as connection:
        (found,) = Trends(Questions(store, connection)).slower([])
    assert (found["id"], found["cost"], found["before"], found["after"]) == (A, "instructions", 100, 103)
    valid("history-slower", summary={"tests": 1, "shown": 1}, tests=[found])
    assert any("103" in line and "1.03" in line for line in text.slower_text([found], 1))


def test_an_error_that_grows(store: Store) -> None:
    add(store, [
        recording([result(name, metrics={"error_used": used}) for name, used in (("a", 0.1 + day / 20), ("b", day % 2 / 5))], day)
        for day in range(10)
    ])  # fmt: skip
    with store.reading() as connection:
        (found,) = Trends(Questions(store, connection)).growing([])
    assert (found["id"], found["first"], found["last"], found["runs_left"]) == (A, 0.1, 0.55, 9)
    valid("history-error-growing", summary={"tests": 1, "shown": 1}, tests=[found])
    assert any("55 %" in line for line in text.growing_text([found], 1))


def test_diff(store: Store) -> None:
    names = "abcdefg"
    before = [result(name, "crashed" if name in "cde" else "pass") for name in names[:6]]
    after = [result(name, "mismatch" if name == "e" else "crashed" if name in "bd" else "pass") for name in names[1:]]
    ids = add(store, days(before, after))
    with store.reading() as connection:
        questions = Questions(store, connection)
        (_, old), (_, new) = questions.outcomes("latest~1"), questions.outcomes(ids[1][:8])
    found = changed(old, new)
    assert {kind: [test["id"][-1] for test in tests] for kind, tests in found.items()} == {
        "new": ["b"], "fixed": ["c"], "changed": ["e"], "passes": [], "not_run": [], "added": ["g"], "gone": ["a"],
    }  # fmt: skip
    assert found["changed"][0] == {"id": "jax/p/t/e", "before": "crashed at run", "after": "mismatch"}


@pytest.mark.parametrize(
    ("word", "message"), [("latest~7", "fewer runs"), ("ffff", "no run"), ("a%", "is no run"), ("0", "is no run")]
)
def test_what_is_no_run(store: Store, word: str, message: str) -> None:
    add(store, [recording([result("a")], id="0" * 32)])
    with store.reading() as connection, pytest.raises(UsageError, match=message):
        Questions(store, connection).outcomes(word)


def test_the_latest_may_repeat_another(store: Store) -> None:
    (first,) = add(store, days([result("a")]))
    add(store, [again(first, 1), again("f" * 32, 2)])
    with store.reading() as connection:
        assert Questions(store, connection).outcomes("latest~1")[0]["id"] == first
        with pytest.raises(UsageError, match="repeats run ffffffffffff, which this history does not have"):
            Questions(store, connection).outcomes("latest")


def test_the_snapshot(store: Store) -> None:
    add(
        store,
        days(
            [result("a", seconds=3.0)],
            [result("a", "crashed", seconds=1.0)],
            [result("a", seconds=2.0), result("b", cached=True)],
        ),
    )
    with store.reading() as connection:
        found = Trends(Questions(store, connection)).snapshot(TIMES[5])
    assert found.tests == {A: Recorded(2.0, TIMES[2], TIMES[1])}
    assert found.taken == TIMES[5]


def test_prune(store: Store) -> None:
    ids = add(
        store,
        days(
            *([result("a", "crashed" if day == 3 else "pass", metrics={"error_used": day / 100})] for day in range(60))
        ),
    )
    # The first run is repeated by one that is kept.
    add(store, [again(ids[0], 59)])
    assert prune(store, TIMES[50], TIMES[320]) == 49
    assert prune(store, TIMES[50], TIMES[320]) == 0
    with store.reading() as connection:
        questions = Questions(store, connection)
        (found,), _ = questions.show([A])
        assert questions.runs(most=99)[1] == 60
        with pytest.raises(UsageError, match="were removed"):
            questions.outcomes(ids[5])
    assert found["results"] == 11
    assert [(each["month"], each["results"], each["unexpected"]) for each in found["months"]] == [
        ("2026-01", 27, 1),
        ("2026-02", 22, 0),
    ]
    assert found["months"][1]["error_used"] == 0.49
    assert prune(store, TIMES[55], TIMES[320]) == 5
    assert not store.add(check(recording([result("a")], 5, id=ids[5])), TIMES[320]), (
        "what was removed does not come back"
    )


@settings(max_examples=25)
@given(data=st.data())
def test_answers_are_those_of_a_plain_search(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Random histories of three tests, with the definitions written out."""
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('x') / 'history.sqlite'}")
    chance = random.Random(data.draw(st.integers(0, 10**6)))
    seen: dict[str, list[tuple[int, TestResult, str]]] = defaultdict(list)
    for day in range(data.draw(st.integers(1, 12))):
        results = [
            result(name, chance.choice(["pass", "pass", "crashed", "skipped", "infra-error"]), cached=chance.random() < 0.3)
            for name in "abc" if chance.random() < 0.8
        ]  # fmt: skip
        inputs = {each.id: chance.choice("ab") * 64 for each in results}
        store.add(check(recording(results, day, inputs=inputs)), TIMES[300])
        for each in results:
            seen[each.id].append((day, each, inputs[each.id]))
    bad, flaky = {}, set()
    for test, history in seen.items():
        told = [(day, each) for day, each, _ in history if each.outcome in ("pass", "crashed")]
        if told and told[-1][1].outcome == "crashed":
            good = max((day for day, each in told if each.outcome == "pass"), default=-1)
            bad[test] = (good, min(day for day, _ in told if day > good))
        ways = {
            (inputs, each.outcome)
            for _, each, inputs in history
            if each.outcome in ("pass", "crashed") and not each.cached
        }
        flaky |= {test for inputs in "ab" if len({way for way in ways if way[0] == inputs * 64}) > 1}
    with store.reading() as connection:
        questions = Questions(store, connection)
        found = {
            each["id"]: (
                TIMES.index(each["last_good"]["started"]) if each["last_good"] else -1,
                TIMES.index(each["first_bad"]["started"]),
            )
            for each in first_bad(questions, [])[0]
        }
        assert found == bad
        assert {each["id"] for each in Trends(questions).flaky([])} == flaky
    store.close()
    assert Path(store.name).exists()


def kinds(store: Store, before: str = "latest~1", after: str = "latest") -> dict[str, list[str]]:
    """The tests that differ between two runs, by the kinds that have any."""
    with store.reading() as connection:
        questions = Questions(store, connection)
        found = changed(questions.outcomes(before)[1], questions.outcomes(after)[1])
    valid_diff(found)
    return {kind: [test["id"][-1] for test in tests] for kind, tests in found.items() if tests}


def valid_diff(found: dict[str, Any]) -> None:
    counts = {kind: len(tests) for kind, tests in found.items()}
    document = {"schema": "mlir-matrix/history-diff/v1", "before": "a", "after": "b", "summary": counts, **found}
    adapter("history-diff").validate_python(document)
    assert list(text.diff_text(document))  # type: ignore[arg-type] # it has these keys


@pytest.mark.parametrize("undecided", [None, "skipped", "infra-error"])
def test_a_failure_is_kept_while_no_run_decides_it(store: Store, undecided: str | None) -> None:
    """It did not fit the budget, was skipped, or the machine failed: it is neither fixed, nor new when it fails again."""
    middle = [result("b")] + ([result("a", undecided)] if undecided else [])
    add(store, days([result("a", "crashed"), result("b")], middle, middle, [result("a", "crashed"), result("b")]))
    for before, after in (("latest~3", "latest~2"), ("latest~2", "latest~1"), ("latest~3", "latest~1")):
        assert kinds(store, before, after) == {"not_run": ["a"]}
    assert kinds(store) == kinds(store, "latest~3", "latest") == {}
    with store.reading() as connection:
        questions = Questions(store, connection)
        _, old = questions.outcomes("latest~3")
        _, new = questions.outcomes("latest~1")
        (still,) = changed(old, new)["not_run"]
        assert still["last_seen"] == TIMES[0]
        (bad,), total = first_bad(questions, [])
    assert (bad["id"], bad["first_bad"]["started"], total) == (A, TIMES[0], 1)
    add(store, [recording(middle, 9)])
    with store.reading() as connection:
        (shown, *_), _ = Questions(store, connection).show([A])
    assert (shown["bad"], shown["behaviour"], shown["decided"]) == (True, "crashed at run", TIMES[3])
    add(store, [recording([result("a")], 10)])
    assert kinds(store) == {"fixed": ["a"], "gone": ["b"]}


def test_an_expected_failure_that_passes_is_no_failure(store: Store) -> None:
    passes = result("a", "pass", expected=False)
    add(store, days([result("a", "crashed", expected=True)], [passes], [passes], [result("a", "mismatch")], [passes]))
    assert kinds(store, "latest~4", "latest~3") == {"passes": ["a"]}
    assert kinds(store, "latest~3", "latest~2") == {}
    assert kinds(store, "latest~2", "latest~1") == {"new": ["a"]}
    assert kinds(store) == {"passes": ["a"]}
    with store.reading() as connection:
        ((found,), _) = first_bad(Questions(store, connection), [])
    assert found["behaviour"] == "pass"


def test_a_failure_between_two_runs_is_new_unless_neither_has_the_test(store: Store) -> None:
    add(store, days([result("a"), result("b")], [result("a", "crashed"), result("c", "crashed")], [result("b")]))
    assert kinds(store, "latest~2", "latest") == {"new": ["a"], "not_run": ["c"]}


def test_a_repeated_run_is_as_late_as_its_repetition(store: Store) -> None:
    first, _ = add(store, days([result("a")], [result("b", "crashed")]))
    add(store, [again(first, 2)])
    assert kinds(store, "latest~1", "latest") == {"not_run": ["b"], "added": ["a"]}


def test_a_test_that_passes_and_fails_in_one_run_was_not_good_in_it(store: Store) -> None:
    add(store, days([result("a")], [result("a"), result("a", "crashed")]))
    with store.reading() as connection:
        (found,), _ = first_bad(Questions(store, connection), [])
    assert found["last_good"] is not None
    assert (found["last_good"]["started"], found["first_bad"]["started"]) == (TIMES[0], TIMES[1])


def test_the_last_failure_of_a_test_is_not_pruned(store: Store) -> None:
    bad = [result("a", "crashed"), result("b")]
    ids = add(store, days(bad, bad, [result("b"), result("a", "skipped")]))
    assert prune(store, TIMES[2], TIMES[320]) == 3
    assert prune(store, TIMES[2], TIMES[320]) == 0
    with store.reading() as connection:
        questions = Questions(store, connection)
        (found,), _ = first_bad(questions, [])
        assert found["first_bad"]["id"] == ids[1]
        with pytest.raises(UsageError, match="were removed"):
            questions.outcomes(ids[1])
    add(store, [recording([result("a"), result("b")], 9)])
    assert kinds(store) == {"fixed": ["a"]}
    assert prune(store, TIMES[3], TIMES[320]) == 3
