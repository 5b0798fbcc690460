"""Plan the actions that compute goldens, compare them with the stored ones, and write them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import (
    DifferenceParams,
    JudgedOutput,
    JudgeParams,
    SketchOutput,
    SketchParams,
)
from mlir_matrix.base.digest import digest_file
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import write_file
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.golden_files import (
    LARGEST_TREE,
    RECORD,
    SKETCH,
    golden_name,
    is_sketched,
    other_name,
    record_of,
)
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.expand.numerics import Numerics
from mlir_matrix.expand.tolerances import BOUNDS, resolve_everywhere
from mlir_matrix.plan.graph import Graph, Input, Produced
from mlir_matrix.plan.parameters import file_of, found_place, judged, like_outputs, signature, sizes
from mlir_matrix.plan.references import add_reference
from mlir_matrix.results.result_maker import reference_failure

if TYPE_CHECKING:
    from mlir_matrix.golden.documents import GoldenDifference, GoldenOutput, GoldenState, GoldenUpdate, GoldenWeak


@dataclass(frozen=True, kw_only=True)
class Golden:
    """The new golden of one output, and its difference from the one on disk."""

    workload: str
    output: str
    path: Path
    #: The file of the other form (sketch or array), which is removed.
    other: Path
    sketch: bool
    state: GoldenState
    data: bytes = b""
    difference: GoldenDifference | None = None
    #: The trivial outputs that pass, for each set of bounds; and the reason that the workload states for it.
    weak: tuple[GoldenWeak, ...] = ()
    weak_reason: str | None = None

    @property
    def stale(self) -> bool:
        return self.state not in ("same", "rounding")

    def to_json(self, *, written: bool, recorded: bool) -> GoldenOutput:
        return {
            "workload": self.workload,
            "output": self.output,
            "state": self.state,
            "file": self.path.name,
            "sketch": self.sketch,
            "bytes": len(self.data) if self.stale else self.path.stat().st_size,
            "written": written,
            "recorded": recorded,
            "difference": self.difference,
            "weak": list(self.weak),
            "weak_reason": self.weak_reason,
        }


def stale_records(entries: Iterable[Entry[Workload]]) -> dict[str, tuple[Path, str]]:
    """Return the file and the text of the records to write, by workload.

    Call this before computing goldens. Then the next load notices an edit that is made meanwhile.
    """
    wanted = {entry.name: (entry.golden / RECORD, record_of(entry.document, entry.reference)) for entry in entries}
    return {name: (path, text) for name, (path, text) in wanted.items() if not _holds(path, text)}


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


@dataclass(kw_only=True)
class ReferenceFailure:
    """A workload whose reference failed."""

    workload: str
    reason: str
    #: Whether the reference is wrong, and not the machine.
    is_broken: bool
    diagnostics: str = field(repr=False)


def gather(
    current: Session,
    entries: Iterable[Entry[Workload]],
    graph: Graph,
    updates: Mapping[str, Update],
    done: Mapping[str, Done],
) -> tuple[list[Golden], list[ReferenceFailure]]:
    store = ActionCache(current.home.actions)
    goldens: list[Golden] = []
    failures: list[ReferenceFailure] = []
    for entry in entries:
        update = updates[entry.name]
        result = done[update.differences].result
        weak_result = done[update.weak].result
        if not (result.ok and weak_result.ok):
            outcome = weak_result.outcome if result.ok else result.outcome
            last = update.weak if result.ok else update.differences
            broken = reference_failure(graph, done, last, current.catalog.roots)
            reason = broken or f"{entry.source.position()}: {outcome['reason']}"
            diagnostics = outcome.get("diagnostics", "")
            failures.append(
                ReferenceFailure(workload=entry.name, reason=reason, is_broken=bool(broken), diagnostics=diagnostics)
            )
            continue
        differences = json.loads(store.read_blob(result.outputs["differences"]))
        weak = _weak(current, update, store, done[update.weak])
        for name, made in update.made.items():
            digest = done[made.action].result.outputs[made.output]
            golden = _golden(entry, name, digest, store, differences.get(name))
            goldens.append(replace(golden, weak=weak[name], weak_reason=entry.document.outputs[name].weak))
    return goldens, failures


def _weak(current: Session, update: Update, store: ActionCache, done: Done) -> dict[str, tuple[GoldenWeak, ...]]:
    """Return by output the trivial outputs that pass."""
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
    entry: Entry[Workload], name: str, digest: str, store: ActionCache, difference: GoldenDifference | None
) -> Golden:
    document = entry.document
    path = entry.golden / golden_name(document, name)
    other = entry.golden / other_name(document, name)
    there = path.is_file()
    same = there and digest_file(path) == digest
    rounding = difference and difference.get("rounding")
    # A share of the rounding error; infinity is a string.
    rounded = isinstance(rounding, float) and rounding <= 1
    state: GoldenState = "different" if there else "new"
    if there and other.exists():
        state = "both-forms"
    elif same:
        state = "same"
    elif rounded:
        state = "rounding"
    return Golden(
        workload=entry.name,
        output=name,
        path=path,
        other=other,
        sketch=is_sketched(document, document.outputs[name]),
        state=state,
        data=b"" if state in ("same", "rounding") else store.read_blob(digest),
        difference=None if same or not there else difference,
    )


def check_size(entries: Iterable[Entry[Workload]], stale: Iterable[Golden]) -> None:
    """Raise UsageError if the new goldens make a tree too large for a repository."""
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


def write(golden: Golden) -> None:
    """Write a golden atomically, and remove its other form."""
    write_file(golden.path, golden.data)
    golden.other.unlink(missing_ok=True)


def update_document(
    goldens: Sequence[Golden], failures: Sequence[ReferenceFailure], records: Collection[str], *, write: bool
) -> GoldenUpdate:
    """Return the document; ``records``: the workloads whose records were out of date."""
    stale = sum(each.stale for each in goldens)
    return {
        "schema": "mlir-matrix/golden-update/v1",
        "summary": {
            "outputs": len(goldens),
            "stale": stale,
            "unrecorded": len(records),
            "failures": len(failures),
        },
        "outputs": [
            golden.to_json(written=write and golden.stale, recorded=golden.workload not in records)
            for golden in goldens
        ],
        "failures": [{"workload": failure.workload, "reason": failure.reason} for failure in failures],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The actions that compute a workload's goldens, by output, and the action that compares them with the stored ones."""

    made: Mapping[str, Produced]
    differences: str
    #: The action that finds trivial outputs that pass, and its specifications: each output under each set of bounds.
    weak: str
    told: list[JudgedOutput]


def plan_update(
    catalog: Catalog, workloads: Iterable[Entry[Workload]], environment: str = "numpy"
) -> tuple[Graph, dict[str, Update]]:
    """Return the graph, and the actions of each workload in it."""
    graph, numerics = Graph(), Numerics(catalog)
    return graph, {entry.name: _add_update(graph, catalog, numerics, entry, environment) for entry in workloads}


def _add_update(
    graph: Graph, catalog: Catalog, numerics: Numerics, workload: Entry[Workload], environment: str
) -> Update:
    document = workload.document
    reference = add_reference(graph, catalog, workload, environment)
    made = {name: Produced(reference, Role.EXPECTED.of(name)) for name in document.outputs}
    sketched = {name: output for name, output in document.outputs.items() if is_sketched(document, output)}
    if sketched:
        action = graph.add(
            f"sketch/{workload.name}",
            tool="sketch",
            stage=Stage.RUN,
            environment=environment,
            params=SketchParams(
                outputs=[
                    SketchOutput(
                        name=name, dtype=each.dtype, shape=sizes(each.shape, document.dims), compare=each.compare
                    )
                    for name, each in sketched.items()
                ]
            ),
            inputs={Role.EXPECTED.of(name): made[name] for name in sketched},
            outputs={Role.SKETCH.of(name): f"{name}{SKETCH}" for name in sketched},
        )
        made |= {name: Produced(action, Role.SKETCH.of(name)) for name in sketched}
    # With the reference's source and inputs, to bound the rounding of the reference itself.
    files: dict[str, Input] = dict(graph.actions[reference].inputs)
    declared = signature(document)
    for name in document.outputs:
        path = workload.golden / golden_name(document, name)
        files[Role.NEW.of(name)] = made[name]
        files[Role.OLD.of(name)] = file_of(catalog, workload.root, path, optional=True)
    differences = graph.add(
        f"golden-difference/{workload.name}",
        tool="golden_difference",
        stage=Stage.RUN,
        environment=environment,
        params=DifferenceParams(
            inputs=declared["inputs"],
            outputs=[
                {**spec, "sketch": spec["name"] in sketched, "compare": document.outputs[spec["name"]].compare}
                for spec in declared["outputs"]
            ],
        ),
        inputs=files,
        outputs={"differences": "differences.json"},
    )
    told = [
        spec
        for bounds in resolve_everywhere(catalog, numerics, workload.name)
        for spec in judged(catalog, document, bounds)
    ]
    weak = graph.add(
        f"weak/{workload.name}",
        tool="weak",
        stage=Stage.JUDGE,
        environment=environment,
        params=JudgeParams(outputs=told),
        inputs={
            **{(Role.SKETCH if name in sketched else Role.EXPECTED).of(name): file for name, file in made.items()},
            **like_outputs(graph, workload, environment),
        },
        outputs={"weak": "weak.json"},
    )
    return Update(made=made, differences=differences, weak=weak, told=told)
