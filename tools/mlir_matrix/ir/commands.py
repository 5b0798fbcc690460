"""``matrix ir`` and ``matrix step``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import write_file, write_output
from mlir_matrix.base.paths import find_home, repository
from mlir_matrix.base.text import counted
from mlir_matrix.cli import options
from mlir_matrix.cli.completion import complete_tests, names_in
from mlir_matrix.cli.output import warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.kept_answers import KeptAnswers
from mlir_matrix.ir.level_file import LevelFile
from mlir_matrix.plan.request import Limits

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session

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
@options.closed_session(*options.releases, *options.builds, options.cache)
@options.limits_without_jobs
def ir_command(
    test: str,
    after: str | None,
    before: str | None,
    every: bool,
    out: Path | None,
    closed: options.SessionOptions,
    limits: Limits,
) -> int:
    """Print the IR of a test after a step, whether it passes or not.

    Without an option, print the last level that is text. What is cached does not run again.

    Exit code: 0 printed; 1 a step fails: what comes before it is printed, and the reason; 2 no such test or step; 3 the
    infrastructure failed.
    """
    if sum(map(bool, (after, before, every))) > 1:
        raise UsageError("--after, --before and --all exclude each other")
    home = find_home(cache_dir=closed.cache_dir)
    answers = KeptAnswers([repository(), *closed.catalogs], home, ["ir", test, after, before, every, closed.words()])
    store = ActionCache(home.actions)
    kept = answers.find()
    problem = ""
    if kept is not None:
        files = [LevelFile(*each) for each in kept["files"]]
    else:
        from mlir_matrix.ir.levels import find_levels  # slow to import, and a kept answer needs no catalog

        current = closed.open()
        files, problem, lasting = find_levels(current, test, limits, after=after, before=before, every=every)
        if lasting:
            answers.keep({"files": files}, [store.blob_path(file.digest) for file in files])
    if every:
        _print_all([(file, store.read_blob(file.digest)) for file in files], out)
    elif files:
        read = (store.read_blob(file.digest) for file in reversed(files))
        text = next(filter(_is_text, read), None)
        _print(store.read_blob(files[-1].digest) if text is None else text, out)
    warn(*filter(None, [problem]))
    return int(bool(problem))


@verb(
    "step",
    "matrix step linalg-to-loops mlp.mlir",
    "matrix step linalg-tile-vectorize mlp.mlir --with rows=4 --pin llvm=22",
    "matrix step bufferize mlp.mlir --print-ir-after-all",
)
@click.argument("name", metavar="STEP", shell_complete=names_in(STEPS))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--with", "values", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the step. Repeatable.")
@click.option("--print-ir-after-all", "printing", is_flag=True, help="Print the IR after each pass.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a file.")
@options.session(*options.releases, *options.builds, options.cache)
@options.limits_without_jobs
def step_command(
    name: str,
    file: Path,
    values: Sequence[str],
    printing: bool,
    out: Path | None,
    current: Session,
    limits: Limits,
) -> int:
    """Run one step on a file with MLIR, and print what it gives, or what each pass gives.

    Exit code: 0 printed; 1 the step fails, with its reason; 2 no such step; 3 the infrastructure failed.
    """
    from mlir_matrix.ir.levels import read_levels  # slow to import
    from mlir_matrix.ir.one_step import plan_step

    session, graph, level = plan_step(current, name, file, values, printing=printing)
    read, problem = read_levels(session, graph, [level], limits)
    store = ActionCache(session.home.actions)
    for found in read:
        data = store.read_blob(found.digest)
        # No pass may have ended.
        if data:
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


def _print_all(read: Sequence[tuple[LevelFile, bytes]], out: Path | None) -> None:
    """Print the levels one after the other, or write a file for each, in the order of the steps."""
    if out is None:
        for file, data in read:
            click.echo(f"// ----- {file.level}")
            click.echo(data.decode(errors="replace") if _is_text(data) else f"// {len(data)} bytes, not text")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: expected a new or empty folder; nothing was written")
    for number, (file, data) in enumerate(read):
        write_file(out / f"{number:02}-{file.level}-{file.name}", data)
    click.echo(f"{counted(len(read), 'file')} written to {out}")
