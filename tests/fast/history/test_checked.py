"""Files of runs from anywhere: what is wrong in one is named, and what is stored is harmless."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.history.checked import BAD, GOOD, UNKNOWN, check
from mlir_matrix.history.spool import SpoolError
from support.recordings import recording, result

GOOD_RUN = recording([result("a", metrics={"error_used": "inf"}), result("b", "crashed"), result("c", "infra-error")])


def test_columns_of_a_run() -> None:
    names, behaviour, states, executed, ms, used, _, pins, *_ = check(GOOD_RUN).columns
    assert names == ["jax/p/t/a", "jax/p/t/b", "jax/p/t/c"]
    assert list(behaviour) == [0, 1, 2]
    assert states == [GOOD, BAD, UNKNOWN]
    assert (executed, ms, used, list(pins)) == ([1, 1, 1], [1000] * 3, [None] * 3, [0] * 3)


def test_inputs_are_equal_on_one_host_and_commit() -> None:
    def inputs(**more: Any) -> Any:
        return check(recording([result("a")], **more)).columns[8][0]

    assert inputs() == inputs(day=9)
    assert len({inputs(), inputs(host="two"), inputs(commit="d" * 40)}) == 3
    digests = {"jax/p/t/a": "f" * 64}
    assert inputs(inputs=digests) == inputs(inputs=digests, commit="d" * 40)
    assert inputs(inputs=digests) != inputs(inputs=digests, host="two")


def test_nothing_is_equal_where_files_had_changed() -> None:
    run = recording([result("a")])
    run["run"]["catalogs"][0]["dirty"] = True
    assert check(run).columns[8] == [None]


@pytest.mark.parametrize("text", ["\0", "\x1b[31m<script>alert(1)</script>", "\udc80", "x" * 5_000_000, "\u202e"])
def test_hostile_texts_are_harmless(text: str) -> None:
    run = copy.deepcopy(GOOD_RUN)
    run["tests"][0][0] = run["run"]["host"] = run["run"]["command"] = run["arguments"][0] = text
    run["behaviours"][1][3] = text
    run["sets"][0][0] = {text: text}
    found = check(run)
    for each in (found.columns[0][0], found.host, found.command, found.behaviours[1][3]):
        assert each.isprintable()
        assert len(each) <= 500
    assert all(each.isprintable() for each in (found.arguments, found.catalogs, *found.sets[0]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "x"), ("id", None), ("run", {}), ("run", []), ("tests", [[1]]), ("tests", [["a"] * 9]), ("tests", 3),
        ("ir", [[[["import", "../x"]], [0]]]), ("ir", [[[["import", "a" * 64]], [-1]]]), ("ir", [3]),
        ("behaviours", [["odd", "", "", ""]]), ("behaviours", [[]]), ("sets", [[1, 2]]), ("same_as", "../x"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_refused(key: str, value: object) -> None:
    with pytest.raises(SpoolError, match="damaged"):
        check({**GOOD_RUN, key: value})


ODD = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.just({"a": 1})
)


@given(data=st.data(), value=ODD)
def test_any_odd_value_is_refused_or_taken(data: st.DataObject, value: object) -> None:
    """No other error comes of it."""
    run = copy.deepcopy(GOOD_RUN)
    place: Any = run
    while data.draw(st.booleans()) and isinstance(place[key := data.draw(st.sampled_from(keys(place)))], list | dict):
        if not place[key]:
            break
        place = place[key]
    place[data.draw(st.sampled_from(keys(place)))] = value
    with suppress(SpoolError):
        check(run)


def keys(place: Any) -> list[Any]:
    return sorted(place) if isinstance(place, dict) else list(range(len(place)))
