"""What is new since a time, in histories whose answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.history import today_report
from mlir_matrix.history.checked import check
from mlir_matrix.history.chosen_runs import ALL_RUNS, ChosenRuns
from mlir_matrix.history.store import Store
from mlir_matrix.history.today import Morning
from mlir_matrix.history.transfer import push
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.results import TestResult
from mlir_matrix.schema.export import adapter
from support.recordings import TIMES, recording, result

STEP = {"stage": "lower", "step": {"name": "to-loops", "action": "to-loops-1"}}


def ran(
    store: Store, day: int, results: Sequence[TestResult], *, stored: str = TIMES[300], **more: Any
) -> dict[str, Any]:
    """Add a run of a day, with the causes of its failures and a commit of the day."""
    made = recording(results, day, causes=causes_of(results), commit=f"{day:x}" * 40, **more)
    assert store.add(check(made), stored)
    return made


def asked(store: Store, day: int = 2, chosen: ChosenRuns = ALL_RUNS, pin: str = "") -> Any:
    """Ask what is new on a day, since the noon before; the answer is of the documented type."""
    since = TIMES[day - 1].replace("T12", "T13")
    with store.reading() as connection:
        found = Morning(store, connection, chosen, since, TIMES[day].replace("T12", "T13"), pin=pin).document("d")
    adapter("history-today").validate_python(found)
    lines = today_report.text(found)
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100 or any("git -C" in line for line in lines)
    assert today_report.markdown(found).startswith(f"# {today_report.summary(found)}\n")
    return found


def numbers(found: Any) -> dict[str, int]:
    return {name: count for name, count in found["summary"].items() if count and name != "runs"}


def lowering(name: str) -> TestResult:
    return result(name, "lower-failed", "op left", **STEP)


def test_what_broke_by_cause_and_machine(store: Store) -> None:
    good, bad = [result(name) for name in "abcd"], [lowering(name) for name in "abc"]
    for host in ("one", "two"):
        ran(store, 1, [*good, result("x", "crashed"), result("y", "crashed")], host=host)
    first = ran(store, 2, [*bad, result("d", "crashed"), result("x"), result("y", "crashed")], host="one")
    ran(store, 2, [*bad[:2], result("d"), result("x"), result("y", "mismatch")], host="two")
    found = asked(store)
    assert numbers(found) == {"new": 4, "new_causes": 2, "changed": 1, "fixed": 1, "still": 1}
    cause, other = found["new"]
    assert (cause["tests"], cause["file"]) == (
        [f"jax/p/t/{name}" for name in "abc"],
        "recipes/steps/to-loops/step.yaml",
    )
    assert [(place["host"], place["tests"]) for place in cause["places"]] == [("one", 3), ("two", 2)]
    dated = cause["places"][0]["first_bad"]
    assert dated["first_bad"]["id"] == first["id"]
    assert dated["commits"] == [{"folder": "/catalog", "good": "1" * 40, "bad": "2" * 40, "dirty": False}]
    assert other["tests"] == ["jax/p/t/d"]
    assert found["fixed"][0]["tests"] == ["jax/p/t/x"]
    lines = today_report.text(found)
    assert lines[0].endswith("4 tests newly fail, 2 causes; 1 in another way; 1 fixed; 1 as before")
    assert lines[3] == f"  3 tests, since 2026-01-03 12:00: {cause['title']}"
    log = f"git -C /catalog log --oneline {'1' * 9}..{'2' * 9} -- recipes/steps/to-loops"
    assert f"    log      {log}" in lines
    assert f"  - log: `{log}`" in today_report.markdown(found)
    assert "  one: 1 run, the last 2026-01-03 12:00; 6 tests, 5 unexpected, 4 new" in lines


def pinned(store: Store, day: int, outcome: str, option: str) -> None:
    """Add a run of test a with an option for pins on its command line."""
    made = recording([result("a", outcome, pins={"llvm": "22.1.3"})], day)
    store.add(check({**made, "run": {**made["run"], "command": f"matrix run {option}"}}), TIMES[300])


def test_pins_of_a_step_are_compared_apart(store: Store) -> None:
    ran(store, 1, [result("a", "crashed")])
    pinned(store, 1, "pass", "--pin-step to-loops:llvm=22")
    ran(store, 2, [result("a", "crashed")])
    assert numbers(asked(store)) == {"still": 1}


def test_pins_of_the_command_line_are_compared_apart(store: Store) -> None:
    for day, outcome in ((1, "pass"), (2, "crashed")):
        ran(store, day, [result("a", pins={"llvm": "24.0.0"})])
        pinned(store, day, outcome, "--pin llvm=22")
    found = asked(store)
    assert [(each["pins"], each["new"]) for each in found["machines"]] == [("", 0), ("llvm=22", 1)]
    assert [asked(store, pin=pin)["summary"]["new"] for pin in ("llvm=22", "llvm=22.1.3", "llvm=24", "llvm=2?")] == [
        1,
        1,
        0,
        1,
    ]
    for pin in ("llvm=2", "llvm=22.1.30", "jax=22"):
        with pytest.raises(UsageError, match=f"--pin {pin}: no result of the history has this release"):
            asked(store, pin=pin)


def test_a_roll_of_a_pin_is_what_changed(store: Store) -> None:
    for day, outcome, llvm in ((1, "pass", "24.0.0"), (2, "crashed", "24.0.1")):
        ran(store, day, [result("a", outcome, pins={"llvm": llvm})])
    assert "    changed  llvm 24.0.0 → 24.0.1" in today_report.text(asked(store, pin="llvm=24.0.1"))


def test_a_new_machine_is_compared_with_the_others(store: Store) -> None:
    ran(store, 1, [result("a"), lowering("b")], host="one")
    ran(store, 2, [lowering("a"), lowering("b")], host="two")
    found = asked(store)
    assert (numbers(found), found["notes"]) == ({"new": 1, "new_causes": 1, "still": 1}, [])


def test_a_run_that_repeats_an_earlier_one(store: Store) -> None:
    """A reverted commit: nothing is executed, and the test is fixed."""
    first = ran(store, 0, [result("a")])
    ran(store, 1, [lowering("a")])
    times = {"started": TIMES[2], "ended": TIMES[2], "host": "one"}
    store.add(check({"id": "f" * 32, "same_as": first["id"], "run": times}), TIMES[300])
    assert numbers(asked(store)) == {"fixed": 1}


def test_what_makes_the_answer_incomplete(store: Store) -> None:
    assert asked(store)["notes"] == ["the history has no run; each matrix run adds to it"]
    ran(store, 2, [lowering("a")], host="first")
    assert asked(store)["notes"] == ["first: no run before; each failure counts as new"]
    ran(store, 1, [lowering("b"), result("c")], host="one")
    stopped = ran(store, 2, [result("b", "skipped"), result("c")], host="one", interrupted=True)
    for day in (0, 1):
        ran(store, day, [result("b")], host="gone")
    late = ran(store, 200, [result("b")], host="fast", stored=TIMES[2])
    lost = ran(store, 2, [result("c", "infra-error", "disk full")], host="one")
    found = asked(store)
    assert found["notes"] == [
        "gone: no run since 2026-01-02 12:00",
        f"fast: run {late['id'][:12]} starts at {TIMES[200][:10]} 12:00, in the future: a clock is wrong",
        f"one: run {stopped['id'][:12]} was interrupted; tests that it did not run keep their last state",
        "one: 1 test that failed before did not run",
    ]
    assert lost["id"]
    assert found["trouble"] == []


def test_tests_that_only_the_infrastructure_failed(store: Store) -> None:
    ran(store, 1, [result("a")])
    ran(store, 2, [result("a", "infra-error", "disk full")])
    (cause,) = asked(store)["trouble"]
    assert (cause["tests"], "disk full" in cause["title"]) == (["jax/p/t/a"], True)


def test_a_test_in_quarantine_is_no_news(store: Store) -> None:
    held: Any = {"owner": "ann", "until": "2027-01-01", "reason": "flaky", "position": "matrix/quarantine.yaml:3:5"}
    ran(store, 1, [result("a")])
    ran(store, 2, [result("a", "crashed", quarantine=held)])
    found = asked(store)
    assert (numbers(found), found["notes"]) == ({}, ["one: 1 test in quarantine failed"])


def test_a_test_that_leaves_quarantine_is_bad_as_before(store: Store) -> None:
    held: Any = {"owner": "ann", "until": "2027-01-01", "reason": "flaky", "position": "matrix/quarantine.yaml:3:5"}
    ran(store, 1, [result("a", "crashed", quarantine=held)])
    ran(store, 2, [result("a", "crashed")])
    (cause,) = asked(store)["still"]
    assert (cause["tests"], cause["next"]) == (["jax/p/t/a"], "")


def test_runs_of_older_programs_have_no_causes(store: Store) -> None:
    store.add(check(recording([result(name) for name in "ab"], 1)), TIMES[300])
    store.add(check(recording([lowering(name) for name in "ab"], 2)), TIMES[300])
    (cause,) = asked(store)["new"]
    assert (len(cause["tests"]), cause["title"]) == (2, "lower-failed at to-loops, op left")


def test_flaky_and_slower(store: Store) -> None:
    mornings = {}
    for day in range(1, 18):
        outcome = "crashed" if day in (5, 15) else "pass"
        results = [result("a", outcome), result("s", seconds=1.0 if day < 11 else 9.0)]
        ran(store, day, results, inputs={"jax/p/t/a": "f" * 64})
        mornings[day] = asked(store, day)
    assert [sum(mornings[day]["summary"]["slower"] for day in days) for days in (range(1, 11), range(11, 18))] == [0, 1]
    assert (mornings[15]["new"][0]["flaky"], mornings[15]["summary"]["flaky"]) == (1, 1)
    assert [numbers(mornings[day]) for day in (16, 17)] == [{"fixed": 1, "flaky": 1}, {}]


def test_a_history_keeps_causes_on_a_server(store: Store, tmp_path: Any) -> None:
    ran(store, 1, [result("a")])
    ran(store, 2, [lowering("a")])
    server = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    push(store, server, TIMES[300])
    assert asked(server)["new"][0]["file"] == "recipes/steps/to-loops/step.yaml"
    server.close()


def test_a_screen_is_enough(store: Store) -> None:
    """Whatever broke, on however many machines, under however many pins."""
    for day in range(1, 3):
        for host in range(8):
            good, pins = day == 1, {f"component-{number}": f"{day}.0" for number in range(9)}
            results = [
                result(f"w{number}", "pass" if good else "lower-failed", f"error in word{'x' * number} of it " * 9, pins=pins,
                       **({} if good else {"stage": "lower", "step": {"name": f"s{number}", "action": f"s{number}"}}))
                for number in range(40)
            ] + [result(f"v{number}", "crashed" if good else "pass") for number in range(20)]  # fmt: skip
            results += [result(f"u{number}", "crashed", f"no word{'x' * number}") for number in range(9)]
            ran(store, day, results, host=f"a-machine-with-a-long-name-{host}.example.org")
    assert numbers(asked(store)) == {"new": 40, "new_causes": 40, "fixed": 20, "still": 9}


def test_a_time_in_the_future(store: Store) -> None:
    with (
        store.reading() as connection,
        pytest.raises(UsageError, match=r"--since .* is in the future: it is 2026-01-02"),
    ):
        Morning(store, connection, ALL_RUNS, TIMES[2], TIMES[1])
    ran(store, 1, [result("a")], host="build-1")
    with pytest.raises(UsageError, match="--host nobody: the history has no such run; its machines: build-1"):
        asked(store, chosen=ChosenRuns(host="nobody"))
