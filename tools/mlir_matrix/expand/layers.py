"""Rank layers of tolerances or of goldens of costs from general to specific.

A layer matches if all of its keys match. A layer from ``golden/WORKLOAD/`` has the workload as one more key. Of the matching
layers, the one with the most specific key comes first, in the order of :data:`KEYS` (the framework is the most specific). Then
the one with more keys (each attribute under ``numerics`` is one), then the later one.

This is pure, and fast enough for each output of 100,000 tests: a bit mask, computed once, says which layers match a value of a
key. The bits are in the order of the layers' ranks, so the winner is the highest bit that is set in all masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from mlir_matrix.base.names import NameGlob
from mlir_matrix.catalog.catalog import LayerT, LocatedLayer
from mlir_matrix.catalog.models.base import Match
from mlir_matrix.expand.numerics import NumericsAttributes, Value, shown

#: The keys that a layer can match, from general to specific. Those of costs lack some.
KEYS = ("workload", "output", "dtype", "target", "numerics", "pipeline", "framework")
_NUMERICS = KEYS.index("numerics")


#: The value of each key for an output or a test.
Query = tuple[str | NumericsAttributes, ...]


class LayerRanking(Generic[LayerT]):
    """The layers by rank, and the masks of those that match a value of a key."""

    def __init__(self, layers: Sequence[LocatedLayer[LayerT]]) -> None:
        found = [(RankedLayer(layer), position) for position, layer in enumerate(layers)]
        #: From general to specific; the number of a layer is its bit.
        self.ranked = [ranked for ranked, _ in sorted(found, key=lambda entry: (entry[0].rank, entry[1]))]
        self._masks: dict[tuple[int, str | NumericsAttributes], int] = {}

    def matching(self, query: Query) -> int:
        """Return the layers that match the value of each key, one bit each."""
        found = -1
        for key, value in enumerate(query):
            found &= self.mask(key, value)
        return found

    def mask(self, key: int, value: str | NumericsAttributes) -> int:
        """Return the layers that match a value of a key, one bit each."""
        mask = self._masks.get((key, value))
        if mask is None:
            mask = sum(1 << bit for bit, ranked in enumerate(self.ranked) if ranked.matches(key, value))
            self._masks[key, value] = mask
        return mask


class RankedLayer(Generic[LayerT]):
    """A layer with the values that it matches for each key (except the folder's workload), and its rank."""

    def __init__(self, layer: LocatedLayer[LayerT]) -> None:
        self.layer, self.location = layer, layer.position
        self._globs: dict[int, list[tuple[NameGlob, ...]]] = {}
        for key, name in enumerate(KEYS):
            wanted = getattr(layer.document.match, name, None)
            if wanted is not None and key != _NUMERICS:
                self._want(key, (wanted,) if isinstance(wanted, str) else wanted)
        if layer.workload is not None:
            self._want(0, (layer.workload,))
        #: The numerics attributes that it matches, each with the accepted values.
        self.attributes = asked(layer)

    def _want(self, key: int, patterns: Sequence[str]) -> None:
        self._globs.setdefault(key, []).append(tuple(NameGlob(pattern) for pattern in patterns))

    @property
    def rank(self) -> tuple[int, int]:
        return max(self._wanted(), default=-1), len(self._globs) + len(self.attributes)

    @property
    def keys(self) -> str:
        """Return the keys that the layer matches, in words."""
        return ", ".join(KEYS[key] for key in self._wanted())

    def _wanted(self) -> list[int]:
        return sorted([*self._globs, *([_NUMERICS] if self.attributes else [])])

    def matches(self, key: int, value: str | NumericsAttributes) -> bool:
        """Return whether the layer matches a value of a key."""
        if isinstance(value, str):
            return all(any(glob.matches(value) for glob in globs) for globs in self._globs.get(key, ()))
        stated = dict(value)
        return all(name in stated and stated[name] in wanted for name, wanted in self.attributes.items())

    def wanted(self, key: int) -> str:
        """Return the values of a key that the layer matches, in words."""
        if key == _NUMERICS:
            return ", ".join(f"{name}: {_or(wanted)}" for name, wanted in self.attributes.items())
        return " and ".join(" or ".join(glob.pattern for glob in globs) for globs in self._globs[key])

    @property
    def wishes(self) -> str:
        """Return everything that the layer matches, in words."""
        return ", ".join(f"{KEYS[key]} {self.wanted(key)}" for key in self._wanted())

    def why_not(self, key: int, value: str | NumericsAttributes) -> str:
        """Return why the layer does not apply for a value of a key."""
        if isinstance(value, str):
            return f"its {KEYS[key]} is {self.wanted(key)}, not {value}"
        stated = dict(value)
        name = next(
            name for name, wanted in self.attributes.items() if name not in stated or stated[name] not in wanted
        )
        found = f"not {shown(stated[name])}" if name in stated else "and here nothing states it"
        return f"its {name} is {_or(self.attributes[name])}, {found}"


def asked(layer: LocatedLayer[LayerT]) -> dict[str, tuple[Value, ...]]:
    """Return the numerics attributes that a layer matches, each with its accepted values."""
    match = layer.document.match
    wanted = match.numerics if isinstance(match, Match) and match.numerics else {}
    return {name: values if isinstance(values, tuple) else (values,) for name, values in wanted.items()}


def _or(values: Sequence[Value]) -> str:
    return " or ".join(shown(value) for value in values)
