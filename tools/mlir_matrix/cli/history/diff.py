"""``matrix history diff``: new, fixed and changed failures between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.cli import options
from mlir_matrix.cli.history_store import asked, database
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.report.history_text import diff_text

if TYPE_CHECKING:
    from mlir_matrix.history.questions import Ended, Questions
    from mlir_matrix.report.schemas.history import Diff


@verb("diff", "matrix history diff latest~1 latest", "matrix history diff monday.json tuesday.json --format json")
@click.argument("before", metavar="RUN")
@click.argument("after", metavar="RUN")
@options.output_format("table", "json")
@database
def diff_command(before: str, after: str, form: str, url: str) -> int:
    """Show new, fixed and changed failures between two runs.

    RUN is latest, latest~N, the beginning of an ID of history show, or a file of run --results.

    Exit code: 1 if there are new failures, else 0.
    """
    with asked(url) as (_, questions):
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
    show(form, document, diff_text(document), markup=True)
    return 1 if kinds["new"] else 0


def _outcomes(questions: Questions, word: str) -> tuple[str, dict[str, Ended]]:
    """Return the name of a run or a file, and how its tests ended."""
    if Path(word).is_file():
        from mlir_matrix.history.results_file import read_outcomes

        return word, read_outcomes(Path(word))
    run, found = questions.outcomes(word)
    return run["id"], found
