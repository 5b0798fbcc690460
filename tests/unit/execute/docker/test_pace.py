"""When another container pays."""

from __future__ import annotations

from mlir_matrix.execute.docker.pace import Pace


def test_only_where_what_waits_takes_longer_than_a_start() -> None:
    pace = Pace()
    pace.note(2.0, first=True)
    assert not pace.pays(50, 1)
    assert pace.pays(200, 1)
    pace.note(0.5, first=False)
    assert pace.pays(5, 1)
    assert not pace.pays(5, 2)
    assert not pace.pays(0, 1)


def test_what_it_has_seen() -> None:
    pace = Pace()
    pace.note(1.0, first=True)
    for seconds in (0.01, 0.03):
        pace.note(seconds, first=False)
    assert not pace.pays(50, 1)
    assert pace.pays(51, 1)
