"""Changes of behaviour along an axis."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.bisect.driver import changes

BEHAVIOURS = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=12)


def test_each_change_with_what_is_unknown_between() -> None:
    found = changes([None, "a", "a", None, None, "b", "a", None])
    assert [(each.before, each.after, each.was, each.becomes, list(each.between)) for each in found] == [
        (2, 5, "a", "b", [3, 4]),
        (5, 6, "b", "a", []),
    ]


def may_be(one: str, other: str) -> bool:
    """A point with ``?`` behaves like any other that fails."""
    return one == other or ("?" in (one, other) and "pass" not in (one, other))


def test_no_change_is_claimed_on_what_may_be_the_same() -> None:
    def found(*behaviours: str) -> list[tuple[int, int]]:
        return [(each.before, each.after) for each in changes(behaviours, may_be)]

    assert found("?", "?", "f", "f", "?") == []
    assert found("pass", "?", "f", "pass") == [(0, 1), (2, 3)]
    assert found("f", "?", "pass") == [(1, 2)], "the last point before it is known all the same"
    assert found("f", "?", "g") == [(0, 2)], "the point between may have made it"
    assert found("f", "?", "g", "?", "f") == [(0, 2), (2, 4)]


@given(BEHAVIOURS)
def test_the_changes_give_back_the_axis(behaviours: list[str | None]) -> None:
    """From the first known behaviour and the changes every known point follows."""
    found = {each.after: each.becomes for each in changes(behaviours)}
    now = next((each for each in behaviours if each is not None), None)
    for point, behaviour in enumerate(behaviours):
        now = found.get(point, now)
        assert behaviour in (None, now)
    for each in changes(behaviours):
        assert behaviours[each.before] == each.was != each.becomes == behaviours[each.after]
        assert all(behaviours[point] is None for point in each.between)
