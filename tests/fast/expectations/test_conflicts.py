"""What shows that two tests conflict, and what shows nothing."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.catalog.models.base import Step
from mlir_matrix.expectations.conflicts import (
    Seen,
    alternate,
    by_input,
    by_releases,
    candidates,
    contradict,
    found,
    in_common,
    repeat,
    sharing,
)
from support.catalogs import entry

A, B = "mlir/s/ir/a", "mlir/t/ir/b"
PAIR = (A, B)


def held(a_on_a: bool, b_on_a: bool, a_on_b: bool, b_on_b: bool) -> dict[tuple[str, str], bool]:
    return {(A, A): a_on_a, (A, B): b_on_a, (B, A): a_on_b, (B, B): b_on_b}


def test_each_output_satisfies_exactly_one() -> None:
    for values in product((True, False), repeat=4):
        assert contradict(PAIR, held(*values)) == (values[0] != values[1] and values[2] != values[3])
    assert not contradict(PAIR, {}), "nothing was made"
    assert contradict(PAIR, {(A, A): True, (A, B): False}), "the other step failed"


def test_only_steps_of_a_common_kind_can_conflict() -> None:
    texts = {
        "c": "[linalg]",
        "a": "[linalg, tosa]",
        "b": "[tosa]\ngives: linalg",
        "d": "[linalg, torch]\ngives: linalg",
    }
    steps = {
        name: entry("steps", Step, name, f"description: d\nenvironment: e\naccepts: {text}").document
        for name, text in texts.items()
    }
    assert candidates(steps) == [("a", "c"), ("a", "d"), ("c", "d")]


def test_repeated_ones_are_of_one_step() -> None:
    same = ("mlir/s/ir/a", "mlir/s/ir/b")
    every = {(maker, test): True for maker in same for test in same}
    assert repeat(same, every)
    assert not repeat(same, {**every, same: False})
    assert not repeat(PAIR, held(True, True, True, True)), "two steps may well have a test in common"


@given(st.lists(st.dictionaries(st.sampled_from([A, B]), st.booleans()), max_size=5))
def test_alternating(observed: list[dict[str, bool]]) -> None:
    both = [(each[A], each[B]) for each in observed if len(each) == 2]
    expected = all(one != other for one, other in both) and {one for one, _ in both} == {True, False}
    assert alternate(PAIR, observed) == expected


def test_an_input_that_could_not_be_read_is_like_no_other() -> None:
    assert by_input([PAIR], {}) == []
    assert by_input([PAIR], {A: "1"}) == []
    assert by_input([PAIR], {A: "1", B: "1"}) == [PAIR]


def test_all_of_it() -> None:
    passed = {A: True, B: True}
    opposed = held(True, False, False, True)
    seen = {"x": Seen(passed, {A: "1", B: "1"}, opposed), "y": Seen(passed, {A: "1", B: "2"}, opposed)}
    conflict = {"tests": (A, B), "how": "input", "where": ["x"], "known": None}
    assert found([PAIR], seen) == ([conflict], [])
    assert found([PAIR], {"x": Seen(passed, {}, opposed), "y": Seen(passed, {}, opposed)}) == ([], [])
    turns = {"x": Seen({A: True, B: False}), "y": Seen({A: False, B: True}), "only one was run": Seen({A: True})}
    (turn,), _ = found([PAIR], turns)
    assert (turn["how"], turn["where"]) == ("releases", ["x", "y"])
    assert turn["alone"] == {A: ["x"], B: ["y"]}


def test_steps_that_share_a_pass_wherever_both_were_seen() -> None:
    both = {A: frozenset({"p", "q"}), B: frozenset({"p"})}
    seen = {
        "x": Seen({A: True, B: False}, passes=both),
        "y": Seen({A: False, B: True}, passes=both),
        "z": Seen({A: True}),
    }
    assert (sharing(seen), in_common(PAIR, seen)) == ([PAIR], ["p"])
    other = {**seen, "y": Seen({A: False, B: True}, passes={A: both[A]})}
    assert (sharing(other), in_common(PAIR, other)) == ([], []), "not under that release"
    never = {**seen, "y": Seen({A: True, B: True}, passes=both)}
    assert sharing(never) == [], "both pass there"


def test_documents_are_named_by_what_differs() -> None:
    one, two = Seen({}, releases={"llvm": "19.1.7", "jax": "1"}), Seen({}, releases={"llvm": "22.1.0", "jax": "1"})
    assert list(by_releases({"a": one, "b": two})) == ["llvm 19.1.7 in a", "llvm 22.1.0 in b"]
    assert list(by_releases({"a": one})) == ["a"]
