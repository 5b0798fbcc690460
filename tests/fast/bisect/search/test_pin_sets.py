"""The search among pins, against all subsets of components."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.paths import repository
from mlir_matrix.bisect.search.pin_sets import MOST, PinSets, PinSetsAnswer, Subset, moved_pins
from mlir_matrix.bisect.search.search import ProbeVerdict
from mlir_matrix.catalog.load import load

BAD, GOOD, CANNOT_TELL = ProbeVerdict.BAD, ProbeVerdict.GOOD, ProbeVerdict.CANNOT_TELL
Oracle = Callable[[Subset], ProbeVerdict]
NAMES = "abcdefghijkl"


def sets(*words: str) -> tuple[Subset, ...]:
    return tuple(map(frozenset, words))


def subsets(names: Iterable[str]) -> list[Subset]:
    every = sorted(names)
    return [frozenset(each) for size in range(len(every) + 1) for each in combinations(every, size)]


def search(names: str, oracle: Oracle, jobs: int = 1) -> tuple[PinSetsAnswer, list[list[Subset]]]:
    """Return the answer and the rounds of probes."""
    found, rounds = PinSets(names), list[list[Subset]]()
    while batch := found.next(jobs):
        assert len(batch) <= jobs
        assert all(frozenset() < each < frozenset(names) for each in batch)
        rounds.append(batch)
        for each in batch:
            found.observe(each, oracle(each))
    probes = [each for batch in rounds for each in batch]
    assert len(set(probes)) == len(probes) <= MOST
    return found.answer(), rounds


def because_of(*causes: str, untold: Iterable[Subset] = ()) -> Oracle:
    """An oracle by which a subset is bad if it has all components of a cause."""
    hidden, found = frozenset(untold), sets(*causes)
    return lambda each: CANNOT_TELL if each in hidden else BAD if any(one <= each for one in found) else GOOD


@st.composite
def histories(draw: st.DrawFn, most: int) -> tuple[str, list[Subset]]:
    """Components, and the minimal causes among them."""
    names = NAMES[: draw(st.integers(2, most))]
    causes = draw(st.lists(st.frozensets(st.sampled_from(names), min_size=1), min_size=1, max_size=4))
    return names, [each for each in causes if not any(other < each for other in causes)]


@given(histories(6), st.integers(1, 9))
def test_every_minimal_cause_is_found(history: tuple[str, list[Subset]], jobs: int) -> None:
    names, causes = history
    answer, _ = search(names, because_of(*map("".join, causes)), jobs)
    assert set(answer.guilty) == set(causes)
    assert not answer.unknown
    assert answer.complete


@given(st.data())
def test_one_cause_takes_few_probes_and_four_rounds(data: st.DataObject) -> None:
    names = NAMES[: data.draw(st.integers(2, 12))]
    cause = data.draw(st.frozensets(st.sampled_from(names), min_size=1))
    answer, rounds = search(names, because_of("".join(cause)), jobs=24)
    assert answer == PinSetsAnswer(guilty=(cause,), unknown=(), complete=True)
    assert sum(map(len, rounds)) <= 2 * len(names) + len(cause) + 2
    assert len(rounds) <= 4


@given(histories(5), st.data())
def test_what_cannot_be_probed_is_named_where_it_may_matter(
    history: tuple[str, list[Subset]], data: st.DataObject
) -> None:
    names, causes = history
    untold = data.draw(st.frozensets(st.sampled_from(subsets(names)[1:-1])))
    oracle = because_of(*map("".join, causes), untold=untold)
    answer, _ = search(names, oracle, data.draw(st.integers(1, 9)))
    for each in answer.guilty:
        assert each == frozenset(names) or oracle(each) is BAD
        # None of its parts can be seen to be a cause.
        assert not [part for part in subsets(each)[:-1] if oracle(part) is BAD]
    assert set(answer.unknown) <= untold
    for cause in causes:
        assert any(each <= cause for each in answer.guilty) or any(
            cause <= each or each <= cause for each in (*answer.unknown, *untold)
        )


@given(st.integers(2, 5), st.data())
def test_components_that_repair_what_others_break(count: int, data: st.DataObject) -> None:
    """Any verdict for any subset: a cause was seen bad, and without any of its components it was not."""
    names = NAMES[:count]
    told = st.sampled_from([BAD, GOOD, GOOD, CANNOT_TELL])
    verdicts = {each: data.draw(told) for each in subsets(names)[1:-1]}
    verdicts |= {frozenset(): GOOD, frozenset(names): BAD}
    answer, rounds = search(names, verdicts.__getitem__, data.draw(st.integers(1, 9)))
    probed = {each for batch in rounds for each in batch} | {frozenset(), frozenset(names)}
    assert answer.guilty
    for each in answer.guilty:
        assert verdicts[each] is BAD
        parts = [each - {name} for name in each]
        assert all(part in probed and verdicts[part] is not BAD for part in parts)
        # A part that was not told is named, unless a good set implies that it is good.
        implied = [one for one in probed if verdicts[one] is GOOD]
        untold = [part for part in parts if verdicts[part] is CANNOT_TELL]
        assert all(part in answer.unknown or any(part < one for one in implied) for part in untold)


def test_singles_are_probed_first_and_at_once() -> None:
    _, rounds = search("abc", because_of("b"), jobs=4)
    assert rounds == [list(sets("a", "b", "c")), list(sets("ac"))]


def test_packages_that_move_together() -> None:
    """Neither of ``a`` and ``b`` can be installed without the other."""
    untold = [each for each in subsets("abcd") if len(each & set("ab")) == 1]
    answer, _ = search("abcd", because_of("ab", untold=untold), jobs=4)
    assert answer.guilty == sets("ab")
    assert set(sets("a", "b")) <= set(answer.unknown)
    assert search("abcd", because_of("c", untold=untold))[0].guilty == sets("c")


def test_the_number_of_probes_is_bounded() -> None:
    """Each of 220 triples is a cause: they are not all probed, and the answer says that it is not complete."""
    answer, _ = search(NAMES, lambda each: BAD if len(each) > 2 else GOOD, jobs=8)
    assert not answer.complete
    assert all(len(each) > 2 for each in answer.guilty)


def test_bad_use() -> None:
    with pytest.raises(UsageError, match="takes two or more components, not 1"):
        PinSets(["llvm"])
    with pytest.raises(UsageError, match="unknown component x; expected one of a, b"):
        PinSets("ab").observe({"x"}, GOOD)
    with pytest.raises(UsageError, match="the bad pin set is good, which contradicts its name"):
        PinSets("ab").observe("ab", GOOD)


def test_pins_of_both_ends() -> None:
    catalog = load([repository()])
    moved = moved_pins(catalog, "llvm=18,iree=3.12,torch-mlir=20261001", "llvm=19,torch-mlir=20261001,iree=3.13")
    assert moved == {"llvm": ("18.1.8", "19.1.7"), "iree": ("3.12.0", "3.13.0")}


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("llvm=18", "llvm=18.1", "--good llvm=18 and --bad llvm=18.1 are the same pin set, llvm=18.1.8; change"),
        ("llvm=18", "llvm=19,iree=3.13", "--bad pins iree and --good does not; add it there, e.g. iree=3"),
        ("lvm=18", "llvm=19", "--good: there is no component 'lvm'; did you mean 'llvm'?"),
        ("llvm=18", "llvm=20", "llvm has no release '20'; it has 13"),
        ("llvm=18", "llvm", "--bad llvm: expected COMPONENT=RELEASE"),
        ("llvm=18,", "llvm=19", "--good : expected COMPONENT=RELEASE"),
    ],
)
def test_bad_pins(good: str, bad: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        moved_pins(load([repository()]), good, bad)
    assert words in str(caught.value)
