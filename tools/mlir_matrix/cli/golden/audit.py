"""``matrix golden audit``: measure which planted miscompiles the tolerances catch."""

from __future__ import annotations

import click

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.progress import Counting
from mlir_matrix.judge.audit import audit, to_document
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import select_tests
from mlir_matrix.report.audit_text import audit_lines

#: One cell per workload, on the simplest route.
_DEFAULT = "mlir/linalg-loops/x86_64/*"


@verb(
    "audit",
    "matrix golden audit --seeds 50",
    "matrix golden audit 'mlir/linalg-loops/x86_64/{matmul,softmax}' --mutations 'narrow-*'",
    "matrix golden audit --format json",
)
@options.tests
@click.option(
    "--seeds",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="Draw the inputs N times.",
)
@click.option("--mutations", "glob", default="*", metavar="GLOB", help="Plant only mutants whose name matches GLOB.")
@options.output_format("text", "json")
@options.session(*options.releases, *options.builds, options.cache)
@options.limits
def audit_command(tests: tuple[str, ...], seeds: int, glob: str, form: str, current: Session, limits: Limits) -> int:
    """Plant mutants (miscompiles) in tests and report which of them the tolerances catch.

    Without arguments, audit every workload as linalg, through linalg-loops. A mutant matters if its error on some element exceeds
    the forward error bound of sound arithmetic. That bound is computed from the inputs, not from the tolerances. Of a program that
    others wrote, it matters if it is beyond atol and rtol of the layer that wins, where the program as it is is not.

    Exit code 1: fewer than 99 % of the mutants that matter are caught, or none matters; an allowed change (contraction,
    reassociation) is flagged; or an output that needs no program passes. 2: a reference fails, or its bound cannot be derived.
    """
    names = tests or (_DEFAULT,)
    chosen = select_tests(current, names)
    runnable = [test for test in chosen if test.selected and test.executes]
    if not runnable:
        why = next((test.without_outputs for test in chosen if test.without_outputs), "none of these tests runs")
        raise UsageError(f"{' '.join(names)}: nothing to audit: {why}; try '{_DEFAULT}'")
    found = audit(
        current,
        runnable,
        seeds=seeds,
        glob=glob,
        limits=limits,
        tell=_tell,
        progress=lambda total: Counting(total, _tell).on,
    )
    show(form, to_document(found), audit_lines(found), markup=True)
    if found.is_broken:
        return CatalogError.exit_code
    return 0 if found.sound else 1


def _tell(text: str) -> None:
    note(f"audit: {text}")
