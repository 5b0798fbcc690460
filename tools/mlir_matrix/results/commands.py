"""``matrix merge`` and ``matrix cache gc``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import write_output
from mlir_matrix.base.paths import find_home
from mlir_matrix.base.text import counted, megabytes, size_in_bytes
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.execute.eviction import Evicted, cache_limit, evict
from mlir_matrix.results.documents import CacheGc
from mlir_matrix.results.merge import merge, read_results
from mlir_matrix.results.results import NOT_RUN, exit_code, to_document


@verb("merge", "matrix merge shard-1.json shard-2.json", "matrix merge shard-*.json --results results.json")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULTS...")
@click.option(
    "--results", type=options.NewFile(), metavar="FILE", help="Also write the document of --format json to FILE."
)
@options.output_format("table", "json")
def merge_command(files: tuple[Path, ...], results: Path | None, form: str) -> int:
    """Merge the results of all shards of a run (matrix run --shard I/N --results FILE).

    Refuse missing or doubled shards and shards of different plans or durations, because their results would lack tests. The exit
    code is that of a run of all tests.
    """
    run, about, selection = merge({file: read_results(file) for file in files})
    document = json.dumps(to_document(run, about, selection))
    if results is not None:
        write_output(results, document.encode() + b"\n")
    if form == "json":
        click.echo(document)
    else:
        from mlir_matrix.results.report.summary import print_summary

        print_summary(run, selection["pins"])
    if run.results and all(result.outcome in NOT_RUN for result in run.results):
        raise UsageError("no test ran in any shard")
    return exit_code(run.results) or (InfrastructureError.exit_code if run.interrupted else 0)


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return size_in_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@verb("gc", "matrix cache gc --dry-run", "matrix cache gc --max-size 5G --max-age 30")
@click.option(
    "--max-size",
    type=_Size(),
    metavar="SIZE",
    help="Keep at most SIZE, e.g. 500M or 5G. Default: the limit of runs, 10G.",
)
@click.option(
    "--max-age",
    type=click.IntRange(min=1),
    metavar="DAYS",
    help="Also remove results that were not used for DAYS days.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@options.output_format("table", "json")
@options.cache
def gc_command(max_size: int | None, max_age: int | None, dry_run: bool, form: str, cache_dir: Path | None) -> None:
    """Remove the least recently used results from the action cache, and files that no result needs.

    Results that running commands may use are kept. Removed results are made again when they are needed. A run does this at its
    end if the action cache is larger than 10 GB, or than the size in MATRIX_CACHE_LIMIT.
    """
    home = find_home(cache_dir=cache_dir)
    limit = cache_limit() if max_size is None else max_size
    since = 0 if max_age is None else time.time() - max_age * 86_400
    found = evict(home, max_bytes=limit, unused_since=since, dry_run=dry_run)
    document: CacheGc = {
        "schema": "mlir-matrix/cache-gc/v1",
        "cache": str(home.actions),
        "max_bytes": limit,
        "max_age_days": max_age,
        "dry_run": dry_run,
        "summary": {
            "removed": {
                "results": found.results,
                "files": found.files,
                "scratch_folders": found.scratch,
                "bytes": found.freed,
            },
            "kept": {
                "results": found.results_left,
                "files": found.files_left,
                "bytes": found.bytes_left,
                "in_use": found.in_use,
            },
        },
    }
    show(form, document, _evicted_lines(found, "would be removed" if dry_run else "removed"))


def _evicted_lines(found: Evicted, word: str) -> list[str]:
    removed = (
        f"{counted(found.results, 'result')}, {counted(found.files, 'file')} and "
        f"{counted(found.scratch, 'scratch folder')} {word}"
    )
    removed += f", {megabytes(found.freed)}" if found.freed else ""
    kept = f"{counted(found.results_left, 'result')} and {counted(found.files_left, 'file')} kept"
    used = f"; {counted(found.in_use, 'result')} in use" if found.in_use else ""
    return [removed, f"{kept}, {megabytes(found.bytes_left)}{used}"]
