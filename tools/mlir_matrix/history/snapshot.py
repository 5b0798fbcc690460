"""What history says of tests at one moment: an explicit input of plans and shards, so that planning stays pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import printable

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.history import Durations

SCHEMA = "mlir-matrix/durations/v1"
#: As ``report.run_info.now`` writes times; they sort as text.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recent executions of one test."""

    #: Median seconds of all its actions, over its recent executions.
    seconds: float
    #: When it was last executed, in UTC.
    last_run: str
    #: When it last ended in an unexpected outcome; empty if it never did.
    last_failure: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The records of tests by identifier, and when they were taken."""

    tests: Mapping[str, Recorded] = field(default_factory=dict)
    taken: str = ""

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the records; shards of one digest fit together."""
        return digest_value(self.to_document()["tests"])

    def to_document(self) -> Durations:
        records = {
            test: {"seconds": each.seconds, "last_run": each.last_run}
            | ({"last_failure": each.last_failure} if each.last_failure else {})
            for test, each in sorted(self.tests.items())
        }
        summary = {"tests": len(records), "seconds": round(sum(each.seconds for each in self.tests.values()), 3)}
        return {"schema": SCHEMA, "taken": self.taken, "summary": summary, "tests": records}  # type: ignore[typeddict-item] # keys may be absent


def typical_seconds(recent: Sequence[float]) -> float:
    """Return the seconds of a test from those of its recent executions; those of failures are negative.

    A busy machine makes tests slower, and nothing makes them faster: so it is the median of the quietest half. A failure may
    end early: so it counts as long as passes take, unless it took longer.
    """
    passes = [each for each in recent if each > 0]
    usual = _quietest(passes) if passes else 0.0
    return (
        usual if len(passes) == len(recent) else _quietest([each if each > 0 else max(-each, usual) for each in recent])
    )


def _quietest(seconds: Sequence[float]) -> float:
    # The median; that of the module statistics takes three times as long.
    half = sorted(seconds)[: (len(seconds) + 1) // 2]
    return (half[(len(half) - 1) // 2] + half[len(half) // 2]) / 2


def read_snapshot(file: Path) -> Snapshot:
    """Read a file that ``matrix history export`` wrote. Raise UsageError."""
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file}: not JSON; make it with: matrix history export") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise UsageError(
            f"{file}: schema {printable(str(schema))}; expected {SCHEMA}, written by: matrix history export"
        )
    records = document.get("tests")
    if not isinstance(records, dict):
        raise UsageError(f"{file}: 'tests' is no object; make it again with: matrix history export")
    return Snapshot(
        {test: _record(file, test, value) for test, value in records.items()}, str(document.get("taken", ""))
    )


def _record(file: Path, test: str, value: object) -> Recorded:
    if isinstance(value, dict):
        seconds, ran, failed = value.get("seconds"), value.get("last_run"), value.get("last_failure", "")
        times = [each for each in (ran, failed) if each != ""]
        right = isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds >= 0
        if right and all(isinstance(each, str) and _TIME.fullmatch(each) for each in times):
            return Recorded(float(seconds), str(ran), failed)  # type: ignore[arg-type] # it is finite
    wanted = "expected 'seconds' (a number) and 'last_run' (such as 2026-01-31T12:00:00.000Z)"
    raise UsageError(f"{file}: test '{printable(test)}': {wanted}")
