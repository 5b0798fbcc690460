"""``matrix cost``, what tests cost, alone or against another side; ``matrix cost audit``; and ``matrix report best``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import TestId
from mlir_matrix.base.text import counted
from mlir_matrix.cli import options
from mlir_matrix.cli.completion import complete_tests
from mlir_matrix.cli.output import note, show, warn_unsized
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.request import Limits

if TYPE_CHECKING:
    from mlir_matrix.cost.audit import Tally
    from mlir_matrix.cost.best import Row


@verb(
    "of",
    "matrix cost mlir/linalg-loops/x86_64/matmul",
    "matrix cost 'mlir/linalg-vectorized/x86_64/*' --against linalg-loops",
    "matrix cost smoke --against llvm=22",
    "matrix cost pytorch/iree-llvm-cpu/iree-local/mlp --against c/native/x86_64 --floor 5",
    "matrix cost 'mlir/*/x86_64/{matmul,conv2d}' --size bench",
    "matrix cost smoke --against HEAD~1 --no-time --format json",
)
@click.argument("tests", metavar="SUITE|GLOB|ID...", nargs=-1, required=True, shell_complete=complete_tests)
@click.option(
    "--against",
    default="",
    metavar="OTHER",
    help="Compare with other pins (llvm=19), a pipeline, a cell, a catalog, a revision of the catalogs, or results of a run.",
)
@click.option("--time/--no-time", "timed", default=True, help="Measure the time of calls, too.", show_default=True)
@click.option(
    "--floor",
    type=click.FloatRange(0, 1000, min_open=True),
    default=2.0,
    show_default=True,
    metavar="PERCENT",
    help="Differences of time below this are called the same.",
)
@options.closed_session(*options.releases, *options.builds, options.size, options.cache)
@options.limits
@options.output_format("text", "json")
@options.quiet
def cost_command(
    tests: Sequence[str],
    against: str,
    timed: bool,
    floor: float,
    closed: options.SessionOptions,
    limits: Limits,
    form: str,
    quiet: bool,
) -> int:
    """Count and measure what tests cost: code, instructions, cache misses, operations, allocations, compilation and time.

    Counts are exact and repeat to the unit. Times are measured in pairs of calls, side by side on one core, until the difference is
    certain. With equal bytes of code nothing is measured.

    Exit code: 0 no test is worse; 1 one is, does not pass, or is not compared; 2 the command is wrong; 3 the infrastructure failed.
    """
    from mlir_matrix.base.layout import print_lines  # imports rich
    from mlir_matrix.cost.against import opened
    from mlir_matrix.cost.report import comparison_lines, costs_lines, shown_progress
    from mlir_matrix.cost.run import Timing, compare_sides, costs_of_side
    from mlir_matrix.cost.sides import run_side
    from mlir_matrix.plan.costs import has_costs
    from mlir_matrix.plan.session import select_tests

    timing = Timing(wanted=timed, floor=floor / 100, limits=limits, progress=shown_progress(quiet=quiet))
    current = closed.open()
    selected = [test for test in select_tests(current, tests) if has_costs(test)]
    if not selected:
        raise UsageError("none of these tests compiles a program, which alone has costs")
    # A program that is known to fail has no costs that matter, unless it is asked for.
    passing = [test for test in selected if test.expectation is None or test.id in tests]
    if passing and len(passing) < len(selected) and not quiet:
        note(f"{counted(len(selected) - len(passing), 'test')} left out: expected to fail")
    selected = passing or selected
    warn_unsized(current.catalog, closed.size, {test.workload for test in selected})
    if not against:
        side = run_side(current, selected, limits, quiet=quiet)
        document = costs_of_side(side, timing)
        if form == "json":
            show("json", document, [])
        else:
            print_lines(costs_lines(document))
        if any(each["outcome"] == Outcome.INFRA_ERROR for each in document["tests"]):
            return InfrastructureError.exit_code
        return int(document["summary"]["measured"] < document["summary"]["total"])
    with opened(against, closed, current) as other:
        compared = compare_sides(current, selected, other, against, timing, quiet=quiet)
    if form == "json":
        show("json", compared, [])
    else:
        print_lines(comparison_lines(compared))
    return int(bool(compared["summary"]["by_word"].keys() & {"worse", "mixed", "not compared"}))


@verb("audit", "matrix cost audit", "matrix cost audit --live 500", "matrix cost audit --seed 2 --format json")
@click.option(
    "--comparisons", type=click.IntRange(1), default=20_000, show_default=True, metavar="N",
    help="Replay so many comparisons of equal programs.",
)  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, metavar="N", help="Which of them to replay.")
@click.option(
    "--live", type=click.IntRange(0), default=0, show_default=True, metavar="N",
    help="Also compare so many times now, on this machine, kernels with themselves while another process computes.",
)  # fmt: skip
@options.output_format("text", "json")
@options.closed_session(options.cache)
@options.limits_without_jobs
def audit_command(
    comparisons: int, seed: int, live: int, form: str, closed: options.SessionOptions, limits: Limits
) -> int:  # fmt: skip
    """Measure how often comparisons of times err: programs that are equal, and slowdowns of 3 % that are planted.

    The times were recorded on a quiet machine and under loads. A replay of them has the same result on every machine; --live
    measures on this one.

    Exit code 1: more than 0.1 % of the comparisons of equal programs end as slower or faster, or one does so after its
    confirmation; fewer than 95 % of the planted slowdowns are found within 15 pairs on the quiet machine, or one is the same.
    """
    from mlir_matrix.cost.audit import audit_document, recorded, replay
    from mlir_matrix.cost.report import audit_lines

    tallies = replay(recorded(), comparisons, seed)
    if live:
        tallies.append(_live(closed, live, limits))
    document = audit_document(tallies, seed)
    show(form, document, audit_lines(document), markup=True)
    return 0 if document["summary"]["holds"] else 1


def _live(closed: options.SessionOptions, count: int, limits: Limits) -> Tally:
    """Compare the kernels of the audit with themselves, on this machine."""
    from mlir_matrix.cost.audit import compare_live, recorded
    from mlir_matrix.cost.sampling import Timed
    from mlir_matrix.cost.sides import run_side
    from mlir_matrix.plan.session import select_tests

    session = closed.open()
    tests = select_tests(session, sorted({each.test for each in recorded()}))
    side = run_side(session, tests, limits, quiet=True)
    found = filter(None, (side.tested(test.id) for test in tests))
    programs = [each.timed for each in found if isinstance(each.timed, Timed)]
    return compare_live(
        session, programs, count, limits, lambda number: note(f"audit: {counted(number, 'comparison')} to sample")
    )  # fmt: skip


@verb(
    "best",
    "matrix report best '{mlir,pytorch}/linalg-*/x86_64/*'",
    "matrix report best --size bench 'pytorch/*/x86_64/{matmul,mlp}'",
    "matrix report best --results results.json --format json > best.json",
)
@options.tests
@options.documents
@click.option("--time/--no-time", "timed", default=True, help="Measure the time of calls, too.", show_default=True)
@options.session(*options.releases, options.size, options.cache)
@options.output_format("text", "json")
@options.limits
@options.quiet
def best_command(
    tests: tuple[str, ...],
    documents: tuple[Path, ...],
    timed: bool,
    current: Session,
    form: str,
    limits: Limits,
    quiet: bool,
) -> int:
    """Show which pipelines are best for each workload on each target, and which of these beats each of the others, in what.

    Tests that pass are compared in time, instructions, code size, compilation and error, as far as all of them have these. The best
    ones are those that no other is certainly better than in one of these and worse than in none: each has a reason to be chosen.

    Exit code: 0 the report is complete; 2 no such test; 3 the infrastructure failed.
    """
    from mlir_matrix.cost.best import contests, rows_of
    from mlir_matrix.cost.best_report import best_lines

    if documents:
        from mlir_matrix.results.recorded import recorded_results

        context = click.get_current_context()
        # The suite of a project is what runs, and no filter on results.
        given = tests if context.get_parameter_source("tests") == ParameterSource.COMMANDLINE else ()
        rows = rows_of(recorded_results(documents, current, given))
    else:
        rows = list(_measured(current, tests, limits, timed=timed, quiet=quiet))
    document = contests(rows)
    show(form, document, best_lines(document), markup=True)
    return 0


def _measured(current: Session, tests: Sequence[str], limits: Limits, *, timed: bool, quiet: bool) -> Iterator[Row]:
    """Run tests, count and measure their costs, and yield their rows."""
    from mlir_matrix.cost.best import row_of
    from mlir_matrix.cost.report import shown_progress
    from mlir_matrix.cost.run import Timing, costs_of_side
    from mlir_matrix.cost.sides import run_side
    from mlir_matrix.plan.session import select_tests

    selected = [test for test in select_tests(current, tests) if test.executes and not test.tested_property]
    side = run_side(current, selected, limits, quiet=quiet)
    timing = Timing(wanted=timed, floor=0.02, limits=limits, progress=shown_progress(quiet=quiet))
    for each in costs_of_side(side, timing)["tests"]:
        metrics = side.results[each["id"]].metrics
        yield row_of(TestId.parse(each["id"]), each["outcome"], each["reason"], metrics, each.get("costs"))
