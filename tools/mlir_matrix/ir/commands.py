"""``matrix ir`` and ``matrix step``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import write_file, write_output
from mlir_matrix.base.names import check_known, printable
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.run_lines import ParameterError, values_of
from mlir_matrix.cli import options
from mlir_matrix.cli.completion import complete_tests, names_in
from mlir_matrix.cli.output import warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.ir.levels import Level, between, levels_of, plan_step, read_levels
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests

STEPS = "recipes/steps"


@verb(
    "ir",
    "matrix ir jax/linalg-loops/x86_64/mlp --after linalg-fuse",
    "matrix ir jax/linalg-loops/x86_64/mlp --all --out mlp-ir",
    "matrix ir --pin llvm=22 mlir/linalg-loops/x86_64/softmax > softmax.mlir",
)
@click.argument("test", metavar="ID", shell_complete=complete_tests)
@click.option(
    "--after", metavar="STEP", help="Print what STEP gives; 'import' is the importer.", shell_complete=names_in(STEPS)
)
@click.option("--before", metavar="STEP", help="Print what STEP takes.", shell_complete=names_in(STEPS))
@click.option("--all", "every", is_flag=True, help="Print the IR after each step.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write a file, or with --all into a new or empty folder.",
)
@options.session(*options.releases, *options.builds, options.cache)
@options.limits_without_jobs
def ir_command(
    test: str,
    after: str | None,
    before: str | None,
    every: bool,
    out: Path | None,
    current: Session,
    limits: Limits,
) -> int:
    """Print the IR of a test after a step, whether it passes or not.

    Without an option, print the last level that is text. What is cached does not run again.

    Exit code: 0 printed; 1 a step fails: what comes before it is printed, and the reason; 2 no such test or step; 3 the
    infrastructure failed.
    """
    if sum(map(bool, (after, before, every))) > 1:
        raise UsageError("--after, --before and --all exclude each other")
    found = [each for each in select_tests(current, [test]) if each.id == test]
    if not found:
        raise UsageError(f"{printable(test)}: expected the identifier of one test; matrix plan lists them")
    plan = plan_tests(current, found)
    levels = levels_of(plan, test)
    if not levels:
        raise UsageError(f"{test}: no step of it gives IR")
    if after or before:
        levels = [between(levels, after=after, before=before)]
    read, problem = read_levels(current, plan.graph, levels, limits)
    if every:
        _print_all(read, out)
    elif read:
        texts = [data for _, data in read if _is_text(data)]
        _print(texts[-1] if texts else read[-1][1], out)
    warn(*filter(None, [problem]))
    return int(bool(problem))


@verb(
    "step",
    "matrix step linalg-to-loops mlp.mlir",
    "matrix step linalg-tile-vectorize mlp.mlir --with rows=4 --pin llvm=22",
)
@click.argument("name", metavar="STEP", shell_complete=names_in(STEPS))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--with", "values", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the step. Repeatable.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a file.")
@options.session(*options.releases, *options.builds, options.cache)
@options.limits_without_jobs
def step_command(
    name: str, file: Path, values: Sequence[str], out: Path | None, current: Session, limits: Limits
) -> int:
    """Run one step on a file with MLIR, and print what it gives.

    Exit code: 0 printed; 1 the step fails, with its reason; 2 no such step; 3 the infrastructure failed.
    """
    check_known("step", [name], current.catalog.steps)
    step = current.catalog.steps[name]
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file")
    try:
        given = values_of(step.document, values)
    except ParameterError as error:
        raise UsageError(str(error)) from None
    session, graph, level = plan_step(current, step, file.absolute(), given)
    read, problem = read_levels(session, graph, [level], limits)
    for _, data in read:
        _print(data, out)
    warn(*filter(None, [problem]))
    return int(bool(problem))


def _is_text(data: bytes) -> bool:
    return b"\0" not in data


def _print(data: bytes, out: Path | None) -> None:
    if out is not None:
        write_output(out, data)
    elif _is_text(data):
        click.echo(data.decode(errors="replace"), nl=not data.endswith(b"\n"))
    else:
        raise UsageError(f"the result is not text ({len(data)} bytes); write it to a file: --out FILE")


def _print_all(read: Sequence[tuple[Level, bytes]], out: Path | None) -> None:
    """Print the levels one after the other, or write a file for each, in the order of the steps."""
    if out is None:
        for level, data in read:
            click.echo(f"// ----- {level.name}")
            click.echo(data.decode(errors="replace") if _is_text(data) else f"// {len(data)} bytes, not text")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: expected a new or empty folder; nothing was written")
    for number, (level, data) in enumerate(read):
        write_file(out / f"{number:02}-{level.name}-{level.action.outputs[level.output]}", data)
    click.echo(f"{counted(len(read), 'file')} written to {out}")
