"""Changes of behaviour along an axis."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.bisect.changes import changes

BEHAVIOURS = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=12)


def test_each_change_with_what_is_unknown_between() -> None:
    found = changes([None, "a", "a", None, None, "b", "a", None])
    assert [(each.before, each.after, each.was, each.becomes, list(each.between)) for each in found] == [
        (2, 5, "a", "b", [3, 4]),
        (5, 6, "b", "a", []),
    ]


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
