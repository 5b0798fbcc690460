"""``matrix merge``: merge the results of all shards of a run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import write_output
from mlir_matrix.cli import options
from mlir_matrix.cli.verbs import verb
from mlir_matrix.judge.results import NOT_RUN, exit_code, to_document
from mlir_matrix.report.merge import merge, read_results


@verb("merge", "matrix merge shard-1.json shard-2.json", "matrix merge shard-*.json --results results.json")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULTS...")
@click.option(
    "--results", type=options.NewFile(), metavar="FILE", help="Also write the document of --format json to FILE."
)
@options.output_format("table", "json")
def merge_command(files: tuple[Path, ...], results: Path | None, form: str) -> int:
    """Merge the results of all shards of a run (matrix run --shard I/N --results FILE).

    Shards that are missing or doubled, or of different plans or durations, are refused: they would lose tests. The exit code is
    that of a run of all tests.
    """
    run, about, selection = merge({file: read_results(file) for file in files})
    document = json.dumps(to_document(run, about, selection))
    if results is not None:
        write_output(results, document.encode() + b"\n")
    if form == "json":
        click.echo(document)
    else:
        from mlir_matrix.report.summary import print_summary

        print_summary(run, selection["pins"])
    if run.results and all(result.outcome in NOT_RUN for result in run.results):
        raise UsageError("no test ran in any shard")
    return exit_code(run.results) or (InfrastructureError.exit_code if run.interrupted else 0)
