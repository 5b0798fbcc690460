"""Shards: together they are all tests, each once; and they take about equally long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.expand.expansion import Test
from mlir_matrix.fleet.durations import Estimates, Recorded, Snapshot
from mlir_matrix.fleet.shards import identifiers_digest, shards
from support.machines import day, suite_tests

TESTS = [*suite_tests("wide"), *(test for test in suite_tests("smoke") if "/ir/" in test.id)]
NAMES = [test.id for test in TESTS]


@given(
    st.lists(st.sampled_from(TESTS), unique_by=lambda test: test.id),
    st.integers(1, 9),
    st.one_of(st.none(), st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1e6))),
)
def test_each_test_is_in_one_shard(tests: list[Test], count: int, seconds: dict[str, float] | None) -> None:
    cost = None
    if seconds is not None:
        cost = Estimates(Snapshot({name: Recorded(each, day(1)) for name, each in seconds.items()})).seconds
    parts = shards(tests, count, cost)
    assert len(parts) == count
    assert sorted(test.id for part in parts for test in part) == sorted(test.id for test in tests)
    order = [test.id for test in tests]
    assert all([test.id for test in part] == [name for name in order if name in {t.id for t in part}] for part in parts)
    # They do not depend on the order of the tests, which a machine changes.
    again = shards(tests[::-1], count, cost)
    assert [{test.id for test in part} for part in again] == [{test.id for test in part} for part in parts]


def test_a_long_test_is_alone() -> None:
    runs = [test for test in TESTS if test.selected]
    long = runs[3].id
    parts = shards(TESTS, 2, lambda test: 1000.0 if test.id == long else 1.0)
    (with_long,) = [part for part in parts if long in {test.id for test in part}]
    assert [test.id for test in with_long if test.selected] == [long]


def test_by_hash_a_new_test_moves_no_other() -> None:
    before = shards(TESTS[1:], 3)
    after = shards(TESTS, 3)
    assert [[test.id for test in part if test.id != NAMES[0]] for part in after] == [
        [test.id for test in part] for part in before
    ]


def test_the_digest_is_of_the_set_of_tests() -> None:
    assert identifiers_digest(NAMES) == identifiers_digest(NAMES[::-1])
    assert identifiers_digest(NAMES) != identifiers_digest(NAMES[1:])
