"""``matrix history``: show, compare, push, import, export and prune recorded runs."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import write_output
from mlir_matrix.base.names import printable
from mlir_matrix.base.text import at, counted, now
from mlir_matrix.cli import options
from mlir_matrix.cli.options import NewFile, Option
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.history import report as text
from mlir_matrix.history.chosen_runs import ChosenRuns
from mlir_matrix.history.opening import DAY_NS, database, open_chosen, open_local, open_store, read_since
from mlir_matrix.history.report import diff_text

if TYPE_CHECKING:
    from mlir_matrix.history.documents import Diff
    from mlir_matrix.history.questions import EndedTest, Questions
    from mlir_matrix.history.store import Store

patterns = click.argument("tests", nargs=-1, metavar="[PATTERN]...")
_DAYS = re.compile(r"([1-9]\d{0,4})d?", re.ASCII)


def _pin(_context: click.Context, parameter: click.Parameter, value: str) -> str:
    component, _, release = value.partition("=")
    if value and not (component and release):
        raise UsageError(f"{parameter.opts[0]} {printable(value)}: expected COMPONENT=RELEASE, e.g. llvm=22")
    return value


def _addresses(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    from mlir_matrix.history.mail import read_address  # imports the library for mails

    return tuple(map(read_address, values))


#: Passes ``chosen``, a ChosenRuns, to the verb.
chosen_runs = options.gathered(
    "chosen",
    ChosenRuns,
    Option("host", "--host", metavar="GLOB", default="", help="Only runs on these machines, e.g. 'build-*'."),
    Option("suite", "--suite", metavar="SUITE", default="", help="Only runs of this suite, e.g. nightly."),
    Option("branch", "--branch", metavar="GLOB", default="", help="Only runs of catalogs on these Git branches."),
    Option(
        "since",
        "--since",
        metavar="DATE|DURATION",
        callback=read_since,
        help="Only runs since then, e.g. 2026-01-31, 7d or 12h.",
    ),
)
limit = Option("limit", "--limit", type=click.IntRange(1), metavar="N", help="Show at most N runs or tests.")


@contextmanager
def asked(url: str, chosen: ChosenRuns) -> Iterator[tuple[str, Questions]]:
    """Yield the name of a database, and the object that queries it about these runs."""
    store = open_chosen(url)
    from mlir_matrix.history.questions import Questions

    with store.reading() as connection:
        yield store.name, Questions(store, connection, chosen)


_LINES: dict[str, Callable[..., Iterator[str]]] = {
    "flaky": text.flaky_text,
    "slower": text.slower_text,
    "error-growing": text.growing_text,
}


@verb(
    "show",
    "matrix history show",
    "matrix history show 'jax/**'",
    "matrix history show --first-bad 'mlir/**'",
    "matrix history show --flaky",
    "matrix history show --host 'build-*' --suite nightly --since 7d",
)
@patterns
@click.option(
    "--first-bad", "question", flag_value="first-bad", help="When tests that are bad now went bad, and what changed."
)
@click.option("--flaky", "question", flag_value="flaky", help="Tests that contradict themselves under equal inputs.")
@click.option("--slower", "question", flag_value="slower", help="Tests whose last 5 executions took longer.")
@click.option(
    "--error-growing", "question", flag_value="error-growing", help="Tests whose error uses ever more of its bound."
)
@chosen_runs
@limit
@options.output_format("table", "json")
@database
def show_command(
    tests: tuple[str, ...], question: str | None, chosen: ChosenRuns, limit: int | None, form: str, url: str
) -> None:
    """Show the last runs; with patterns, the last outcomes of tests.

    An outcome is a character: "." a pass, "-" not run, else its first letter, in capitals if it is unexpected.
    """
    most = {} if limit is None else {"most": limit}
    with asked(url, chosen) as (name, questions):
        found: Any
        summary: Any
        more: dict[str, Any] = {}
        kind, rows = f"history-{question}", "tests"
        if question == "first-bad":
            from mlir_matrix.history.first_bad import first_bad_by_cause

            answer = first_bad_by_cause(questions, tests, **most)
            found, summary, more = answer["tests"], answer["summary"], {"causes": answer["causes"]}
            shown = text.first_bad_text(answer["causes"], answer["summary"], limit or text.MOST_CAUSES)
        elif question:
            from mlir_matrix.history.trends import Trends

            trends = Trends(questions)
            answers: dict[str, Callable[..., list[Any]]]
            answers = {"flaky": trends.flaky, "slower": trends.slower, "error-growing": trends.growing}
            whole = answers[question](tests)
            found = whole[: limit or (text.MOST_LINES if form == "table" else None)]
            summary = {"tests": len(whole), "shown": len(found)}
            shown = _LINES[question](found, len(whole))
        elif tests:
            found, matched = questions.show(tests, **most)
            unexpected = sum(each["bad"] for each in found)
            kind = "history"
            summary = {"matched": matched, "shown": len(found), "unexpected": unexpected}
            shown = text.shown_text(found, summary)
        else:
            found, matched = questions.runs(**most)
            kind, rows = "history-runs", "runs"
            summary = {"matched": matched, "runs": len(found)}
            shown = text.runs_text(found, matched)
    document = {"schema": f"mlir-matrix/{kind}/v1", "database": name, "summary": summary, **more, rows: found}
    show(form, document, shown, markup=True)


@verb("diff", "matrix history diff latest~1 latest", "matrix history diff monday.json tuesday.json --format json")
@click.argument("before", metavar="RUN")
@click.argument("after", metavar="RUN")
@chosen_runs
@limit
@options.output_format("table", "json")
@database
def diff_command(before: str, after: str, chosen: ChosenRuns, limit: int | None, form: str, url: str) -> int:
    """Show new, fixed and changed failures between two runs.

    RUN is latest, latest~N, the beginning of an ID of history show, or a file of run --results. With --host, --suite, --branch or
    --since, only such runs count.

    Exit code: 1 if there are new failures, else 0.
    """
    with asked(url, chosen) as (_, questions):
        from mlir_matrix.history.questions import changed

        (was, old), (now, new) = _outcomes(questions, before), _outcomes(questions, after)
    kinds = changed(old, new)
    document: Diff = {
        "schema": "mlir-matrix/history-diff/v1",
        "before": was,
        "after": now,
        "summary": {kind: len(tests) for kind, tests in kinds.items()},
        **kinds,  # type: ignore[typeddict-item] # kinds are keys
    }
    show(form, document, diff_text(document, limit or text.MOST_LINES), markup=True)
    return 1 if kinds["new"] else 0


def _outcomes(questions: Questions, word: str) -> tuple[str, dict[str, EndedTest]]:
    """Return the name of a run or a file, and how its tests ended."""
    if Path(word).is_file():
        from mlir_matrix.history.questions import read_outcomes

        return word, read_outcomes(Path(word))
    run, found = questions.outcomes(word)
    return run["id"], found


@verb(
    "today",
    "matrix history today",
    "matrix history today --since 12h --host 'build-*'",
    "matrix history today --mail lab@example.org",
)
@chosen_runs
@click.option(
    "--pin",
    callback=_pin,
    default="",
    metavar="COMPONENT=RELEASE",
    help="Only new results with this release, e.g. llvm=22.",
)
@click.option(
    "--mail", "addresses", multiple=True, callback=_addresses, metavar="ADDRESS",
    help="Also send the text to ADDRESS by this machine's sendmail. Repeatable.",
)  # fmt: skip
@options.output_format("text", "markdown", "json", "mail")
@database
def today_command(chosen: ChosenRuns, pin: str, addresses: tuple[str, ...], form: str, url: str) -> int:
    """Show what is new since yesterday, or --since: what broke, by cause and machine, and what changed since it worked.

    Each test is compared with the last run before that decided it, on the same machine with the same pins on the command line.

    Exit code: 1 if there are new failures, else 0.
    """
    store = open_chosen(url)
    since = chosen.since or at(time.time_ns() - DAY_NS)
    from mlir_matrix.history.today import Morning

    with store.reading() as connection:
        morning = Morning(store, connection, replace(chosen, since=""), since, now(), pin=pin)
        document = morning.document(store.name)
    from mlir_matrix.history import mail, today_report

    lines = today_report.text(document)
    if form == "markdown":
        click.echo(today_report.markdown(document), nl=False)
    elif form != "mail":
        show(form, document, lines)
    if form == "mail" or addresses:
        message = mail.make_mail(f"matrix: {today_report.summary(document)}", "\n".join(lines), addresses)
        if form == "mail":
            click.echo(message, nl=False)
        if addresses:
            mail.send(message)
    return 1 if document["new"] else 0


@verb("push", "matrix history push", "matrix history push --to postgresql://lab@history.example/matrix")
@click.option("--to", "url", metavar="URL", default="", help="The server's database. Default: MATRIX_HISTORY_URL.")
def push_command(url: str) -> None:
    """Add the runs of this machine to a server, each once.

    Runs stay on this machine, so that nothing is lost if the server is down.
    """
    url = url or os.environ.get("MATRIX_HISTORY_URL", "")
    if not url:
        raise UsageError("no server: give --to postgresql://…, or set MATRIX_HISTORY_URL")
    server = open_store(url)
    from mlir_matrix.history.transfer import push

    added, known = push(open_local(), server, now())
    click.echo(_added(server, added, known))


@verb(
    "import",
    "matrix history import results.json",
    "matrix history import shards/*.json --database sqlite:///lab.sqlite",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, dir_okay=False))
@database
def import_command(files: tuple[Path, ...], url: str) -> None:
    """Add the runs of results documents, each once: of run --results in a CI job, of shards, or of matrix merge.

    Import shards or what matrix merge made of them, not both: the latter is a run of its own. If a file is wrong, nothing is added.
    """
    store = open_chosen(url)
    from mlir_matrix.history.results_files import add_run, read_run

    found = [read_run(file) for file in files]
    added = sum(add_run(store, run, now()) for run in found)
    click.echo(_added(store, added, len(found) - added))


def _added(store: Store, added: int, known: int) -> str:
    return f"{store.name}: {counted(added, 'run')} added" + (f", {known} were there" if known else "")


@verb("export", "matrix history export -o durations.json", "matrix history export > durations.json")
@click.option("-o", "--output", type=NewFile(), metavar="FILE", help="Write to FILE instead of stdout.")
@chosen_runs
@database
def export_command(output: Path | None, chosen: ChosenRuns, url: str) -> None:
    """Write the recent durations of tests, and when each last ran and failed, as JSON."""
    with asked(url, chosen) as (_, questions):
        from mlir_matrix.history.trends import Trends

        text = json.dumps(Trends(questions).snapshot(now()).to_document(), indent=1) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_output(output, text.encode())


class _Days(click.ParamType[int]):
    name = "days"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _DAYS.fullmatch(str(value))
        return int(found[1]) if found else self.fail(f"{str(value)!r} is not a number of days, such as 90d", param, ctx)


@verb("prune", "matrix history prune --older-than 90d")
@click.option("--older-than", "days", type=_Days(), required=True, metavar="DAYS", help="Keep DAYS days, e.g. 90d.")
@database
def prune_command(days: int, url: str) -> None:
    """Replace the results of old runs by a summary for each test and month.

    The list of runs stays. Runs whose results a later run repeats count as that one.
    """
    store = open_chosen(url)
    from mlir_matrix.history.transfer import prune

    removed = prune(store, at(time.time_ns() - days * DAY_NS), now())
    click.echo(f"{store.name}: {counted(removed, 'result')} removed")
