"""Show updates of goldens, calibrations and audits as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.names import TestId
from mlir_matrix.base.text import counted
from mlir_matrix.golden.audit import ENOUGH, LOOSE, AuditFindings, by_test, counts
from mlir_matrix.results.cost_text import change, number

if TYPE_CHECKING:
    from mlir_matrix.golden.documents import (
        AuditFlagged,
        AuditMiss,
        CalibratedLayer,
        Calibration,
        GoldenOutput,
        UpdatedCosts,
    )


def cost_update_line(row: UpdatedCosts) -> str:
    """Return the line of a test for ``matrix golden update --cost``."""
    if row["state"] == "same":
        return f"{row['id']}: unchanged"
    changed = [
        f"{each['cost']} {number(each['golden'])} → {number(each['value'])}{change(each['golden'], each['value'])}"
        for each in row["costs"]
        if each["golden"] is not None
    ]
    new = [f"{each['cost']} {number(each['value'])}" for each in row["costs"] if each["golden"] is None]
    words = [*changed, *([f"new: {', '.join(new)}"] if new else [])]
    return f"{row['id']}: {', '.join(words)}{'; written' if row['written'] else ''}"


def update_line(row: GoldenOutput) -> str:
    """Return the line of an output for ``matrix golden update``."""
    is_kept = row["state"] in ("same", "rounding")
    return _state(row) + ("; its record was out of date" if is_kept and not row["recorded"] else "") + _weak(row)


def _weak(row: GoldenOutput) -> str:
    """Return the trivial outputs that also pass, or a note if none does although the workload states a reason."""
    reason = row["weak_reason"]
    if not row["weak"]:
        return "; its reason for being weak is idle: no trivial output passes" if reason else ""
    parts = []
    for entry in row["weak"]:
        bounds = "".join(f"{key} {text}, " for key, text in entry["bounds"].items())
        parts.append(f"{' and '.join(entry['passes'])} would pass, too ({bounds}{entry['layer']})")
    return f"; weak: {'; '.join(parts)}" + (
        f"; the workload says why that is right: {reason.strip()}" if reason else ""
    )


def _state(row: GoldenOutput) -> str:
    name = f"{row['workload']}/{row['output']}"
    if row["state"] == "same":
        return f"{name}: unchanged"
    if row["state"] == "rounding":
        return f"{name}: unchanged except for rounding{_difference(row['difference'])}"
    written = ", written" if row["written"] else ""
    form = " as a sketch" if row["sketch"] else ""
    size = f"{written}{form if written else ''} ({row['bytes']} bytes{'' if written or not form else ', as a sketch'})"
    if row["state"] == "new":
        return f"{name}: is new{size}"
    if row["state"] == "both-forms":
        return f"{name}: is there in both forms{size}"
    return f"{name}: differs{_difference(row['difference'])}{size}"


def _difference(found: Mapping[str, object] | None) -> str:
    if found is None:
        return ""
    if "changed" in found:
        return f": it {found['changed']}"
    what = "elements that are kept" if "blocks" in found else "elements"
    parts = [f"{found['differ']} of {found['elements']} {what}"]
    if found["index"] is not None:
        parts.append(
            f"at most {_number(found['abs'])} (relative {_number(found['rel'])}) at {found['index']}: "
            f"was {found['old']}, is {found['new']}"
        )
    if "blocks" in found:
        parts.insert(0, f"{found['differing_blocks']} of {found['blocks']} blocks")
        parts.append(f"all together by {_number(found['norm'])} (Euclidean norm, by its projections)")
    elif not found["differ"]:
        parts = ["in how it is written, not in its numbers"]
    return ": " + ", ".join(parts)


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


_FAILURES = 20


def calibration_lines(document: Calibration) -> Iterator[str]:
    """Yield the lines of a report, as markup."""
    layers = document["layers"]
    yield from columns(
        ("layer", "tests", "runs", "largest", "p50", "p99", "rate now", "rate then", "worst test"),
        [_cells(row) for row in layers],
        right=range(1, 8),
    )
    proposals = []
    for row in layers:
        changes = [f"{key} {bound} (now {row['bounds'][key]})" for key, bound in (row["proposed"] or {}).items()]
        proposals += [escape(f"{row['layer']}: {', '.join(changes)}")] if changes else []
    yield from section("proposed", proposals)
    others = [escape(f"{row['layer']}: {row['why_not']}") for row in layers if row["why_not"]]
    yield from section("nothing is proposed for", others)
    failed = [
        f"[red]{each['outcome']}[/] {escape(each['test'])} ({counted(len(each['draws']), 'draw')}): {escape(each['reason'])}"
        for each in document["failed"]
    ]
    yield from section("no numbers from", failed, _FAILURES)
    yield ""
    if exact := document["exact"]:
        yield f"{counted(len(exact), 'layer')} with bounds of 0 left alone: {escape(', '.join(exact))}"
    if expected := document["expected_to_fail"]:
        yield f"{counted(len(expected), 'test')} not run: the suite expects other outcomes"
    for reason, count in Counter(each["reason"] for each in document["not_run"]).items():
        yield f"{counted(count, 'test')} not run: {escape(reason)}"
    yield (
        "Errors are shares of today's bounds; rates are false alarms per run of the worst test; equal runs count once."
    )
    yield (
        f"{counted(document['tests'], 'test')}, {counted(document['draws'], 'draw')} each, "
        f"{counted(document['executed'], 'action')} run; "
        f"wanted: false alarms in {document['false_alarm']:.0e} of runs, with {document['confidence']:.0%} confidence"
    )


def _cells(row: CalibratedLayer) -> list[str]:
    return [
        escape(row["layer"]),
        str(row["tests"]),
        str(row["distinct_runs"]),
        *(f"{share:.3g}" for share in (row["largest"], row["p50"], row["p99"])),
        _rate(row["rate_now"] if row["fit"] else None),
        _rate(row["rate_proposed"]),
        escape(row["worst_test"]),
    ]


def _rate(rate: float | None) -> str:
    if rate is None:
        return ""
    return "<1e-99" if rate < 1e-99 else f"{rate:.0e}"


#: The most entries of a list. The document has all.
_MOST = 30


def audit_lines(found: AuditFindings) -> Iterator[str]:
    """Yield the lines of the report, as markup."""
    yield from _table(found)
    yield from section("[bold]missed[/], the worst of each mutation in each test", _misses(found.misses), _MOST)
    yield from section("[bold]allowed changes that do not pass[/]", _flagged(found.flagged), _MOST)
    weak = [
        escape(f"{test}: {output}, in {counted(len(draws), 'draw')}")
        for (test, output), draws in sorted(found.weak.items())
    ]
    yield from section("[bold]weak[/]: these outputs pass, and need no program", weak)
    yield from section("[bold]nothing planted here matters[/]", map(escape, found.blind()))
    rows = [
        (
            f"  {escape(entry['layer'])}",
            f"{entry['looser']:g} times" if entry["looser"] else "no error was seen",
            ", ".join(sorted({TestId.parse(test).called for test in entry["tests"]})),
        )
        for entry in found.slack()
    ]
    if rows:
        yield from ("", f"[bold]slack[/]: tolerances over {LOOSE:g} times as large as any error that was seen")
        yield from columns(("  layer", "looser", "workloads"), rows, right=(1,))
    failed = [escape(f"{test}: {reason}") for test, reason in sorted(found.failed.items())]
    yield from section("[bold]not audited[/]", failed)
    yield from _last(found)


def _table(found: AuditFindings) -> list[str]:
    tests = list(by_test(found))
    # The name of the workload is enough if each workload has one test.
    short = len({tallies[0].workload for _, tallies in tests}) == len(tests)
    rows = []
    for test, tallies in tests:
        total = counts(tallies)
        missed = f"[bold red]{total['missed']}[/]" if total["missed"] else "–"
        name = tallies[0].workload if short else test
        numbers = (total["planted"], total["mattered"], total["caught"], total["by_runner"] or "")
        rows.append((escape(name), str(found.draws.get(test, 0)), *map(str, numbers), missed))
    headings = ("workload" if short else "test", "draws", "planted", "mattered", "caught", "by failing", "missed")
    return columns(headings, rows, right=range(1, len(headings)))


def _misses(misses: Iterable[AuditMiss]) -> Iterator[str]:
    seen: Counter[tuple[str, str]] = Counter()
    worst: dict[tuple[str, str], AuditMiss] = {}
    for miss in misses:
        key = (miss["test"], miss["mutation"])
        seen[key] += 1
        if key not in worst or _share(miss) > _share(worst[key]):
            worst[key] = miss
    for key, miss in worst.items():
        times = f" ({seen[key]} times)" if seen[key] > 1 else ""
        place = f"{miss['output']}{miss['index']}, draw {miss['draw']}, {miss['where']}"
        yield f"[red]{miss['mutation']}[/] in " + escape(
            f"{miss['test']}{times}\n    {place}: off by {_with_digits(miss['error'])}, sound up to {_with_digits(miss['bound'])}\n"
            f"    let through by {miss['layer']}: atol {miss['atol']}, rtol {miss['rtol']}"
        )


def _share(miss: Mapping[str, Any]) -> float:
    error, bound = float(miss["error"]), float(miss["bound"])
    return error / bound if bound else float("inf")


def _with_digits(value: Any) -> str:
    return f"{float(value):.3g}"


def _flagged(entries: Iterable[AuditFlagged]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[AuditFlagged]] = {}
    for entry in entries:
        groups.setdefault((entry["test"], entry["mutation"]), []).append(entry)
    for (test, mutation), members in groups.items():
        yield escape(f"{mutation} in {test}, {counted(len(members), 'draw')}: {members[0]['reason']}")


def _last(found: AuditFindings) -> Iterator[str]:
    total = found.summary()
    share = f" ({100 * total['caught'] / total['mattered']:.2f} %)" if total["mattered"] else ""
    failing = f"; {total['by_runner']} of them by failing to run" if total["by_runner"] else ""
    colour = "green" if found.sound else "red"
    beyond = f"; {len(found.beyond)} exceed the forward error bound" if found.beyond else ""
    yield ""
    yield f"{total['planted']} miscompiles planted: {total['mattered']} matter, {total['not_mattering']} do not"
    yield f"[bold {colour}]{total['caught']} of {total['mattered']} caught{share}[/], {100 * ENOUGH:g} % are wanted{failing}"
    yield f"{total['allowed_flagged']} of {total['allowed']} runs of allowed changes flagged{beyond}"
