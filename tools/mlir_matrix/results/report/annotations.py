"""Print the results of a run as annotations of a CI log: for llvm-zorg's AnnotatedCommand of Buildbot, or GitHub's workflows.

Both read commands at the beginning of a line, so no line of a test's text may begin with a command.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.text import abridged, counted, harmless, shortened
from mlir_matrix.results.causes import Suspect
from mlir_matrix.results.report.failure_text import cause_name, cause_text, failure_text, headline
from mlir_matrix.results.report.summary import print_summary
from mlir_matrix.results.results import NOT_RUN, Run, TestResult, summarise

if TYPE_CHECKING:
    from mlir_matrix.results.documents import Cause

#: The number of errors of a step that GitHub shows.
_MOST_ERRORS = 10
#: The most rows of the table in the summary of a job, whose limit is 1 MiB.
_MOST_ROWS = 200
#: The most causes that get a step in AnnotatedCommand.
_MOST_STEPS = 10
#: The most patterns in an error, and the most characters of its title.
_MOST_GLOBS, _TITLE = 5, 150
#: Seconds that AnnotatedCommand needs to begin a step, because a worker sends its output every 5 s.
_PACE_S = 6.0


class Annotations:
    """The format of a run: ``buildbot`` or ``github``. Make it before the run prints anything."""

    def __init__(self, form: str, catalogs: Sequence[Path] = ()) -> None:
        """Open the annotations. ``catalogs``: folders to search for files of tests, after the working directory."""
        self._form = form
        self._roots = [*catalogs, Path()]
        self._token = secrets.token_hex(16)
        self._stopped = False
        if form == "github":
            self._stop()

    def print(self, run: Run, pins: Mapping[str, str], left_out: Sequence[str] = ()) -> None:
        """Print the summary and the annotations. Raise InfrastructureError if the summary of the job cannot be written."""
        if self._form == "buildbot":
            with redirect_stdout(StringIO()) as table:
                print_summary(run, pins, left_out)
            for line in _buildbot(run, table.getvalue()):
                click.echo(line)
            return
        print_summary(run, pins, left_out)
        self.close()
        self._github(run)
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            try:
                with open(path, "a", encoding="utf-8") as file:
                    file.write("\n".join(_markdown(run)) + "\n")
            except OSError as error:
                raise InfrastructureError(f"GITHUB_STEP_SUMMARY {path}: {error.strerror}") from None

    def close(self) -> None:
        """Let GitHub obey commands again, also after an error has ended the run."""
        if self._stopped:
            self._stopped = False
            click.echo(f"::{self._token}::")

    def _stop(self) -> None:
        """Let GitHub ignore all commands until the token is printed again."""
        self._stopped = True
        click.echo(f"::stop-commands::{self._token}")

    def _github(self, run: Run) -> None:
        """Print an error of each cause, a warning of each failure in quarantine, and logs of both in groups."""
        for number, entry in enumerate(_entries(run)):
            if number < _MOST_ERRORS:
                file, line = self._position(entry)
                values = {"file": file, "line": line, "title": shortened(entry.name, _TITLE)}
                given = ",".join(f"{name}={_value(value)}" for name, value in values.items() if value)
                command = "error" if entry.cause else "warning"
                click.echo(f"::{command} {given}::{_message(entry.headline)}")
            click.echo(f"::group::{_message(entry.name)}")
            self._stop()
            click.echo(entry.text)
            self.close()
            click.echo("::endgroup::")

    def _position(self, entry: _Entry) -> tuple[str, str]:
        """Return file and line of the rule with the expectation, of the only failure of a cause, or of the cause."""
        result = entry.example
        if result.expectation is not None:
            file, line, *_ = result.expectation["position"].split(":")
            return file, line
        own = Suspect("step", result.pipeline) if result.identity.is_ir else Suspect("workload", result.workload)
        file = entry.cause.get("file", "") if entry.cause else ""
        name, line = file or own.file, "1"
        # GitHub shows no files but those of the repository.
        is_kept = bool(result.kept) and result.position.startswith(result.kept)
        if result.position and not is_kept:
            failing, at_line = result.position.split(":")[:2]
            if entry.shared is None or failing == file:
                name, line = failing, at_line
        found = (root / name for root in self._roots if (root / name).is_file())
        return os.path.relpath(next(found, Path(name))), line


@dataclass(frozen=True)
class _Entry:
    """A cause, or a failure in quarantine."""

    results: Sequence[TestResult]
    cause: Cause | None = None

    @property
    def example(self) -> TestResult:
        return self.results[0]

    @property
    def shared(self) -> Cause | None:
        """Return the cause of several tests."""
        return self.cause if len(self.results) > 1 else None

    @property
    def name(self) -> str:
        return cause_name(self.shared) if self.shared else f"{self.example.outcome} {self.example.id}"

    @property
    def headline(self) -> str:
        line = headline(self.example.to_json())
        if self.shared is None:
            return line
        return f"{', '.join(self.shared['globs'][:_MOST_GLOBS])}\nfor example {self.example.id}: {line}"

    @property
    def text(self) -> str:
        entry = self.example.to_json()
        return cause_text(self.shared, entry) if self.shared else failure_text(entry)


def _entries(run: Run) -> list[_Entry]:
    """Return the causes of a run, then each failure in quarantine."""
    results = {result.id: result for result in run.results}
    causes = [_Entry([results[test] for test in cause["tests"]], cause) for cause in run.causes]
    return causes + [_Entry([result]) for result in run.results if result.quarantine is not None]


def _buildbot(run: Run, table: str) -> Iterator[str]:
    """Return a step for each of the first entries, and a last step with the summary. The exit code colours it."""
    for entry in _entries(run)[:_MOST_STEPS]:
        counts = Counter(result.outcome for result in entry.results)
        name = entry.shared["title"] if entry.shared else entry.example.id
        text = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
        yield from _step(abridged(harmless(" ".join(name.split()))), text, [entry.text], entry.results)
    summary = summarise(run.results)
    wrong_count = sum(result.fails for result in run.results)
    causes = f", {counted(len(run.causes), 'cause')}" if run.causes else ""
    text = f"{counted(summary['total'], 'test')}, {wrong_count} not as expected{causes}"
    yield from _step("summary", text, [table], run.results)


def _step(name: str, text: str, log: Iterable[str], results: Sequence[TestResult]) -> Iterator[str]:
    yield f"@@@BUILD_STEP {name}@@@"
    wrong = {result.outcome for result in results if result.fails}
    held = any(result.quarantine for result in results)
    # Buildbot drops the result and the text of a step that has not begun yet.
    time.sleep(_PACE_S if wrong or held else 0)
    for part in log:
        yield from _no_commands(part)
    yield f"@@@STEP_TEXT@{text}@@@"
    if wrong:
        yield "@@@STEP_EXCEPTION@@@" if wrong == {Outcome.INFRA_ERROR} else "@@@STEP_FAILURE@@@"
    elif held:
        yield "@@@STEP_WARNINGS@@@"


def _no_commands(text: str) -> Iterator[str]:
    return (f" {line}" if line.startswith("@@@") else line for line in text.splitlines())


def _markdown(run: Run) -> Iterator[str]:
    """Return the summary of a job: totals, and the causes of unexpected outcomes."""
    summary = summarise(run.results)
    counts = ", ".join(f"{number} {outcome}" for outcome, number in summary["by_outcome"].items())
    failed = any(result.fails for result in run.results)
    yield f"### {'❌' if failed else '✅'} {counted(summary['total'], 'test')}: {counts}\n"
    entries = _entries(run)
    if entries:
        yield "| tests | outcome | reason | repeat |\n|---|---|---|---|"
    for entry in entries[:_MOST_ROWS]:
        result = entry.example
        held = " (in quarantine)" if result.quarantine else ""
        more, reason = "", result.reason
        if entry.shared:
            more = f" and {len(entry.results) - 1} more: {_code(', '.join(entry.shared['globs']))}"
            reason = entry.shared["title"]
        cells = (
            f"{_code(result.id)}{more}", f"{result.outcome}{held}", _cell(reason), _code(result.repeat)
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    if len(entries) > _MOST_ROWS:
        yield f"\n… and {len(entries) - _MOST_ROWS} more"
    skipped = Counter(result.reason for result in run.results if result.outcome in NOT_RUN)
    if skipped:
        reasons = "".join(f"<li>{number} × {_cell(reason)}</li>" for reason, number in skipped.most_common(20))
        yield f"\n<details><summary>not run: {skipped.total()}</summary><ul>{reasons}</ul></details>"


def _cell(text: str, most: int = 300) -> str:
    """Return text that Markdown shows unchanged."""
    plain = " ".join(harmless(text).split())
    plain = plain if len(plain) <= most else f"{plain[:most]}…"
    return "".join(f"&#{ord(each)};" if each in "|*_`[]()!\\~@:#" else escape(each) for each in plain)


def _code(text: str) -> str:
    return f"<code>{_cell(text)}</code>"


def _message(value: object) -> str:
    return harmless(str(value)).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(value: str) -> str:
    return _message(value).replace(":", "%3A").replace(",", "%2C")
