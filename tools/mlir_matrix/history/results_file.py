"""Read how tests ended from a results document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import printable
from mlir_matrix.history.checked import check
from mlir_matrix.history.questions import Ended
from mlir_matrix.history.record import make_recording
from mlir_matrix.history.spool import SpoolError, new_id
from mlir_matrix.judge.results import SCHEMA, TestResult

#: Keys of an entry that a result has under other names, or not at all.
_OTHERS = {"property": "tested_property"}


def read_outcomes(file: Path) -> dict[str, Ended]:
    """Read a file of ``matrix run --results``. Raise UsageError."""
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file}: not JSON; make it with: matrix run --results FILE") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise UsageError(
            f"{file}: schema {printable(str(schema))}; expected {SCHEMA}, written by: matrix run --results FILE"
        )
    try:
        results = [_result(entry) for entry in document["tests"]]
        found = check(make_recording(new_id(), results, document["run"], [], {}))
    except (SpoolError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(
            f"{file}: damaged: {printable(str(error))}; make it again with: matrix run --results FILE"
        ) from None
    columns = zip(*found.columns[:3], strict=True)
    return {
        test: Ended(state, found.behaviours[at][1], found.behaviours[at][3], seen=found.ended)
        for test, at, state in columns
    }


def _result(entry: dict[str, Any]) -> TestResult:
    return TestResult(**{_OTHERS.get(name, name): value for name, value in entry.items()})
