"""``matrix history show``: outcomes of tests over runs, and what stands out in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mlir_matrix.cli import options
from mlir_matrix.cli.history_store import asked, database, patterns
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.report import history_text as text

if TYPE_CHECKING:
    from mlir_matrix.history.questions import Questions

_LINES: dict[str, Callable[[Any], Any]] = {
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
@options.output_format("table", "json")
@database
def show_command(tests: tuple[str, ...], question: str | None, form: str, url: str) -> None:
    """Show the last runs; with patterns, the last outcomes of tests.

    An outcome is a character: "." a pass, "-" not run, else its first letter, in capitals if it is unexpected.
    """
    with asked(url) as (name, questions):
        if question == "first-bad":
            worst, total = questions.first_bad(tests)
            summary: dict[str, Any] = {"tests": total, "shown": len(worst)}
            document = {
                "schema": "mlir-matrix/history-first-bad/v1",
                "database": name,
                "summary": summary,
                "tests": worst,
            }
            shown = text.first_bad_text(worst, total)
        elif question:
            found = _asked(question, questions)(tests)
            summary = {"tests": len(found)}
            document = {
                "schema": f"mlir-matrix/history-{question}/v1",
                "database": name,
                "summary": summary,
                "tests": found,
            }
            shown = _LINES[question](found)
        elif tests:
            found, matched = questions.show(tests)
            unexpected = sum(each["bad"] for each in found)
            summary = {"matched": matched, "shown": len(found), "unexpected": unexpected}
            document = {"schema": "mlir-matrix/history/v1", "database": name, "summary": summary, "tests": found}
            shown = text.shown_text(document)  # type: ignore[arg-type] # it has these keys
        else:
            runs = questions.runs()
            document = {
                "schema": "mlir-matrix/history-runs/v1",
                "database": name,
                "summary": {"runs": len(runs)},
                "runs": runs,
            }
            shown = text.runs_text(runs)
    show(form, document, shown, markup=True)


def _asked(question: str, questions: Questions) -> Callable[[tuple[str, ...]], Any]:
    """Return what answers a question about tests."""
    from mlir_matrix.history.trends import Trends

    trends = Trends(questions)
    answers = {"flaky": trends.flaky, "slower": trends.slower, "error-growing": trends.growing}
    return answers[question]
