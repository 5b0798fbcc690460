"""``matrix golden update``: compute expected outputs with the references and compare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.golden_files import LARGEST_TREE, golden_name, is_sketched, other_name
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
from mlir_matrix.digest import digest_file
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.action_cache import Store
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.options import Limits
from mlir_matrix.files import write_file
from mlir_matrix.judge.run import run_graph
from mlir_matrix.names import did_you_mean
from mlir_matrix.plan.goldens import Update, plan_update
from mlir_matrix.plan.parameters import found_place
from mlir_matrix.report.golden_text import update_line
from mlir_matrix.session import Session
from mlir_matrix.tolerances.resolve import BOUNDS

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.golden import GoldenDifference, GoldenOutput, GoldenUpdate, GoldenWeak


@dataclass(frozen=True, kw_only=True)
class _Golden:
    """One output: the golden that it should have, and how that stands to the one that is there."""

    workload: str
    output: str
    path: Path
    #: The file that it would be in the other form, which does not stay beside it.
    other: Path
    sketch: bool
    state: Literal["same", "rounding", "new", "different"]
    data: bytes = b""
    difference: GoldenDifference | None = None
    #: The trivial outputs that pass, for each set of bounds that lets any pass; and why that is right, as the workload states.
    weak: tuple[GoldenWeak, ...] = ()
    weak_reason: str | None = None

    @property
    def stale(self) -> bool:
        """Whether something is to be written."""
        return self.state in ("new", "different")


@dataclass(kw_only=True)
class _Failure:
    """A workload whose reference gives nothing."""

    workload: str
    reason: str
    diagnostics: str = field(repr=False)


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
    goldens, failures = _gather(current, entries, updates, done)
    stale = [golden for golden in goldens if golden.stale]
    if write:
        _check_size(entries, stale)
        for golden in stale:
            _write(golden)
    for failure in failures:
        click.echo(f"{failure.workload}: {failure.reason}\n{failure.diagnostics}", err=True)
    if form == "json":
        click.echo(json.dumps(_document(goldens, failures, write=write), indent=1))
    else:
        for golden in goldens:
            click.echo(update_line(_row(golden, write=write)))
    if stale and not write:
        command = same_catalogs(["matrix", "golden", "update", "--write", *workloads], catalogs)
        click.echo(f"nothing was written; {command} would", err=True)
    return 1 if failures or (stale and not write) else 0


def _find(current: Session, name: str) -> Entry[Workload]:
    entries: Mapping[str, Entry[Workload]] = current.catalog.workloads
    if name not in entries:
        raise UsageError(f"there is no workload {name!r}{did_you_mean(name, entries)}")
    return entries[name]


def _gather(
    current: Session, entries: Iterable[Entry[Workload]], updates: Mapping[str, Update], done: Mapping[str, Done]
) -> tuple[list[_Golden], list[_Failure]]:
    store = Store(current.home.actions)
    goldens: list[_Golden] = []
    failures: list[_Failure] = []
    for entry in entries:
        update = updates[entry.name]
        result = done[update.differences].result
        told = done[update.weak].result
        if not (result.ok and told.ok):
            outcome = told.outcome if result.ok else result.outcome
            failures.append(
                _Failure(workload=entry.name, reason=outcome["reason"], diagnostics=outcome.get("diagnostics", ""))
            )
            continue
        differences = json.loads(store.read_blob(result.outputs["differences"]))
        weak = _weak(current, update, store, done[update.weak])
        for name, made in update.made.items():
            digest = done[made.action].result.outputs[made.output]
            golden = _golden(entry, name, digest, store, differences.get(name))
            goldens.append(replace(golden, weak=weak[name], weak_reason=entry.document.outputs[name].weak))
    return goldens, failures


def _weak(current: Session, update: Update, store: Store, done: Done) -> dict[str, tuple[GoldenWeak, ...]]:
    """What passes though no program is needed for it, by output; the action that says so is done."""
    passing = json.loads(store.read_blob(done.result.outputs["weak"]))["outputs"]
    found: dict[str, list[GoldenWeak]] = {name: [] for name in update.made}
    for spec, names in zip(update.told, passing, strict=True):
        values: Mapping[str, object] = spec
        bounds = {key: str(values[f"{key}_text"]) for key in BOUNDS if key in values and spec["compare"] != "exact"}
        if names:
            layer = found_place(current.catalog.roots, spec["layer"])
            found[spec["name"]].append({"passes": names, "layer": layer, "bounds": bounds})
    return {name: tuple(entries) for name, entries in found.items()}


def _golden(
    entry: Entry[Workload], name: str, digest: str, store: Store, difference: GoldenDifference | None
) -> _Golden:
    document = entry.document
    path = entry.golden / golden_name(document, name)
    there = path.is_file()
    same = there and digest_file(path) == digest
    rounding = difference and difference.get("rounding")
    # A share of what rounding explains; a number beyond all is a word.
    rounded = isinstance(rounding, float) and rounding <= 1
    return _Golden(
        workload=entry.name,
        output=name,
        path=path,
        other=entry.golden / other_name(document, name),
        sketch=is_sketched(document, document.outputs[name]),
        state="same" if same else "rounding" if rounded else "different" if there else "new",
        data=b"" if same or rounded else store.read_blob(digest),
        difference=None if same or not there else difference,
    )


def _check_size(entries: Iterable[Entry[Workload]], stale: Iterable[_Golden]) -> None:
    """Refuse to write what makes a tree of goldens too large for a repository, before any of it is written."""
    written = list(stale)
    for tree in dict.fromkeys(entry.golden.parent for entry in entries):
        mine = [golden for golden in written if golden.path.parent.parent == tree]
        gone = {path for golden in mine for path in (golden.path, golden.other)}
        kept = sum(path.stat().st_size for path in tree.glob("*/*") if path.is_file() and path not in gone)
        total = kept + sum(len(golden.data) for golden in mine)
        if mine and total > LARGEST_TREE:
            largest = max(mine, key=lambda golden: len(golden.data))
            raise UsageError(
                f"{tree}: with these goldens it would have {total} bytes, more than {LARGEST_TREE}; nothing was written; the "
                f"largest is {largest.workload}/{largest.output} ({len(largest.data)} bytes): make it smaller"
            )


def _write(golden: _Golden) -> None:
    """Whole or not at all, and in one form."""
    write_file(golden.path, golden.data)
    golden.other.unlink(missing_ok=True)


def _row(golden: _Golden, *, write: bool) -> GoldenOutput:
    return {
        "workload": golden.workload,
        "output": golden.output,
        "state": golden.state,
        "file": golden.path.name,
        "sketch": golden.sketch,
        "bytes": len(golden.data) if golden.stale else golden.path.stat().st_size,
        "written": write and golden.stale,
        "difference": golden.difference,
        "weak": list(golden.weak),
        "weak_reason": golden.weak_reason,
    }


def _document(goldens: Iterable[_Golden], failures: Iterable[_Failure], *, write: bool) -> GoldenUpdate:
    return {
        "schema": "mlir-matrix/golden-update/v1",
        "outputs": [_row(golden, write=write) for golden in goldens],
        "failures": [{"workload": failure.workload, "reason": failure.reason} for failure in failures],
    }
