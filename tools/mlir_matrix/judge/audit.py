"""What an audit found: which planted miscompiles matter, which of those the tolerances catch, what they let through besides.

``planted`` counts every mutation at every site in every draw; of these some ``mattered``, the others are ``not_mattering``; of
those that mattered some were ``caught``, the others are ``missed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.plan.audit import Mutant

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.audit import (
        Audit,
        AuditBeyond,
        AuditCounts,
        AuditFailure,
        AuditFlagged,
        AuditLayer,
        AuditMiss,
        AuditMutation,
        AuditRun,
        AuditSummary,
        AuditTest,
        AuditUse,
        AuditWeak,
    )

#: The share of those that mattered which must be caught.
ENOUGH = 0.99
#: A tolerance that is this many times as large as anything that was seen is slack.
LOOSE = 8.0
#: The mutation that is none.
UNMUTATED = "unmutated"
#: How a kernel that was called may fail.
_RAN = (Outcome.RUN_FAILED, Outcome.CRASHED, Outcome.TIMED_OUT)
_COUNTS = ("planted", "mattered", "caught", "by_runner")


@dataclass(kw_only=True)
class Tally:
    """What became of the plants of one mutation in one test; ``by_runner`` of those caught were so by failing to run."""

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
        """Its entry in the document."""
        layers: list[AuditLayer] = [
            {"layer": layer, "mattered": mattered, "caught": caught}
            for layer, (mattered, caught) in sorted(self.layers.items())
        ]
        return {"mutation": self.mutation, "sites": len(self.sites), **counts([self]), "layers": layers}


def counts(tallies: Iterable[Tally]) -> AuditCounts:
    """Totals of some tallies."""
    all_of = list(tallies)
    planted, mattered, caught, by_runner = (sum(getattr(tally, name) for tally in all_of) for name in _COUNTS)
    return {
        "planted": planted,
        "mattered": mattered,
        "caught": caught,
        "by_runner": by_runner,
        "not_mattering": planted - mattered,
        "missed": mattered - caught,
    }


@dataclass(kw_only=True)
class Found:
    """An audit, as far as it has been read. Entries of the lists are ready for JSON."""

    seeds: int
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    draws: dict[str, int] = field(default_factory=dict)
    allowed: int = 0
    misses: list[AuditMiss] = field(default_factory=list)
    #: What is allowed and yet is no pass.
    flagged: list[AuditFlagged] = field(default_factory=list)
    #: What is allowed and yet is further off than the a-priori bound: then the bound is wrong, or the program.
    beyond: list[AuditBeyond] = field(default_factory=list)
    #: Trivial outputs that pass: test and output to draws.
    weak: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    #: By layer: the largest share of its bound that anything allowed took, the tests that it wins in.
    used: dict[str, float] = field(default_factory=dict)
    wins: dict[str, set[str]] = field(default_factory=dict)
    #: Mutants, by draw, that no compiler takes: nothing was planted.
    rejected: int = 0
    #: Test to the reason why it could not be audited.
    failed: dict[str, str] = field(default_factory=dict)

    def slack(self) -> list[AuditUse]:
        """The layers that are too loose, the loosest first. Exact ones take nothing by nature, and are left out."""
        return [layer for layer in self.layers() if layer["used"] * LOOSE < 1]

    def layers(self) -> list[AuditUse]:
        """The layers that leave room, the loosest first: how much of it was used, and how many times as large it is."""
        ordered = sorted(self.used.items(), key=lambda entry: entry[1])
        return [
            {
                "layer": layer,
                "used": used,
                "looser": round(1 / used, 1) if used else None,
                "tests": sorted(self.wins[layer]),
            }
            for layer, used in ordered
        ]

    def blind(self) -> list[str]:
        """Tests in which nothing that was planted matters: their bounds say nothing, or what was planted is too little."""
        return [test for test, tallies in by_test(self) if not counts(tallies)["mattered"]]

    def summary(self) -> AuditSummary:
        """The numbers that matter."""
        total = counts(self.tallies.values())
        return {
            "planted": total["planted"],
            "mattered": total["mattered"],
            "not_mattering": total["not_mattering"],
            "caught": total["caught"],
            "missed": total["missed"],
            "by_runner": total["by_runner"],
            "allowed": self.allowed,
            "allowed_flagged": len(self.flagged),
            "weak": len(self.weak),
            "slack": len(self.slack()),
            "rejected": self.rejected,
            "not_audited": len(self.failed),
        }

    @property
    def sound(self) -> bool:
        """Whether enough of what mattered was caught, nothing allowed was flagged, nothing trivial passes.

        Mistakes of which none matters say nothing about any tolerance.
        """
        total = self.summary()
        enough = total["caught"] >= ENOUGH * total["mattered"] and bool(total["mattered"] or not total["planted"])
        return enough and not (total["allowed_flagged"] or total["weak"] or total["not_audited"])


def fold(found: Found, mutant: Mutant, reports: Sequence[Mapping[str, Any]], exact: frozenset[str]) -> None:
    """Add what became of a plant; ``reports``: what ``audit`` wrote for its draws; ``exact``: layers without any bound."""
    test = mutant.test.id
    entries = [entry for report in reports for entry in report["plants"]]
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
            # Whatever is planted in what is wrong already would be caught.
            found.failed[test] = f"it does not pass as it is: {wrong[0]['reason']}"
    else:
        for entry in entries:
            _fold_mistake(found, mutant, entry)


def _fold_allowed(found: Found, mutant: Mutant, entry: Mapping[str, Any], exact: frozenset[str]) -> None:
    found.allowed += 1
    told: AuditRun = {"test": mutant.test.id, "mutation": mutant.mutation or UNMUTATED, "draw": entry["draw"]}
    if entry["caught"]:
        reason = entry.get("failed") or entry["reason"]
        found.flagged.append({**told, "layer": entry["layer"], "reason": reason})
    if entry["matters"] and "failed" not in entry:
        found.beyond.append({**told, "output": entry.get("output", ""), "index": entry.get("index", [])})
    for layer, used in entry.get("used", ()):
        if layer not in exact:
            found.used[layer] = max(found.used.get(layer, 0.0), float(used))
            found.wins.setdefault(layer, set()).add(mutant.test.id)


def _fold_mistake(found: Found, mutant: Mutant, entry: Mapping[str, Any]) -> None:
    mutation = mutant.mutation or entry["mutation"]
    tally = _tally(found, mutant, mutation)
    where = entry.get("where", "")
    # Which element it is depends on the draw.
    tally.sites.add((mutant.site, where.partition("element")[0]))
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
        found.misses.append(
            {
                "test": mutant.test.id,
                "mutation": mutation,
                "site": mutant.site,
                "where": entry["where"] or f"site {mutant.site} of {mutant.sites}",
                "output": entry["output"],
                "index": entry["index"],
                "error": entry["error"],
                "bound": entry["bound"],
                "atol": entry["atol"],
                "rtol": entry["rtol"],
                "layer": entry["layer"],
                "draw": entry["draw"],
            }
        )


def fold_failure(found: Found, mutant: Mutant, outcome: Mapping[str, str]) -> None:
    """Add a plant whose kernel did not come as far as being judged.

    A mistake that ran is caught by that; one that does not compile is none, and a liberty that fails is flagged.
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


def _tally(found: Found, mutant: Mutant, mutation: str) -> Tally:
    key = (mutant.test.id, mutation)
    if key not in found.tallies:
        found.tallies[key] = Tally(test=mutant.test.id, workload=mutant.test.workload, mutation=mutation)
    return found.tallies[key]


def by_test(found: Found) -> Iterator[tuple[str, list[Tally]]]:
    """The tests that were audited, each with its tallies."""
    tests: dict[str, list[Tally]] = {}
    for tally in found.tallies.values():
        tests.setdefault(tally.test, []).append(tally)
    yield from sorted(tests.items())


def to_document(found: Found) -> Audit:
    """The audit as JSON."""
    tests: list[AuditTest] = [
        {
            "test": test,
            "workload": tallies[0].workload,
            "draws": found.draws.get(test, 0),
            **counts(tallies),
            "mutations": [tally.to_json() for tally in sorted(tallies, key=lambda tally: tally.mutation)],
        }
        for test, tallies in by_test(found)
    ]
    weak: list[AuditWeak] = [
        {"test": test, "output": output, "draws": draws} for (test, output), draws in sorted(found.weak.items())
    ]
    failed: list[AuditFailure] = [{"test": test, "reason": reason} for test, reason in sorted(found.failed.items())]
    return {
        "schema": "mlir-matrix/audit/v1",
        "seeds": found.seeds,
        "summary": found.summary(),
        "tests": tests,
        "misses": found.misses,
        "flagged": found.flagged,
        "beyond_bound": found.beyond,
        "weak": weak,
        "nothing_mattered": found.blind(),
        "layers": found.layers(),
        "slack": found.slack(),
        "not_audited": failed,
    }
