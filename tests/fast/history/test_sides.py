"""The history has the IR of failing tests on both sides of the run in which they went bad."""

from __future__ import annotations

from mlir_matrix.history.checked import check
from mlir_matrix.history.sides import Failing, sides_of
from mlir_matrix.history.store import Store
from support.recordings import TIMES, recording, result


def _ir(digit: str) -> tuple[tuple[str, str], ...]:
    return (("import", "0" * 64), ("fuse", digit * 64))


def test_both_sides_have_their_ir(store: Store) -> None:
    good = recording([result("a", ir=_ir("1"))], 1)
    # Of a test that ran twice, the run in which it failed counts.
    bad = recording([result("a", ir=_ir("2")), result("a", "crashed", ir=_ir("3"))], 2)
    for each in (good, bad):
        store.add(check(each), TIMES[9])
    with store.reading() as connection:
        found = sides_of(connection, [Failing("jax/p/t/a", 4, bad["id"], good["id"], "crashed")], 9)
    first, second = found["jax/p/t/a"]
    assert (first.role, first.series, first.run, first.outcome, first.started) == (
        "bad",
        4,
        bad["id"],
        "crashed",
        TIMES[2],
    )
    assert (second.role, second.run, second.outcome) == ("good", good["id"], "pass")
    assert (first.levels, second.levels) == (list(_ir("3")), list(_ir("1")))


def test_each_behaviour_comes_before_the_second_test_of_one(store: Store) -> None:
    crashes = [result(name, "crashed", "at f", ir=_ir("1")) for name in "abc"]
    run = recording([*crashes, result("z", "mismatch", "wrong"), result("y", "crashed", "at f")])
    store.add(check(run), TIMES[9])
    with store.reading() as connection:
        behaviours = dict.fromkeys("abcy", "crashed at f") | {"z": "mismatch"}
        failing = [Failing(f"jax/p/t/{name}", 0, run["id"], None, how) for name, how in behaviours.items()]
        assert sides_of(connection, failing, 2).keys() == {"jax/p/t/a", "jax/p/t/z"}
        found = sides_of(connection, failing, 9)
    assert len(found) == 5
    # A run of an older program has no digests.
    assert found["jax/p/t/y"][0].levels == []
    assert [side.role for side in found["jax/p/t/a"]] == ["bad"]
