"""The audit of comparisons: how recorded times become pairs, and what it counts."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner

from mlir_matrix.cost import audit, commands
from mlir_matrix.cost.audit import TimeSeries, audit_document, recorded, replay


def series(load: str, ratio: float, *, length: int = 80) -> TimeSeries:
    """Times of processes in the order A B B A."""
    rng = random.Random(1)
    slower = (1.0, ratio, ratio, 1.0)
    times = [round(10_000 * slower[at % 4] * rng.lognormvariate(0, 0.002)) for at in range(length)]
    return TimeSeries(test="t", load=load, ratio=ratio, times=times)


def test_pairs_are_of_neighbours_and_swap_sides_two_places_further() -> None:
    found = TimeSeries(test="t", load="quiet", ratio=1.03, times=[10, 21, 22, 11, 12, 24, 23, 13])
    assert list(found.pairs(0)) == [(10, 21), (12, 23)]
    # The next pair would be around the end.
    assert list(found.pairs(2)) == [(22, 11)]
    assert list(found.pairs(4)) == [(12, 23), (10, 21)]


def test_equal_programs_are_the_same_and_planted_ones_are_found() -> None:
    equal, planted = replay([series("quiet", 1.0, length=400), series("quiet", 1.03)], 100, 1)
    assert (equal.words, equal.false, equal.confirmed) == ({"same": 100}, 0, 0)
    assert planted.words == {"slower": 20, "faster": 20}
    assert (planted.found, planted.false, planted.confirmed) == (40, 0, 40)
    summary = audit_document([equal, planted], 1)["summary"]
    assert summary["holds"]
    assert (summary["equal"], summary["planted_quiet"], summary["found_quiet"]) == (100, 40, 40)
    assert 0 < summary["false_at_most"] < 0.05


def test_what_is_missed_or_wrong_does_not_hold() -> None:
    hidden = replay([series("quiet", 1.0, length=400), series("quiet", 1.01)], 100, 1)
    assert hidden[1].words["same"] > 0
    assert not audit_document(hidden, 1)["summary"]["holds"]
    # Equal by their label alone.
    labelled = TimeSeries(test="t", load="quiet", ratio=1.0, times=series("quiet", 1.05, length=400).times)
    (wrong,) = replay([labelled], 100, 1)
    assert wrong.false > 0
    assert wrong.confirmed > 0
    assert not audit_document([wrong], 1)["summary"]["holds"]


def test_the_recording_is_whole() -> None:
    found = recorded()
    assert {len(each.times) for each in found if each.ratio == 1} == {400}
    assert {len(each.times) for each in found if each.ratio != 1} == {160}
    assert all(min(each.times) == 10_000 for each in found)
    assert all(0.029 < each.ratio - 1 < 0.031 for each in found if each.ratio != 1)
    assert sum(len(each.times) for each in found if each.ratio == 1) >= 20_000


@pytest.mark.parametrize(("planted", "code"), [(1.03, 0), (1.01, 1)])
def test_the_verb_says_what_holds(planted: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [series("quiet", 1.0, length=400), series("quiet", planted)]
    monkeypatch.setattr(audit, "recorded", lambda: found)
    text = CliRunner().invoke(commands.audit_command, ["--comparisons", "50"], standalone_mode=False)
    assert text.exception is None, text.output
    assert text.return_value == code
    assert "called different: 0 of 50" in text.output
    form = CliRunner().invoke(
        commands.audit_command, ["--comparisons", "50", "--format", "json"], standalone_mode=False
    )
    assert json.loads(form.output)["summary"]["holds"] is (code == 0)
