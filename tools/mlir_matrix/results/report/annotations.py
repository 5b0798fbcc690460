"""Print the results of a run as annotations of a CI log: for llvm-zorg's AnnotatedCommand of Buildbot, or GitHub's workflows.

Both read commands at the beginning of a line, so no line of a test's text may begin with a command.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from html import escape
from io import StringIO
from pathlib import Path

import click

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.names import MEMBER
from mlir_matrix.base.text import abridged, counted, harmless
from mlir_matrix.results.report.failure_text import failure_text, headline
from mlir_matrix.results.report.summary import print_summary
from mlir_matrix.results.results import NOT_RUN, Run, TestResult, summarise

#: The number of errors of a step that GitHub shows.
_MOST_ERRORS = 10
#: The most rows of the table in the summary of a job, whose limit is 1 MiB.
_MOST_ROWS = 200
#: The most failing cells that get a step in AnnotatedCommand.
_MOST_STEPS = 10
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
        """Print an error or a warning of each unexpected outcome, and its log in a group."""
        wrong = [result for result in run.results if not result.expected]
        for number, result in enumerate(wrong):
            entry = result.to_json()
            if number < _MOST_ERRORS:
                file, line = self._position(result)
                values = {"file": file, "line": line, "title": f"{result.outcome} {result.id}"}
                given = ",".join(f"{name}={_value(value)}" for name, value in values.items() if value)
                command = "error" if result.fails else "warning"
                click.echo(f"::{command} {given}::{_message(headline(entry))}")
            click.echo(f"::group::{_message(f'{result.outcome} {result.id}')}")
            self._stop()
            click.echo(failure_text(entry))
            self.close()
            click.echo("::endgroup::")

    def _position(self, result: TestResult) -> tuple[str, str]:
        """Return file and line of the rule with the expectation, else of the failure in a catalog, else the file of the test."""
        if result.expectation is not None:
            file, line, *_ = result.expectation["position"].split(":")
            return file, line
        name, line = f"matrix/workloads/{result.workload}/workload.yaml", "1"
        if MEMBER in result.workload:
            name = f"matrix/corpora/{result.workload.partition(MEMBER)[0]}/corpus.yaml"
        if result.identity.is_ir:
            name = f"recipes/steps/{result.pipeline}/tests/{result.workload}.mlir"
        # GitHub shows no files but those of the repository.
        if result.position and not (result.kept and result.position.startswith(result.kept)):
            name, line = result.position.split(":")[:2]
        found = (root / name for root in self._roots if (root / name).is_file())
        return os.path.relpath(next(found, Path(name))), line


def _buildbot(run: Run, table: str) -> Iterator[str]:
    """Return a step for each cell with unexpected outcomes, and a last step with the summary. The exit code colours it."""
    wrong: dict[str, list[TestResult]] = defaultdict(list)
    for result in run.results:
        if not result.expected:
            wrong[result.identity.row].append(result)
    for cell, results in list(wrong.items())[:_MOST_STEPS]:
        counts = Counter(result.outcome for result in results)
        texts = (failure_text(result.to_json()) for result in results)
        yield from _step(
            abridged(cell), ", ".join(f"{number} {name}" for name, number in counts.items()), texts, results
        )
    summary = summarise(run.results)
    wrong_count = sum(result.fails for result in run.results)
    text = f"{counted(summary['total'], 'test')}, {wrong_count} not as expected"
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
    """Return the summary of a job: totals, and the tests with unexpected outcomes."""
    summary = summarise(run.results)
    counts = ", ".join(f"{number} {outcome}" for outcome, number in summary["by_outcome"].items())
    wrong = [result for result in run.results if not result.expected]
    failed = any(result.fails for result in wrong)
    yield f"### {'❌' if failed else '✅'} {counted(summary['total'], 'test')}: {counts}\n"
    if wrong:
        yield "| test | outcome | reason | repeat |\n|---|---|---|---|"
    for result in wrong[:_MOST_ROWS]:
        held = " (in quarantine)" if result.quarantine else ""
        cells = (_code(result.id), f"{result.outcome}{held}", _cell(result.reason), _code(result.repeat))
        yield f"| {' | '.join(cells)} |"
    if len(wrong) > _MOST_ROWS:
        yield f"\n… and {len(wrong) - _MOST_ROWS} more"
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
