"""Remember which tests of the last run here were not as expected, for ``matrix run --failed``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import write_text
from mlir_matrix.plan.request import Request
from mlir_matrix.results.results import TestResult

_NAME = "last-run.json"


@dataclass(frozen=True)
class FailedTests:
    """The tests of a run that were not as expected, and the command that repeats the first one."""

    ids: tuple[str, ...]
    repeat: str = ""

    def into(self, request: Request, command: click.Command) -> Request:
        """Return a request for these tests, with the suites of that run; with its catalogs and pins unless the request has some."""
        words = shlex.split(self.repeat)
        words = words[words.index("run") + 1 :]
        given, _, _ = command.make_parser(click.Context(command)).parse_args(words)
        *suites, _ = given["tests"]
        return replace(
            request,
            tests=(*suites, *self.ids),
            catalogs=request.catalogs or tuple(map(Path, given.get("catalogs", ()))),
            pins=request.pins or tuple(given.get("pins", ())),
        )


def remember(state: Path, results: Iterable[TestResult]) -> None:
    """Write what failed. Where the state cannot be written, the run counts all the same."""
    failed = [result for result in results if result.fails]
    repeat = failed[0].repeat if failed else ""
    text = json.dumps({"tests": [result.id for result in failed], "repeat": repeat})
    with suppress(InfrastructureError):
        write_text(state / _NAME, text)


def last_failed(state: Path) -> FailedTests:
    """Return what failed in the last run here. Raise UsageError without a run."""
    try:
        found = json.loads((state / _NAME).read_bytes())
        return FailedTests(tuple(map(str, found["tests"])), str(found["repeat"]))
    except (OSError, ValueError, TypeError, KeyError):
        raise UsageError(
            "--failed: no run is known here; call matrix run first, or name its results: --failed-in FILE"
        ) from None


def failed_in(tests: Iterable[Mapping[str, Any]]) -> FailedTests:
    """Return what failed by the entries of a results document."""
    failed = [test for test in tests if not test["expected"] and "quarantine" not in test]
    return FailedTests(tuple(test["id"] for test in failed), failed[0].get("repeat", "") if failed else "")
