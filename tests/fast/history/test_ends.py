"""Last results, however far back the run lies that decided a test: as reading all runs finds them."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa

from mlir_matrix.history import ends
from mlir_matrix.history.checked import BAD, check
from mlir_matrix.history.ends import LastResults
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.store import Store, runs, tests
from support.recordings import TIMES, recording, result

OUTCOMES = (("pass", ""), ("crashed", "signal 11"), ("skipped", "no device"), ("mismatch", "1 of 4 elements are wrong"))


@pytest.mark.parametrize("few", [0, 3, 1000])
def test_last_results(store: Store, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "_FEW", few)
    chance, decided, last = random.Random(few), {}, {}
    for day in range(12):
        of_run = {}
        for number in range(chance.choice((1, 10, 20))):
            outcome, reason = chance.choices(OUTCOMES, (5, 1, 5, 1))[0]
            each = result(f"{number}", outcome, reason)
            of_run[each.id] = each
            if outcome != "skipped":
                decided[each.id] = outcome
            if outcome != "skipped" or last.get(each.id, outcome) == outcome:
                last[each.id] = outcome
        store.add(check(recording(of_run.values(), day)), TIMES[300])
    with store.reading() as connection:
        questions = Questions(store, connection)
        keys = [row.key for row in questions.rows(sa.select(runs.c.key).order_by(runs.c.key))]
        names = dict(questions.rows(sa.select(tests.c.key, tests.c.id)))
        found = LastResults(questions)
        of_all = found.of_all({"all": keys, "none": []})
        assert {names[test]: end.outcome for test, end in of_all["all"].items()} == last
        assert of_all["none"] == {}
        wanted = {"all": names, "one": list(names)[:2], "none": names}
        of_decided = found.decided({"all": keys, "one": keys, "none": []}, wanted)
        assert {names[test]: end.outcome for test, end in of_decided["all"].items()} == decided
        assert of_decided["one"] == {
            test: of_decided["all"][test] for test in wanted["one"] if test in of_decided["all"]
        }
        assert of_decided["none"] == {}


def test_a_bad_result_of_a_run_counts(store: Store) -> None:
    same = [result("a"), result("a", "crashed", "signal 11"), result("a"), result("a", "skipped")]
    store.add(check(recording(same)), TIMES[300])
    with store.reading() as connection:
        questions = Questions(store, connection)
        (key,) = (row.key for row in questions.rows(sa.select(runs.c.key)))
        for found in (
            LastResults(questions).of_all({"": [key]}),
            LastResults(questions).decided({"": [key]}, {"": [1]}),
        ):
            (end,) = found[""].values()
            assert (end.state, end.outcome, end.cause) == (BAD, "crashed", None)
