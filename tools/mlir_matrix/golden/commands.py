"""``matrix golden`` and ``matrix inputs``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import CatalogError, InfrastructureError, UsageError
from mlir_matrix.base.files import write_file, write_output, write_text
from mlir_matrix.base.names import check_known, is_glob, select_known
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import FLOATS, Workload
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, show_each, used_pins, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, LostBlob
from mlir_matrix.execute.lookup import cached_result
from mlir_matrix.execute.progress import Counting
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.costs import with_costs
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import find_test, identifiers, whole_catalog
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.golden.audit import audit, audit_document
from mlir_matrix.golden.calibration import Calibrator
from mlir_matrix.golden.costs import compare_costs, cost_update_document, edited_files
from mlir_matrix.golden.explain import declared, explained, plan_bound_sizes, plan_magnitudes, tolerance_lines
from mlir_matrix.golden.gumbel import LEAST
from mlir_matrix.golden.inputs import make_inputs
from mlir_matrix.golden.report import audit_lines, calibration_lines, cost_update_line, update_line
from mlir_matrix.golden.update import check_size, gather, plan_update, stale_records, update_document
from mlir_matrix.golden.update import write as write_golden
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.parameters import bounds_of
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.request import LOCAL, Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.results.run_plan import run_all

if TYPE_CHECKING:
    from mlir_matrix.compare.documents import Verdict
    from mlir_matrix.golden.documents import GoldenExplanation


@verb(
    "update",
    "matrix golden update",
    "matrix golden update --write 'mlp*'",
    "matrix golden update softmax --format json",
    "matrix golden update --cost --write '*/linalg-loops/x86_64-v3/matmul'",
)
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD|GLOB]...")
@click.option("--write", is_flag=True, help="Write goldens that differ. Without this option, nothing is written.")
@click.option(
    "--cost", "costs", is_flag=True, help="Compare exact costs: run tests, which suites, globs and identifiers name."
)
@options.output_format("text", "json")
@options.session(*options.releases, *options.builds, options.cache, stale_goldens=True)
@options.limits_without_jobs
def update_command(
    workloads: tuple[str, ...], write: bool, costs: bool, form: str, current: Session, limits: Limits
) -> int:
    """Compute expected outputs again and compare them with the goldens on disk.

    Without arguments, do this for all workloads of the added catalogs or, without any, of this repository. The report counts the
    elements that differ and gives the largest difference. A golden that differs only by rounding of the reference is kept. An
    output of more than 1 MiB is stored as a sketch. Workloads with ``golden: computed`` have no golden. The file made-from.sha256
    beside goldens records their reference, inputs and outputs.

    With --cost, run tests and compare their exact costs with golden/WORKLOAD/costs.yaml. Costs within their bounds are kept.

    Exit code 1: goldens or records differ, and nothing was written. 2: a reference fails.
    """
    if costs:
        return _update_costs(workloads, write, form, current, limits)
    entries = _with_goldens(current.catalog, workloads)
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
    document = update_document(goldens, failures, records, write=write)
    show(form, document, map(update_line, document["outputs"]))
    if (stale or records) and not write:
        command = options.same_catalogs(["matrix", "golden", "update", "--write", *workloads], current)
        note(f"nothing was written; {command} would")
    if any(failure.is_broken for failure in failures):
        return CatalogError.exit_code
    return 1 if failures or ((stale or records) and not write) else 0


def _with_goldens(catalog: Catalog, names: Sequence[str]) -> list[Entry[Workload]]:
    """Return the workloads with goldens that are kept: the named ones, else those of the added catalogs or this repository."""
    known = catalog.workloads
    own = catalog.roots[1:] or catalog.roots
    selected = select_known("workload", names, known) or sorted(name for name in known if known[name].root in own)
    for name in names:
        if why := catalog.over.get(("workloads", name)):
            raise CatalogError(why)
        if name in known and known[name].document.golden == "computed":
            raise UsageError(f"{name}: its golden is computed in each run (golden: computed); no file is kept")
    over = {name for _, name in catalog.over}
    return [known[name] for name in selected if known[name].document.golden == "kept" and name not in over]


def _update_costs(names: tuple[str, ...], write: bool, form: str, current: Session, limits: Limits) -> int:
    """Compare exact costs of tests with their goldens, and write those that differ by more than their bounds."""
    if not names:
        raise UsageError("--cost: name the tests, by identifiers, globs or suites")
    plan = plan_tests(current, with_costs(select_tests(current, names)))
    used_pins(current, plan.graph)
    run = run_all(current, plan, LOCAL, limits, quiet=False)
    cells, failures = compare_costs(current.catalog, plan.tests, {result.id: result for result in run.results})
    files = edited_files(cells)
    if write:
        for file, text in files.items():
            write_text(file, text)
    document = cost_update_document(cells, failures, written=write)
    show(form, document, map(cost_update_line, document["tests"]))
    for failure in failures:
        note(f"{failure['id']}: no goldens of its costs: {failure['reason']}")
    if not cells and not failures:
        raise UsageError("none of these tests can run here")
    if files and not write:
        command = options.same_catalogs(["matrix", "golden", "update", "--cost", "--write", *names], current)
        note(f"nothing was written; {command} would")
    return 1 if failures or (files and not write) else 0


@verb(
    "calibrate",
    "matrix golden calibrate '*/linalg-*/x86_64/matmul'",
    "matrix golden calibrate smoke --seeds 50 --false-alarm 1e-9 --patch tolerances.patch",
)
@options.tests
@click.option(
    "--seeds",
    type=click.IntRange(LEAST + 2, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Draw the inputs of each test N times.",
)
@click.option(
    "--false-alarm",
    "wanted",
    type=click.FloatRange(1e-15, 0.1),
    default=1e-6,
    show_default=True,
    metavar="RATE",
    help="Allow correct runs to fail at this rate.",
)
@click.option(
    "--patch",
    "file",
    type=options.NewFile(),
    metavar="FILE",
    help="Write the proposals to FILE, for git apply. No tolerance is changed.",
)
@options.session(*options.releases, *options.builds, options.cache)
@options.limits
@options.output_format("text", "json")
def calibrate_command(
    tests: tuple[str, ...], seeds: int, wanted: float, file: Path | None, current: Session, limits: Limits, form: str
) -> int:
    """Run tests on many draws of their inputs and propose tolerances.

    Without arguments, use the suite smoke. Each run is compared with the reference. For each tolerance layer, a Gumbel
    distribution is fitted to the largest errors of the worst test. The proposed bounds keep the rate of false alarms below
    --false-alarm.

    Exit code 1: a test failed.
    """
    calibrator = Calibrator(current, select_tests(current, tests), seeds)
    warn(f"{counted(len(calibrator.tests), 'test')}, {counted(len(calibrator.graph.actions), 'action')}")
    document = calibrator.run(limits, wanted=wanted, pins=used_pins(current, calibrator.graph))
    if file is not None:
        write_output(file, document["patch"].encode())
    show(form, document, calibration_lines(document), markup=True)
    proposals = sum(bool(layer["proposed"]) for layer in document["layers"])
    if proposals and file is None and form == "text":
        warn(f"{counted(proposals, 'proposal')}; --patch FILE writes them as a patch")
    if document["failed"]:
        return 1
    reasons = [each["reason"] for each in document["not_run"]]
    if any(reason.startswith(Outcome.INFRA_ERROR) for reason in reasons):
        raise InfrastructureError(reasons[0])
    if not document["layers"]:
        raise UsageError(f"no test ran: {reasons[0] if reasons else 'none was selected'}")
    return 0


@verb(
    "explain",
    "matrix golden explain pytorch/linalg-loops/x86_64/matmul",
    "matrix golden explain 'mlir/math-*/x86_64/tanh' --format json",
)
@options.named_tests
@options.session(*options.releases, options.cache)
@options.limits_without_jobs
@options.output_format("text", "json")
def explain_command(tests: tuple[str, ...], current: Session, limits: Limits, form: str) -> None:
    """Show the tolerance layers that apply to the outputs of tests, and the winning bounds in numbers.

    This runs nothing except a check of the goldens, and the preparation of a program in a foreign form. If the last verdict is
    cached, show its share of the bounds. A pattern selects supported tests of the whole catalog. JSON is a list, except for one ID.
    """
    found = [_explained(current, test, limits) for test in _find(current, tests)]
    show_each(form, tests, found, map(tolerance_lines, found))


def _explained(current: Session, test: Test, limits: Limits) -> GoldenExplanation:
    tolerances = ToleranceResolver(current.catalog)
    document = current.catalog.workloads[test.workload].document
    (magnitudes, scaled), oracle = _magnitudes(current, test, limits), None
    if document.source:
        document = declared(document, magnitudes)
        oracle = current.catalog.sources[str(document.source)].document.oracle
    return explained(
        test.id,
        document,
        tolerances.numerics.stated(test.workload, test.target, test.framework, test.pipeline),
        # Tolerances of outputs that only the program knows are resolved by their dtype.
        {name: tolerances.of(test, each.dtype if document.source else name) for name, each in document.outputs.items()},
        magnitudes=magnitudes,
        last=_last_verdict(current, test),
        oracle=oracle,
        scaled=scaled,
    )


def _find(current: Session, arguments: Sequence[str]) -> list[Test]:
    expansion = whole_catalog(current.catalog, arguments, pins=current.pins)
    found = [find_test(expansion, name) for name in identifiers([expansion], arguments)]
    if any(map(is_glob, arguments)):
        found = [test for test in found if test.selected and test.executes]
    for test in found:
        if test.without_outputs:
            raise UsageError(f"{test.without_outputs}, and no tolerance applies")
    if not found:
        raise UsageError(f"{' '.join(arguments)}: no tolerance applies to any of these tests")
    return found


def _magnitudes(current: Session, test: Test, limits: Limits) -> tuple[Mapping[str, Mapping[str, object]], str]:
    """Return the median and the largest element of each golden, none if they cannot be read, and how a program was scaled."""
    workload, bounds = current.catalog.workloads[test.workload], None
    tolerances = ToleranceResolver(current.catalog)
    numpy = current.pins.reference("numpy")
    if is_prepared(current.catalog, workload):
        bounds = {dtype: bounds_of(current.catalog, tolerances.of(test, dtype)) for dtype in sorted(FLOATS)}
    pins = current.pins.override(test.pins) if test.pins else current.pins
    graph, action = plan_magnitudes(current.catalog, workload, numpy, pins=pins, bounds=bounds)
    what = "goldens are not measured" if bounds is None else f"{test.id}: the program cannot be prepared"
    found, scaled = _measured(current, graph, action, limits, what)
    derived = [] if bounds is not None else tolerances.derived_outputs(test)
    if derived:
        graph, action = plan_bound_sizes(current.catalog, workload, derived, numpy)
        own, _ = _measured(current, graph, action, limits, "bounds of elements are not measured")
        for name, sizes in own.items():
            found[name] = {**found.get(name, {}), "bound": sizes}
    return found, scaled


def _measured(
    current: Session, graph: Graph, action: str, limits: Limits, what: str
) -> tuple[dict[str, dict[str, object]], str]:
    """Return the sizes that an action measures, none if it fails, and how a program was scaled. ``what`` begins the warning."""
    results = run_graph(current, graph, limits=limits)
    scaled = "".join(str(each.result.metrics.get("scaled", "")) for each in results.values())
    done = results[action].result
    if not done.ok:
        warn(f"{what}: {done.outcome['reason']}")
        return {}, scaled
    store = ActionCache(current.home.actions)
    return cast("dict[str, dict[str, object]]", json.loads(store.read_blob(done.outputs["magnitudes"]))), scaled


def _last_verdict(current: Session, test: Test) -> Verdict | None:
    """Return the cached verdict of a test."""
    if test.outcome is not None:
        return None
    plan = plan_tests(current, [test])
    environments = current.environments(action.environment for action in plan.graph.actions.values())
    store = ActionCache(current.home.actions)
    result = cached_result(
        plan.graph, plan.verdicts[test.id], roots=current.catalog.roots, environments=environments, store=store
    )
    if result is None or not result.ok:
        return None
    try:
        return cast("Verdict", json.loads(store.read_blob(result.outputs["verdict"])))
    except LostBlob:
        return None


#: One cell per workload, on the simplest route.
_DEFAULT = "mlir/linalg-loops/x86_64/*"


@verb(
    "audit",
    "matrix golden audit --seeds 50",
    "matrix golden audit 'mlir/linalg-loops/x86_64/{matmul,softmax}' --mutations 'narrow-*'",
    "matrix golden audit --format json",
)
@options.tests
@click.option(
    "--seeds",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="Draw the inputs N times.",
)
@click.option("--mutations", "glob", default="*", metavar="GLOB", help="Plant only mutants whose name matches GLOB.")
@options.output_format("text", "json")
@options.session(*options.releases, *options.builds, options.cache)
@options.limits
def audit_command(tests: tuple[str, ...], seeds: int, glob: str, form: str, current: Session, limits: Limits) -> int:
    """Plant mutants (miscompiles) in tests and report which of them the tolerances catch.

    Without arguments, audit every workload as linalg, through linalg-loops. A mutant matters if its error on some element exceeds
    the forward error bound of sound arithmetic. That bound is computed from the inputs, not from the tolerances. Of a program that
    others wrote, a mutant matters if it exceeds atol and rtol of the winning layer and the unchanged program does not.

    Exit code 1: fewer than 99 % of the mutants that matter are caught, or none matters; an allowed change (contraction,
    reassociation) is flagged; or an output that needs no program passes. 2: a reference fails, or its bound cannot be derived.
    """
    names = tests or (_DEFAULT,)
    chosen = select_tests(current, names)
    runnable = [test for test in chosen if test.selected and test.executes]
    if not runnable:
        why = next((test.without_outputs for test in chosen if test.without_outputs), "none of these tests runs")
        raise UsageError(f"{' '.join(names)}: nothing to audit: {why}; try '{_DEFAULT}'")
    found = audit(
        current,
        runnable,
        seeds=seeds,
        glob=glob,
        limits=limits,
        tell=_tell,
        progress=lambda total: Counting(total, _tell).on,
    )
    show(form, audit_document(found), audit_lines(found), markup=True)
    if found.is_broken:
        return CatalogError.exit_code
    return 0 if found.sound else 1


def _tell(text: str) -> None:
    note(f"audit: {text}")


@verb("inputs", "matrix inputs mlp --out mlp-inputs", "matrix inputs softmax --draw 3 --out softmax-3 --format json")
@click.argument("workload")
@click.option(
    "--draw",
    type=click.IntRange(0, 1_000_000),
    default=0,
    show_default=True,
    metavar="N",
    help="Write draw N of the inputs; tests run with draw 0.",
)
@click.option(
    "--out", "folder", type=options.Folder(), required=True, metavar="DIR", help="Write into DIR, new or empty."
)
@options.output_format("text", "json")
@options.session(*options.releases, options.cache)
@options.limits_without_jobs
def inputs_command(workload: str, draw: int, folder: Path, form: str, current: Session, limits: Limits) -> None:
    """Write each input of a workload to DIR/NAME.npy, and their names, shapes and dtypes to DIR/inputs.json.

    bf16 is written as its bits, in 16-bit integers. Of a program in a foreign form, such as a member of a corpus, also the
    prepared program is written.
    """
    if why := current.catalog.over.get(("workloads", workload)):
        raise CatalogError(why)
    check_known("workload", [workload], current.catalog.workloads)
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"--out {folder}: exists and is no empty folder; nothing was written")
    files, document = make_inputs(current, current.catalog.workloads[workload], draw, limits)
    # Last, so that a folder with it is complete.
    files["inputs.json"] = (json.dumps(document, indent=1) + "\n").encode()
    for name, data in files.items():
        write_file(folder / name, data)
    shapes = ["x".join(map(str, each["shape"])) for each in document["inputs"]]
    rows = zip(document["inputs"], shapes, strict=True)
    lines = [f"{folder / each['file']}  {each['dtype']}  {shape}".rstrip() for each, shape in rows]
    show(form, document, lines or [f"{workload} has no inputs"])
