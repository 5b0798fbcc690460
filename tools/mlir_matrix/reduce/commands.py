"""``matrix reduce``: from a failing test to the smallest program that fails in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.pins import read_pins
from mlir_matrix.cli import options
from mlir_matrix.cli.completion import complete_tests
from mlir_matrix.cli.output import note, show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.execute.progress import PlainProgress, shown
from mlir_matrix.plan.request import Limits
from mlir_matrix.reduce.bisected import bisected
from mlir_matrix.reduce.documents import By
from mlir_matrix.reduce.predicate import script_of
from mlir_matrix.reduce.reduced import folder_of
from mlir_matrix.reduce.report import LiveReduction, reduced_document, reductions, text_lines, write_report
from mlir_matrix.reduce.run import reduce_test
from mlir_matrix.reduce.subject import SubjectFinder, failing_test
from mlir_matrix.reduce.tester import Progress
from mlir_matrix.reduce.written import add_to_catalog

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session


@verb(
    "reduce",
    "matrix reduce mlir/linalg-vectorized/x86_64/flip",
    "matrix reduce pytorch/linalg-loops/x86_64/gelu_tanh --budget 10m",
    "matrix reduce mlir/math-expand/x86_64/ceil --pin llvm=21 --good llvm=22",
    "matrix reduce ~/.local/state/mlir-matrix/bisect/2026-01-31T12-00-00Z@llvm=17..21",
    "matrix reduce mlir/bufferize/ir/owned --write my-catalog",
)
@click.argument("test", metavar="ID|REPORT", shell_complete=complete_tests)
@click.option(
    "--good",
    default="",
    metavar="PINS",
    help="The test passes with these pins, e.g. llvm=18. Default: what is right here.",
)
@click.option(
    "--by",
    type=click.Choice(get_args(By)),
    default="behaviour",
    show_default=True,
    help="What must stay: all of a failure, with its message and place, or its outcome alone.",
)
@options.budget("5m", "Stop after this time, e.g. 90s or 1h.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write the result into this folder."
)
@click.option(
    "--write",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="CATALOG",
    help="Also add the result to a catalog, as a workload.",
)
@click.option(
    "--predicate", is_flag=True, help="Print a script that tests files for the failure, for cvise; reduce nothing."
)
@options.limits
@options.session(options.cache, *options.releases, *options.builds)
@options.output_format("text", "json")
@options.quiet
@click.pass_context
def reduce_command(
    context: click.Context,
    test: str,
    good: str,
    by: By,
    budget: float,
    out: Path | None,
    write: Path | None,
    predicate: bool,
    current: Session,
    limits: Limits,
    form: str,
    quiet: bool,
) -> int:
    """Reduce the program of a failing test to the smallest that fails in the same way.

    Take the IR where it goes wrong, and remove operations, shapes and constants as long as the behaviour stays: the same crash or
    error, or wrong numbers that a reference in NumPy and another release or pipeline do not have. A killed reduction goes on when
    the same command runs again.

    REPORT is the folder of a bisection, or a file in it: its test, between its last good and its first bad release.

    Exit code: 0 reduced; 1 the result is not as small as it can be, or does not fail each time; 2 the test passes, is flaky or
    has no MLIR; 3 the infrastructure failed.
    """
    from mlir_matrix.base.layout import print_lines  # imports rich

    words = options.words_of_run(context, reduce_command)
    name = test
    if Path(test).exists():
        found = bisected(Path(test))
        current = current.with_pins(read_pins(current.catalog, [found.bad]))
        words += ["--pin", found.bad]
        name, good = found.test, good or found.good
    if write is not None and not write.is_dir():
        raise UsageError(f"--write {write}: there is no such folder")
    passing = current.with_pins(read_pins(current.catalog, good.split(","), "--good")) if good else None
    progress = Progress()
    with shown(quiet=quiet, live=lambda: LiveReduction(progress), plain=PlainProgress) as listener:
        failing, result = failing_test(current, name, limits, listener)
        if predicate:
            show("text", None, script_of(current, failing, result, words))
            return 0
        subject = SubjectFinder(
            session=current, test=failing, result=result, limits=limits, good=passing, by=by, listener=listener
        ).find()
        reduced = reduce_test(subject, limits, budget, out or folder_of(subject), progress=progress, listener=listener)
    write_report(reduced, words)
    written = str(add_to_catalog(reduced, write)) if write else ""
    if form == "json":
        show("json", reductions([reduced_document(reduced, words, written)]), [])
    else:
        print_lines(text_lines(reduced, words))
        if written:
            note(f"written: {written}")
    return 0 if reduced.complete and reduced.verified else 1
