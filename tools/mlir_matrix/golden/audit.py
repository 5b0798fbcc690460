"""Audit tolerances by mutation tests: plant miscompiles, and count those that matter and those that are caught.

``planted`` counts every mutation at every site in every draw: those that ``mattered`` and those that are ``not_mattering``. Those
that mattered are either ``caught`` or ``missed``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from mlir_matrix.actions.mutation.ir_mutations import LIBERTIES, MISTAKES
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.names import NameGlob, did_you_mean
from mlir_matrix.base.text import counted
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.golden.mutants import OUTPUTS, Auditor, Mutant, plan_sites
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.parameters import found_place
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.result_maker import reference_failure

if TYPE_CHECKING:
    from mlir_matrix.golden.documents import (
        Audit,
        AuditBeyond,
        AuditCounts,
        AuditFlagged,
        AuditMiss,
        AuditMutation,
        AuditRun,
        AuditSummary,
        AuditUse,
    )

#: The share of mutants that tolerances must catch, among those that matter.
ENOUGH = 0.99
#: A tolerance is slack if it is this many times as large as any error.
LOOSE = 8.0
#: Name of the run without a mutation.
UNMUTATED = "unmutated"
#: Failures of a kernel that was called.
_RAN = (Outcome.RUN_FAILED, Outcome.CRASHED, Outcome.TIMED_OUT)
#: Failures of the machine, which say nothing about a tolerance.
_TROUBLE = (Outcome.INFRA_ERROR, Outcome.SKIPPED)
_COUNTS = ("planted", "mattered", "caught", "by_runner")
_MISS = ("output", "index", "error", "bound", "atol", "rtol", "layer", "draw")


@dataclass(kw_only=True)
class MutationTally:
    """The results of one mutation in one test; ``by_runner`` counts mutants that were caught because they failed to run."""

    test: str
    workload: str
    mutation: str
    sites: set[tuple[int, str]] = field(default_factory=set)
    planted: int = 0
    mattered: int = 0
    caught: int = 0
    by_runner: int = 0
    #: By the layer that won: how many mattered, how many of those were caught.
    layers: dict[str, list[int]] = field(default_factory=dict)

    def to_json(self) -> AuditMutation:
        return {
            "mutation": self.mutation,
            "sites": len(self.sites),
            **counts([self]),
            "layers": [
                {"layer": layer, "mattered": mattered, "caught": caught}
                for layer, (mattered, caught) in sorted(self.layers.items())
            ],
        }


def counts(tallies: Iterable[MutationTally]) -> AuditCounts:
    """Return the totals of some tallies."""
    all_of = list(tallies)
    planted, mattered, caught, by_runner = (sum(getattr(tally, name) for tally in all_of) for name in _COUNTS)
    return {
        "planted": planted,
        "mattered": mattered,
        "not_mattering": planted - mattered,
        "caught": caught,
        "missed": mattered - caught,
        "by_runner": by_runner,
    }


@dataclass(kw_only=True)
class AuditFindings:
    """The results of an audit. Entries of the lists are ready for JSON."""

    seeds: int
    tallies: dict[tuple[str, str], MutationTally] = field(default_factory=dict)
    draws: dict[str, int] = field(default_factory=dict)
    allowed: int = 0
    misses: list[AuditMiss] = field(default_factory=list)
    #: Allowed changes that did not pass.
    flagged: list[AuditFlagged] = field(default_factory=list)
    #: Allowed changes whose error exceeds the forward error bound: the bound or the program is wrong.
    beyond: list[AuditBeyond] = field(default_factory=list)
    #: Trivial outputs that pass: test and output to draws.
    weak: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    #: By layer: the largest share of its bound that an allowed change used; the tests in which the layer wins.
    used: dict[str, float] = field(default_factory=dict)
    wins: dict[str, set[str]] = field(default_factory=dict)
    #: Mutants, by draw, that do not compile.
    rejected: int = 0
    #: By test: why it could not be audited.
    failed: dict[str, str] = field(default_factory=dict)
    #: Whether a reference failed.
    is_broken: bool = False

    def slack(self) -> list[AuditUse]:
        """Return the layers that are too loose, the loosest first."""
        return [layer for layer in self.layers() if layer["used"] * LOOSE < 1]

    def layers(self) -> list[AuditUse]:
        """Return the layers whose bounds are not 0, the loosest first."""
        return [
            {
                "layer": layer,
                "used": used,
                "looser": round(1 / used, 1) if used else None,
                "tests": sorted(self.wins[layer]),
            }
            for layer, used in sorted(self.used.items(), key=lambda entry: entry[1])
        ]

    def blind(self) -> list[str]:
        """Return the tests in which no mutant matters."""
        return [test for test, tallies in by_test(self) if not counts(tallies)["mattered"]]

    def summary(self) -> AuditSummary:
        return {
            **counts(self.tallies.values()),
            "allowed": self.allowed,
            "allowed_flagged": len(self.flagged),
            "weak": len(self.weak),
            "slack": len(self.slack()),
            "rejected": self.rejected,
            "not_audited": len(self.failed),
        }

    @property
    def sound(self) -> bool:
        """Return whether enough mutants that matter were caught, no allowed change was flagged, and no trivial output passes.

        If mutants were planted, at least one must matter: otherwise the audit shows nothing about the tolerances.
        """
        total = self.summary()
        enough = total["caught"] >= ENOUGH * total["mattered"] and bool(total["mattered"] or not total["planted"])
        return enough and not (total["allowed_flagged"] or total["weak"] or total["not_audited"])


def audit(
    current: Session,
    tests: Sequence[Test],
    *,
    seeds: int,
    glob: str,
    limits: Limits,
    tell: Callable[[str], object],
    progress: Callable[[int], Listener],
) -> AuditFindings:
    """Plant the mutations that ``glob`` selects in tests, and judge each mutant on ``seeds`` draws. Raise UsageError for none.

    ``progress`` makes a listener for a number of actions.
    """
    known = (*MISTAKES, *LIBERTIES, *OUTPUTS)
    wanted = NameGlob(glob).select(known)
    if not wanted:
        raise UsageError(f"--mutations {glob}: there is no such mutation{did_you_mean(glob, known)}")
    outputs = [name for name in OUTPUTS if name in wanted]
    planner = Planner(current.catalog, ToleranceResolver(current.catalog).of, current.pins)
    store = ActionCache(current.home.actions)
    tell(f"{counted(len(tests), 'test')}, {counted(seeds, 'draw')}: searching sites for mutations")
    finding = plan_sites(planner, tests)
    done = run_graph(current, planner.graph, limits=limits)
    auditor = Auditor(current.catalog, planner, seeds=seeds, numpy=current.pins.reference("numpy"))
    mutants: list[Mutant] = []
    for test in tests:
        # A test that cannot be lowered to loops has no sites. The run of its kernel reports that failure.
        site = done[finding[test.id]].result if test.id in finding else None
        sites = json.loads(store.read_blob(site.outputs["sites"])) if site and site.ok else {}
        mutants += auditor.mutants(test, {name: count for name, count in sites.items() if name in wanted}, outputs)
    planted = sum(bool(mutant.planting) for mutant in mutants)
    tell(
        f"{counted(planted, 'mutant')} of the IR, {counted(len(outputs), 'mutation')} of outputs: planting and judging"
    )
    done = run_graph(current, planner.graph, limits=limits, listener=progress(len(planner.graph.actions)))
    found = _read(current, seeds, mutants, planner.graph, done, store)
    if not (found.tallies or found.failed or any(mutant.mutation for mutant in mutants)):
        raise UsageError(
            f"--mutations {glob}: no place for these in {counted(len(tests), 'test')}, so that nothing was planted"
        )
    return found


def _read(
    current: Session,
    seeds: int,
    mutants: Sequence[Mutant],
    graph: Graph,
    done: Mapping[str, Done],
    store: ActionCache,
) -> AuditFindings:
    found = AuditFindings(seeds=seeds)
    outputs = {
        (mutant.test, name)
        for mutant in mutants
        for name in current.catalog.workloads[mutant.test.workload].document.outputs
    }
    tolerances = ToleranceResolver(current.catalog)
    bounds = [tolerances.of(test, name) for test, name in outputs]
    exact = frozenset(bound.location for bound in bounds if not (bound.atol or bound.rtol or bound.max_ulp))
    for mutant in mutants:
        if mutant.test.id in found.failed:
            # If a test fails without a mutation, its mutants show nothing.
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
        elif all(done[ran].result.ok for report in mutant.reports for ran in report.ran):
            last = next(report.judged for report in mutant.reports if not done[report.judged].result.ok)
            reason = reference_failure(graph, done, last, current.catalog.roots)
            found.failed[mutant.test.id] = (
                f"expected outputs and their bounds cannot be computed: {reason or bad['reason']}"
            )
            found.is_broken |= reason is not None
        else:
            fold_failure(found, mutant, bad)
    return found


def _located(current: Session, report: dict[str, Any]) -> dict[str, Any]:
    """Return a report whose layers have paths that the user can open."""
    for entry in report["mutants"]:
        for key in {"layer", "reason"} & entry.keys():
            entry[key] = found_place(current.catalog.roots, entry[key])
        entry["used"] = [(found_place(current.catalog.roots, layer), used) for layer, used in entry.get("used", ())]
    return report


def fold(found: AuditFindings, mutant: Mutant, reports: Sequence[Mapping[str, Any]], exact: frozenset[str]) -> None:
    """Add the results of a mutant; ``reports`` are those of the tool ``audit``, ``exact`` the layers whose bounds are 0."""
    test = mutant.test.id
    entries = [entry for report in reports for entry in report["mutants"]]
    if mutant.kind == "trivial":
        for entry in entries:
            found.weak.setdefault((test, entry["output"]), []).append(entry["draw"])
    elif mutant.kind == "allowed":
        if not mutant.mutation:
            found.draws[test] = len(entries)
        for entry in entries:
            _fold_allowed(found, mutant, entry, exact)
        wrong = [flagged for flagged in found.flagged if flagged["test"] == test and flagged["mutation"] == UNMUTATED]
        if wrong:
            # If a test fails without a mutation, every mutant would count as caught.
            found.failed[test] = f"it does not pass without a mutation: {wrong[0]['reason']}"
    else:
        for entry in entries:
            _fold_mistake(found, mutant, entry)


def _fold_allowed(found: AuditFindings, mutant: Mutant, entry: Mapping[str, Any], exact: frozenset[str]) -> None:
    found.allowed += 1
    run: AuditRun = {"test": mutant.test.id, "mutation": mutant.mutation or UNMUTATED, "draw": entry["draw"]}
    if entry["caught"]:
        reason = entry.get("failed") or entry["reason"]
        found.flagged.append({**run, "layer": entry["layer"], "reason": reason})
    if entry["matters"] and "failed" not in entry:
        found.beyond.append({**run, "output": entry.get("output", ""), "index": entry.get("index", [])})
    for layer, used in entry.get("used", ()):
        if layer and layer not in exact:
            found.used[layer] = max(found.used.get(layer, 0.0), float(used))
            found.wins.setdefault(layer, set()).add(mutant.test.id)


def _fold_mistake(found: AuditFindings, mutant: Mutant, entry: Mapping[str, Any]) -> None:
    mutation = mutant.mutation or entry["mutation"]
    new = MutationTally(test=mutant.test.id, workload=mutant.test.workload, mutation=mutation)
    tally = found.tallies.setdefault((mutant.test.id, mutation), new)
    # Without the element, which depends on the draw.
    tally.sites.add((mutant.site, entry.get("where", "").partition("element")[0]))
    tally.planted += 1
    if not entry["matters"]:
        return
    tally.mattered += 1
    layer = tally.layers.setdefault(entry["layer"] or "the runner", [0, 0])
    layer[0] += 1
    if entry["caught"]:
        tally.caught += 1
        layer[1] += 1
        tally.by_runner += "failed" in entry
    else:
        where = entry["where"] or f"site {mutant.site} of {mutant.sites}"
        place = {"test": mutant.test.id, "mutation": mutation, "site": mutant.site, "where": where}
        found.misses.append(cast("AuditMiss", {**place, **{key: entry[key] for key in _MISS}}))


def fold_failure(found: AuditFindings, mutant: Mutant, outcome: Mapping[str, str]) -> None:
    """Add a mutant whose outputs could not be judged.

    A mutant that failed to run is caught, one that does not compile is rejected, and an allowed change that fails is flagged.
    """
    draws = [draw for report in mutant.reports for draw in report.draws]
    reason = f"{outcome['outcome']}: {outcome['reason']}"
    if mutant.kind == "mutant" and outcome["outcome"] not in _RAN:
        found.rejected += len(draws)
    elif mutant.kind == "mutant":
        for draw in draws:
            _fold_mistake(found, mutant, {"draw": draw, "matters": True, "caught": True, "failed": reason, "layer": ""})
    elif mutant.mutation:
        for draw in draws:
            entry = {"draw": draw, "matters": False, "caught": True, "failed": reason, "layer": ""}
            _fold_allowed(found, mutant, entry, frozenset())
    else:
        found.failed[mutant.test.id] = reason


def by_test(found: AuditFindings) -> Iterator[tuple[str, list[MutationTally]]]:
    """Return the audited tests with their tallies."""
    tests: dict[str, list[MutationTally]] = {}
    for tally in found.tallies.values():
        tests.setdefault(tally.test, []).append(tally)
    yield from sorted(tests.items())


def audit_document(found: AuditFindings) -> Audit:
    return {
        "schema": "mlir-matrix/audit/v1",
        "seeds": found.seeds,
        "summary": found.summary(),
        "tests": [
            {
                "test": test,
                "workload": tallies[0].workload,
                "draws": found.draws.get(test, 0),
                **counts(tallies),
                "mutations": [tally.to_json() for tally in sorted(tallies, key=lambda tally: tally.mutation)],
            }
            for test, tallies in by_test(found)
        ],
        "misses": found.misses,
        "flagged": found.flagged,
        "beyond_bound": found.beyond,
        "weak": [
            {"test": test, "output": output, "draws": draws} for (test, output), draws in sorted(found.weak.items())
        ],
        "nothing_mattered": found.blind(),
        "layers": found.layers(),
        "slack": found.slack(),
        "not_audited": [{"test": test, "reason": reason} for test, reason in sorted(found.failed.items())],
    }
