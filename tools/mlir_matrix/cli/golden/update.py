"""``matrix golden update``: compute expected outputs with the references and compare."""

from __future__ import annotations

import click

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import select_known
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, used_pins
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.judge.goldens import check_size, gather, stale_records, to_document
from mlir_matrix.judge.goldens import write as write_golden
from mlir_matrix.judge.run import run_graph
from mlir_matrix.plan.references import plan_update
from mlir_matrix.plan.request import Limits
from mlir_matrix.report.golden_text import update_line


@verb(
    "update",
    "matrix golden update",
    "matrix golden update --write 'mlp*'",
    "matrix golden update softmax --format json",
)
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD|GLOB]...")
@click.option("--write", is_flag=True, help="Write goldens that differ. Without this option, nothing is written.")
@options.output_format("text", "json")
@options.session(*options.releases, *options.builds, options.cache, stale_goldens=True)
@options.limits_without_jobs
def update_command(workloads: tuple[str, ...], write: bool, form: str, current: Session, limits: Limits) -> int:
    """Compute expected outputs again and compare them with the goldens on disk.

    Without arguments, do this for all workloads. The report counts the elements that differ and gives the largest difference. A
    golden that differs only by rounding of the reference is kept. An output of more than 1 MiB is stored as a sketch. Workloads
    with ``golden: computed`` have no golden. The file made-from.sha256 beside goldens records their reference, inputs and outputs.

    Exit code 1: goldens or records differ, and nothing was written. 2: a reference fails.
    """
    known = current.catalog.workloads
    names = select_known("workload", workloads, known) or sorted(known)
    for name in workloads:
        if why := current.catalog.over.get(("workloads", name)):
            raise CatalogError(why)
        if name in known and known[name].document.golden == "computed":
            raise UsageError(f"{name}: its golden is computed in each run (golden: computed); no file is kept")
    over = {name for _, name in current.catalog.over}
    entries = [known[name] for name in names if known[name].document.golden == "kept" and name not in over]
    records = stale_records(entries)
    graph, updates = plan_update(current.catalog, entries, current.pins.reference("numpy"))
    used_pins(current, graph)
    goldens, failures = gather(current, entries, graph, updates, run_graph(current, graph, limits=limits))
    stale = [golden for golden in goldens if golden.stale]
    for failure in failures:
        records.pop(failure.workload, None)
        # The reason of a broken reference has its line.
        note(failure.reason if failure.is_broken else f"{failure.reason}\n{failure.diagnostics}")
    if write:
        check_size(entries, stale)
        for golden in stale:
            write_golden(golden)
        for path, text in records.values():
            write_text(path, text)
    document = to_document(goldens, failures, records, write=write)
    show(form, document, map(update_line, document["outputs"]))
    if (stale or records) and not write:
        command = options.same_catalogs(["matrix", "golden", "update", "--write", *workloads], current)
        note(f"nothing was written; {command} would")
    if any(failure.is_broken for failure in failures):
        return CatalogError.exit_code
    return 1 if failures or ((stale or records) and not write) else 0
