"""Remember which tests of the last run were not as expected, for ``matrix run --failed``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import write_text
from mlir_matrix.cli.options import pinned_by
from mlir_matrix.cli.verbs import option_words
from mlir_matrix.results.results import Run

_NAME = "last-run.json"


@dataclass(frozen=True)
class FailedTests:
    """The tests of a run that were not as expected, and the command that repeats the first one."""

    ids: tuple[str, ...]
    repeat: str = ""
    #: True if the run may have left out tests, because it ended before its end.
    cut_short: bool = False

    def words(self, command: click.Command, given: Sequence[str]) -> list[str]:
        """Return the words of a run of these tests: with the options and suites of their run, then the options that are given.

        Raise UsageError if the command that repeats a test cannot be read.
        """
        try:
            words = shlex.split(self.repeat)
            words = words[words.index("run") + 1 :]
            *suites, _ = command.make_parser(click.Context(command)).parse_args(list(words))[0]["tests"]
            options = option_words(command, words)
        except (ValueError, LookupError, TypeError, click.ClickException):
            raise UsageError(
                f"--failed: {self.ids[0]} has no command that repeats it; name the tests instead"
            ) from None
        return [*_without_pins(options, given), *given, *suites, *self.ids]


def remember(state: Path, run: Run, *, whole: bool) -> None:
    """Write what failed. ``whole``: the run reached all of its tests. If the state cannot be written, ignore that."""
    failed = [result for result in run.results if result.fails]
    found = {
        "tests": [result.id for result in failed],
        "repeat": failed[0].repeat if failed else "",
        "cut_short": run.interrupted or not whole,
    }
    with suppress(InfrastructureError):
        write_text(state / _NAME, json.dumps(found))


def last_failed(state: Path) -> FailedTests:
    """Return what failed in the user's last run. Raise UsageError without a run."""
    try:
        found = json.loads((state / _NAME).read_bytes())
        return FailedTests(tuple(map(str, found["tests"])), str(found["repeat"]), bool(found["cut_short"]))
    except (OSError, ValueError, TypeError, LookupError):
        raise UsageError(
            "--failed: no run is known here; call matrix run first, or name its results: --failed-in FILE"
        ) from None


def failed_in(tests: Iterable[Mapping[str, Any]], *, interrupted: bool = False) -> FailedTests:
    """Return what failed by the entries of a results document."""
    failed = [test for test in tests if not test["expected"] and "quarantine" not in test]
    repeat = failed[0].get("repeat", "") if failed else ""
    return FailedTests(tuple(test["id"] for test in failed), repeat, interrupted)


def _without_pins(options: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return options without the pins of components that are pinned again."""
    pinned = pinned_by(given)
    kept: list[str] = []
    rest = iter(options)
    for word in rest:
        value = next(rest) if word == "--pin" else None
        if value is None:
            kept.append(word)
        elif value.partition("=")[0] not in pinned:
            kept += [word, value]
    return kept
