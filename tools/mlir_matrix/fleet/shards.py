"""Divide tests into shards: by recorded seconds, or by the hash of their identifiers."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.expand.expansion import Test

#: Tests of one import stay together if they take at most this share of a shard's time.
_SHARE = 0.05


def shards(tests: Sequence[Test], count: int, seconds: Callable[[Test], float] | None = None) -> list[list[Test]]:
    """Return the tests of each shard, in their order; every test is in exactly one.

    ``seconds`` balances the tests that run: groups that share an import, the longest first, go to the shard with the least time.
    The hash of their identifiers assigns other tests, and without ``seconds`` all tests.
    """
    places: dict[str, int] = {}
    if seconds is not None:
        loads = [(0.0, number) for number in range(count)]
        for family, load in _families([test for test in tests if test.selected], count, seconds):
            least, number = heapq.heappop(loads)
            heapq.heappush(loads, (least + load, number))
            places.update((test.id, number) for test in family)
    found: list[list[Test]] = [[] for _ in range(count)]
    for test in tests:
        at = places.get(test.id)
        if at is None:
            at = int(digest_bytes(test.id.encode())[:12], 16) % count
        found[at].append(test)
    return found


def _families(
    tests: Sequence[Test], count: int, seconds: Callable[[Test], float]
) -> Iterator[tuple[Sequence[Test], float]]:
    """Yield tests that share an import, and their seconds, the longest first; families of many seconds are split."""
    # Sums of floating-point numbers depend on their order.
    tests = sorted(tests, key=lambda test: test.id)
    costs = {test.id: seconds(test) for test in tests}
    most = _SHARE * sum(costs.values()) / count
    by_import: dict[tuple[str, str, str], list[Test]] = defaultdict(list)
    for test in tests:
        by_import[test.framework, test.workload, test.pins].append(test)
    families: list[tuple[float, list[Test]]] = []
    for family in by_import.values():
        load = sum(costs[test.id] for test in family)
        families += [(load, family)] if load <= most else [(costs[test.id], [test]) for test in family]
    for load, family in sorted(families, key=lambda each: (-each[0], each[1][0].id)):
        yield family, load


def identifiers_digest(identifiers: Sequence[str]) -> str:
    """Return the SHA-256 of the sorted identifiers; shards of one plan have that of the whole."""
    return digest_bytes("".join(f"{each}\n" for each in sorted(identifiers)).encode())
