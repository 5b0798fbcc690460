"""Keep the results of a cell as lines, to which later runs are added."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log2
from typing import Any, TypeVar

from mlir_matrix.base.text import milliseconds
from mlir_matrix.history.checked import BAD, UNKNOWN
from mlir_matrix.history.columns import Columns
from mlir_matrix.history.report import letter
from mlir_matrix.history.today import Series
from mlir_matrix.site.changes import changes_of, values_of
from mlir_matrix.site.documents import SiteCell, SiteLine, SiteRun, SiteSegment, SiteTrend

T = TypeVar("T")
#: The most executions in a line.
_EXECUTIONS = 60
_DAY_MS = 86_400_000
#: What a column has for no value, and the code of the first value.
NOTHING, _FIRST, _LAST_CODE = " ", 33, 93


class RunIndex:
    """The runs of a site, by their indices and by their keys in the database."""

    def __init__(self, columns: Columns) -> None:
        found = columns.runs()
        self.series: dict[Series, int] = {}
        #: By key: the index of the run, and that of its series.
        self.places: dict[int, tuple[int, int]] = {}
        self.documents: list[SiteRun] = []
        for key, (series, run) in found.items():
            of = self.series.setdefault(series, len(self.series))
            self.places[key] = len(self.documents), of
            self.documents.append({
                "id": run["id"], "series": of, "started": run["started"], "last_seen": run["last_seen"],
                "version": run["version"], "command": run["command"], "catalogs": run["catalogs"],
                "interrupted": run["interrupted"], "tests": run["tests"], "unexpected": run["unexpected"],
                "repeats": run["repeats"],
            })  # fmt: skip
        self.last_seen = [milliseconds(run["last_seen"]) for run in self.documents]
        self.started = [milliseconds(run["started"]) for run in self.documents]


class CellHistory:
    """The document of a cell, and what adds results to it."""

    def __init__(self, columns: Columns, runs: RunIndex, document: SiteCell | None = None) -> None:
        self.document: SiteCell = document or {"behaviours": [], "pins": [], "tests": {}}
        self._columns, self._runs = columns, runs
        of_behaviours, of_pins = _Places(self.document["behaviours"]), _Places(self.document["pins"])
        # By the keys of the database.
        self._behaviours = _Kept(lambda key: of_behaviours.of(columns.behaviours[key]))
        self._pins = _Kept(lambda key: of_pins.of(json.loads(columns.pins[key])))
        self._costs = _Kept(lambda key: json.loads(columns.costs[key]))

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add results that are later than those of the cell; those of a test come in the order of runs."""
        places, behaviours, pins, exact = self._runs.places, self._behaviours, self._pins, self._costs
        current, lines = 0, dict[int, SiteLine]()
        measured: dict[int, SiteLine] = {}
        for test, run, behaviour, state, executed, ms, error, used, costs in _worst(rows):
            if test != current:
                current, lines = test, self._lines(test)
            index, series = places[run]
            line = lines[series]
            segments, ended = line["segments"], behaviours[behaviour]
            last = segments[-1] if segments else None
            if last and last["behaviour"] == ended and last["state"] == state:
                last["last"], last["pins"] = index, pins[used]
                last["runs"] += 1
            else:
                segments.append(
                    {"behaviour": ended, "state": state, "first": index, "last": index, "runs": 1, "pins": pins[used]}
                )
            if executed and state < UNKNOWN:
                line["runs"].append(index)
                line["ms"].append(ms)
                line["error"].append(error)
                measured[id(line)] = line
            if costs is not None and (not line["costs"] or line["costs"][-1][1] != exact[costs]):
                line["costs"].append((index, exact[costs]))
                measured[id(line)] = line
        for line in measured.values():
            for kept in (line["runs"], line["ms"], line["error"], line["costs"]):
                del kept[:-_EXECUTIONS]
            line["changes"] = changes_of(line)

    def _lines(self, test: int) -> dict[int, SiteLine]:
        """Return the lines of a test by series, which are made when they are needed."""
        found = self.document["tests"].setdefault(self._columns.tests[test], [])

        def make(series: int) -> SiteLine:
            line: SiteLine = {
                "series": series, "segments": [], "runs": [], "ms": [], "error": [], "costs": [], "changes": []
            }  # fmt: skip
            found.append(line)
            return line

        lines = _Kept(make)
        lines |= {line["series"]: line for line in found}
        return lines

    def latest(self, line: SiteLine, now_ms: int) -> tuple[str, str, str, str, str]:
        """Return the last decided outcome of a line, its error, seconds, age and since when it is so, as in SiteColumn."""
        shown = first = last_decided(line)
        for segment in reversed(line["segments"]):
            if segment["state"] == UNKNOWN:
                continue
            if (segment["behaviour"], segment["state"]) != (shown["behaviour"], shown["state"]):
                break
            first = segment
        outcome = self.document["behaviours"][shown["behaviour"]][0]
        error = line["error"][-1] if line["error"] else None
        return (
            letter(outcome, unexpected=shown["state"] == BAD),
            _code(None if error is None else error * 60),
            _code((log2(line["ms"][-1] / 1000) + 10) * 4 if line["ms"] and line["ms"][-1] else None),
            _code((now_ms - self._runs.last_seen[shown["last"]]) // _DAY_MS),
            _code((now_ms - self._runs.started[first["first"]]) // _DAY_MS),
        )


def last_decided(line: SiteLine) -> SiteSegment:
    """Return the last results that decided a test; of a test that was never decided, the last ones."""
    segments = line["segments"]
    return next((segment for segment in reversed(segments) if segment["state"] != UNKNOWN), segments[-1])


class _Kept(dict[int, T]):
    """Makes each value once."""

    def __init__(self, make: Callable[[int], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: int) -> T:
        self[key] = self._make(key)
        return self[key]


class _Places:
    """A list of distinct values, and the index of each."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._places = {json.dumps(value): place for place, value in enumerate(values)}

    def of(self, value: Any) -> int:
        place = self._places.setdefault(json.dumps(value), len(self._values))
        if place == len(self._values):
            self._values.append(value)
        return place


def _code(value: float | None) -> str:
    """Return a number as the character of a column."""
    return NOTHING if value is None else chr(_FIRST + min(max(round(value), 0), _LAST_CODE))


def _worst(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yield one result of each test in a run: of several, a bad one counts."""
    rows = iter(rows)
    kept = next(rows, None)
    if kept is None:
        return
    for row in rows:
        if row[1] != kept[1] or row[0] != kept[0]:
            yield kept
            kept = row
        elif row[3] < kept[3]:
            kept = row
    yield kept


def trends_of(test: str, line: SiteLine) -> Iterator[SiteTrend]:
    """Yield the changed series of a line."""
    for change in line["changes"]:
        known = values_of(line, change["metric"])
        factor = round(change["after"] / max(change["before"], 1e-9), 3)
        yield {
            "test": test,
            "series": line["series"],
            "change": change,
            "factor": factor,
            "runs": [run for run, _ in known],
            "values": [value for _, value in known],
        }
