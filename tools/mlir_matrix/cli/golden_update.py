"""``matrix golden update``: expected outputs, made from the references."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models import Workload
from mlir_matrix.cli.common import Verb, cache_option, catalog_option, same_catalogs, session
from mlir_matrix.cli.limits import limits_options
from mlir_matrix.digest import digest_file
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.job import Done, Limits
from mlir_matrix.execute.store import Store
from mlir_matrix.names import did_you_mean
from mlir_matrix.plan.references import plan_references
from mlir_matrix.runner import run_graph
from mlir_matrix.session import Session

#: The whole tree has to stay small enough for a repository.
_LARGEST = 1 << 20


@click.command(
    "update",
    cls=Verb,
    short_help="Compute them anew and compare.",
    examples=("matrix golden update", "matrix golden update --write softmax"),
)
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--write", is_flag=True, help="Write what differs. Without it nothing is written.")
@catalog_option
@cache_option
@limits_options(jobs=False)
def update(
    workloads: tuple[str, ...],
    write: bool,
    catalogs: tuple[Path, ...],
    cache_dir: Path | None,
    limits: Limits,
) -> int:
    """Compute the expected outputs of WORKLOADS (default: all) and compare them with the goldens that are there.

    Exit code 1 where they differ and nothing was written.
    """
    current = session(catalogs, cache_dir)
    entries = [_find(current, name) for name in workloads or sorted(current.catalog.workloads)]
    graph, ends = plan_references(current.catalog, entries)
    done = run_graph(current, graph, limits=limits)
    stale = failed = 0
    for entry in entries:
        result = done[ends[entry.name]].result
        if not result.ok:
            failed += 1
            click.echo(f"{entry.name}: {result.outcome['reason']}\n{result.outcome.get('diagnostics', '')}", err=True)
            continue
        stale += _compare(current, entry, done[ends[entry.name]], write=write)
    if stale and not write:
        command = same_catalogs(["matrix", "golden", "update", "--write", *workloads], catalogs)
        click.echo(f"nothing was written; {command} would", err=True)
    return 1 if failed or (stale and not write) else 0


def _find(current: Session, name: str) -> Entry[Workload]:
    entries: Mapping[str, Entry[Workload]] = current.catalog.workloads
    if name not in entries:
        raise UsageError(f"there is no workload {name!r}{did_you_mean(name, entries)}")
    return entries[name]


def _compare(current: Session, entry: Entry[Workload], done: Done, *, write: bool) -> int:
    """Say how each golden of a workload stands, and write it where asked; returns how many differ."""
    stale = 0
    for name in entry.document.outputs:
        digest = done.result.outputs[f"expected-{name}"]
        path = entry.golden / f"{name}.npy"
        if path.is_file() and digest_file(path) == digest:
            click.echo(f"{entry.name}/{name}: as it is")
            continue
        data = Store(current.home.actions).read_blob(digest)
        if len(data) > _LARGEST:
            raise UsageError(
                f"{entry.name}/{name}: {len(data)} bytes are too many for a golden ({_LARGEST}); make it smaller"
            )
        stale += 1
        word = "differs" if path.is_file() else "is new"
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".npy.tmp")
            temporary.write_bytes(data)
            os.replace(temporary, path)
        click.echo(f"{entry.name}/{name}: {word}{', written' if write else ''} ({len(data)} bytes)")
    return stale
