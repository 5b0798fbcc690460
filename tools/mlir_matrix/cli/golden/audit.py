"""``matrix golden audit``: measure which planted miscompiles the tolerances catch."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mlir_matrix.actions.mutation.ir_mutations import LIBERTIES, MISTAKES
from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import cache_option, catalog_option, format_option, limits_options, session
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose, granted
from mlir_matrix.judge.audit import Found, fold, fold_failure, to_document
from mlir_matrix.judge.run import run_graph
from mlir_matrix.names import NameGlob, did_you_mean
from mlir_matrix.plan.audit import OUTPUTS, Auditor, Mutant, plan_sites
from mlir_matrix.plan.parameters import found_place
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.run_kernels import JIT
from mlir_matrix.report.progress import Counting
from mlir_matrix.session import Session
from mlir_matrix.text import counted

#: One cell per workload, on the plainest route: what is audited where nothing is named.
_DEFAULT = "mlir/linalg-loops/x86_64/*"
#: The machine's trouble, which says nothing about a tolerance.
_TROUBLE = frozenset({Outcome.INFRA_ERROR, Outcome.SKIPPED})


@click.command(
    "audit",
    cls=Verb,
    examples=(
        "matrix golden audit --seeds 50",
        "matrix golden audit 'mlir/linalg-loops/x86_64/{matmul,softmax}' --mutations 'narrow-*'",
        "matrix golden audit --format json",
    ),
)
@click.argument("tests", nargs=-1, metavar="[SUITE|GLOB|ID]...")
@click.option(
    "--seeds",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="Draw the inputs N times.",
)
@click.option("--mutations", "glob", default="*", metavar="GLOB", help="Plant only mutants whose name matches GLOB.")
@format_option("text", "json")
@catalog_option
@cache_option
@limits_options
def audit(
    tests: tuple[str, ...],
    seeds: int,
    glob: str,
    form: str,
    catalogs: tuple[Path, ...],
    cache_dir: Path | None,
    limits: Limits,
) -> int:
    """Plant mutants (miscompiles) in tests and report which of them the tolerances catch.

    Without arguments, audit every workload as linalg, through linalg-loops. A mutant matters if its error on some element exceeds
    the forward error bound of sound arithmetic. That bound is computed from the inputs, not from the tolerances.

    Exit code 1: fewer than 99 % of the mutants that matter are caught, or none matters; an allowed change (contraction,
    reassociation) is flagged; or an output that needs no program passes.
    """
    current = session(catalogs, cache_dir)
    chosen = _choose(current, tests or (_DEFAULT,))
    found = _audit(current, chosen, seeds, glob, limits)
    if form == "json":
        click.echo(json.dumps(to_document(found), indent=1))
    else:
        from mlir_matrix.report.audit_text import print_audit

        print_audit(found)
    return 0 if found.sound else 1


def _choose(current: Session, arguments: Sequence[str]) -> list[Test]:
    """The tests that can be audited. Raises UsageError where there are none."""
    chosen = granted(current.catalog, choose(current.catalog, arguments).tests())
    selected = [test for test in chosen if test.selected and not test.is_ir]
    targets = current.catalog.targets
    fit = [test for test in selected if targets[test.target].document.tool != JIT]
    if not fit:
        why = "their target compiles kernels as it calls them" if selected else "none of them runs"
        raise UsageError(f"{' '.join(arguments)}: nothing to audit, for {why}; try '{_DEFAULT}'")
    return fit


def _audit(current: Session, tests: Sequence[Test], seeds: int, glob: str, limits: Limits) -> Found:
    wanted, outputs = _wanted(glob)
    planner = Planner(current.catalog, current.tolerance, current.pins)
    store = ActionCache(current.home.actions)
    _say(f"{counted(len(tests), 'test')}, {counted(seeds, 'draw')}: looking where mistakes can be planted")
    finding = plan_sites(planner, tests)
    done = run_graph(current, planner.graph, limits=limits)
    sites = {test: _sites(done[action], store) for test, action in finding.items()}
    auditor = Auditor(current.catalog, planner, seeds=seeds, numpy=current.pins.reference("numpy"))
    mutants: list[Mutant] = []
    for test in tests:
        counts = {name: count for name, count in sites.get(test.id, {}).items() if name in wanted}
        mutants += auditor.mutants(test, counts, outputs)
    planted = sum(bool(mutant.planting) for mutant in mutants)
    _say(
        f"{counted(planted, 'mutant')} of the IR, {counted(len(outputs), 'mutation')} of outputs: planting and judging"
    )
    done = run_graph(current, planner.graph, limits=limits, listener=Counting(len(planner.graph.actions), _say).on)
    found = _read(current, seeds, mutants, done, store)
    if not (found.tallies or found.failed or any(mutant.mutation for mutant in mutants)):
        raise UsageError(
            f"--mutations {glob}: no place for these in {counted(len(tests), 'test')}, so that nothing was planted"
        )
    return found


def _say(text: str) -> None:
    print(f"audit: {text}", file=sys.stderr, flush=True)


def _sites(done: Done, store: ActionCache) -> dict[str, int]:
    """Where a test's IR can be mutated: nowhere where it does not even come to loops, which its own plant then says."""
    if not done.result.ok:
        return {}
    found: dict[str, int] = json.loads(store.read_blob(done.result.outputs["sites"]))
    return found


def _wanted(glob: str) -> tuple[frozenset[str], list[str]]:
    """The mutations of IR and of outputs that a person asked for. Raises UsageError where there are none."""
    known = (*MISTAKES, *LIBERTIES, *OUTPUTS)
    wanted = NameGlob(glob).select(known)
    if not wanted:
        raise UsageError(f"--mutations {glob}: there is no such mutation{did_you_mean(glob, known)}")
    return frozenset(wanted), [name for name in OUTPUTS if name in wanted]


def _read(
    current: Session, seeds: int, mutants: Sequence[Mutant], done: Mapping[str, Done], store: ActionCache
) -> Found:
    """What became of all plants."""
    found = Found(seeds=seeds)
    exact = _exact(current, [mutant.test for mutant in mutants])
    for mutant in mutants:
        if mutant.test.id in found.failed:
            # What is wrong without a mistake says nothing about mistakes.
            continue
        if mutant.planting and not (planting := done[mutant.planting].result).ok:
            raise InfrastructureError(f"{mutant.mutation} in {mutant.test.id}: {planting.outcome['reason']}")
        results = [done[report.judged].result for report in mutant.reports]
        bad = next((result.outcome for result in results if not result.ok), None)
        if bad is None:
            reports = [json.loads(store.read_blob(result.outputs["report"])) for result in results]
            fold(found, mutant, [_located(current, report) for report in reports], exact)
        elif bad["outcome"] in _TROUBLE:
            raise InfrastructureError(f"{mutant.test.id}: {bad['reason']}")
        elif all(done[report.ran].result.ok for report in mutant.reports if report.ran):
            found.failed[mutant.test.id] = f"what is right, and within which bounds, cannot be told: {bad['reason']}"
        else:
            fold_failure(found, mutant, bad)
    return found


def _located(current: Session, report: dict[str, Any]) -> dict[str, Any]:
    """A report in which layers are where a person finds them."""
    for entry in report["plants"]:
        for key in {"layer", "reason"} & entry.keys():
            entry[key] = found_place(current.catalog.roots, entry[key])
        entry["used"] = [(found_place(current.catalog.roots, layer), used) for layer, used in entry.get("used", ())]
    return report


def _exact(current: Session, tests: Iterable[Test]) -> frozenset[str]:
    """The layers that leave no room, by nature never used."""
    outputs = {(test, name) for test in tests for name in current.catalog.workloads[test.workload].document.outputs}
    bounds = [current.tolerance(test, name) for test, name in outputs]
    return frozenset(bound.location for bound in bounds if not (bound.atol or bound.rtol or bound.max_ulp))
