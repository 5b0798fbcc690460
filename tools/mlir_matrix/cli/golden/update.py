"""``matrix golden update``: compute expected outputs with the references and compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import (
    cache_option,
    catalog_option,
    format_option,
    limits_options_without_jobs,
    same_catalogs,
    session,
)
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.options import Limits
from mlir_matrix.judge.goldens import check_size, gather, to_document
from mlir_matrix.judge.goldens import write as write_golden
from mlir_matrix.judge.run import run_graph
from mlir_matrix.names import did_you_mean
from mlir_matrix.plan.goldens import plan_update
from mlir_matrix.report.golden_text import update_line
from mlir_matrix.session import Session


@click.command(
    "update",
    cls=Verb,
    examples=(
        "matrix golden update",
        "matrix golden update --write softmax",
        "matrix golden update softmax --format json",
    ),
)
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--write", is_flag=True, help="Write goldens that differ. Without this option, nothing is written.")
@format_option("text", "json")
@catalog_option
@cache_option
@limits_options_without_jobs
def update(
    workloads: tuple[str, ...],
    write: bool,
    form: str,
    catalogs: tuple[Path, ...],
    cache_dir: Path | None,
    limits: Limits,
) -> int:
    """Compute expected outputs again and compare them with the goldens on disk.

    Without arguments, do this for all workloads. The report counts the elements that differ and gives the largest difference. A
    golden that differs only by rounding of the reference is kept. An output of more than 1 MiB is stored as a sketch. Workloads
    with ``golden: computed`` have no golden.

    Exit code 1: goldens differ, and nothing was written.
    """
    current = session(catalogs, cache_dir)
    entries = [_find(current, name) for name in dict.fromkeys(workloads) or sorted(current.catalog.workloads)]
    for entry in entries:
        if workloads and entry.document.golden == "computed":
            raise UsageError(f"{entry.name}: its golden is computed in each run (golden: computed); nothing is kept")
    entries = [entry for entry in entries if entry.document.golden == "kept"]
    graph, updates = plan_update(current.catalog, entries)
    done = run_graph(current, graph, limits=limits)
    goldens, failures = gather(current, entries, updates, done)
    stale = [golden for golden in goldens if golden.stale]
    if write:
        check_size(entries, stale)
        for golden in stale:
            write_golden(golden)
    for failure in failures:
        click.echo(f"{failure.workload}: {failure.reason}\n{failure.diagnostics}", err=True)
    if form == "json":
        click.echo(json.dumps(to_document(goldens, failures, write=write), indent=1))
    else:
        for golden in goldens:
            click.echo(update_line(golden.to_json(written=write and golden.stale)))
    if stale and not write:
        command = same_catalogs(["matrix", "golden", "update", "--write", *workloads], catalogs)
        click.echo(f"nothing was written; {command} would", err=True)
    return 1 if failures or (stale and not write) else 0


def _find(current: Session, name: str) -> Entry[Workload]:
    entries: Mapping[str, Entry[Workload]] = current.catalog.workloads
    if name not in entries:
        raise UsageError(f"there is no workload {name!r}{did_you_mean(name, entries)}")
    return entries[name]
