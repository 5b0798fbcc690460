"""Show a calibration as text: errors and proposed bounds of each layer, and what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.markup import escape

from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.text import counted

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.golden import CalibratedLayer, Calibration

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
