"""What a calibration found: layer by layer what runs used, what bounds would do, and what was left out and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.markup import escape

from mlir_matrix.report.layout import columns
from mlir_matrix.text import counted
from mlir_matrix.tolerances.calibration import CONFIDENCE, Calibration, usual_gap
from mlir_matrix.tolerances.patch import CALIBRATED

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.golden import CalibratedLayer
    from mlir_matrix.report.schemas.golden import Calibration as CalibrationDocument

_FAILURES = 20


@dataclass(frozen=True, kw_only=True)
class Row:
    """A layer: what its runs say, and the bounds that follow; ``why_not`` where none do."""

    calibration: Calibration
    #: The bounds as they are and as they would be, by key.
    bounds: Mapping[str, str]
    proposed: Mapping[str, str]
    #: So many times as wide the proposed bounds are, after rounding.
    factor: float | None
    why_not: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A test that gave no usable number in some draws."""

    test: str
    draws: tuple[int, ...]
    outcome: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """All of a calibration."""

    draws: int
    wanted: float
    targets: Sequence[str]
    pins: Mapping[str, str]
    tests: int
    #: How many actions were executed; the others were known.
    executed: int
    rows: Sequence[Row]
    failures: Sequence[Failure]
    #: Layers of which every bound is 0, and tests that were not run: expected to fail, unable to.
    exact: Sequence[str]
    expected: Sequence[str]
    not_run: Sequence[tuple[str, str]] = field(default=())
    patch: str = ""

    def to_json(self) -> CalibrationDocument:
        return {
            "schema": "mlir-matrix/calibration/v1",
            "draws": self.draws,
            "false_alarm": self.wanted,
            "confidence": CONFIDENCE,
            "targets": list(self.targets),
            "pins": dict(self.pins),
            "tests": self.tests,
            "executed": self.executed,
            "layers": [_row_json(row) for row in self.rows],
            "failed": [
                {"test": one.test, "draws": list(one.draws), "outcome": one.outcome, "reason": one.reason}
                for one in self.failures
            ],
            "exact": list(self.exact),
            "expected_to_fail": list(self.expected),
            "not_run": [{"test": test, "reason": reason} for test, reason in self.not_run],
            "patch": self.patch,
        }


def sentence(row: Row, report: Report) -> str:
    """What a rationale is told of the calibration that its bounds come from."""
    found = row.calibration
    where = ", ".join(report.targets)
    pins = ", ".join(f"{name} {release}" for name, release in report.pins.items()) or "known-good pins"
    was = ", ".join(f"{key} {bound}" for key, bound in row.bounds.items() if key in row.proposed)
    return (
        f"{CALIBRATED}{report.draws} draws of {counted(found.tests, 'test')} on {where} ({pins}): the largest error took "
        f"{found.values[-1]:.2g} of {was}. A Gumbel distribution of the largest errors, fitted to those of the worst test, has "
        f"false alarms in at most {found.wanted:.0e} of runs beyond these bounds, with {CONFIDENCE:.0%} confidence."
    )


def _row_json(row: Row) -> CalibratedLayer:
    found = row.calibration
    fitted = found.worst.fitted
    return {
        "layer": found.layer,
        "tests": found.tests,
        "runs": found.runs,
        "distinct_runs": len(found.values),
        "largest": found.values[-1],
        "p50": found.share(0.5),
        "p99": found.share(0.99),
        "worst_test": found.worst.tests[0],
        "fit": None
        if fitted is None
        else {
            "location": fitted.location,
            "scale": fitted.scale,
            "size": fitted.size,
            "gap": fitted.gap(found.worst.values),
            "usual_gap": usual_gap(fitted.size),
        },
        "rate_now": found.rate(1.0),
        "rate_at_most": found.at_most,
        "bounds": dict(row.bounds),
        "proposed": dict(row.proposed) or None,
        "factor": row.factor,
        "rate_proposed": None if row.factor is None else found.rate(row.factor),
        "why_not": row.why_not or None,
    }


def lines(report: Report) -> Iterator[str]:
    """The same for people, as markup."""
    yield from columns(
        ("layer", "tests", "runs", "largest", "p50", "p99", "rate now", "rate then", "worst test"),
        [_cells(row) for row in report.rows],
        right=range(1, 8),
    )
    proposed = [f"  {_proposed(row)}" for row in report.rows if row.proposed]
    if proposed:
        yield from ("", "proposed", *proposed)
    others = [f"  {escape(row.calibration.layer)}: {escape(row.why_not)}" for row in report.rows if row.why_not]
    if others:
        yield from ("", "nothing is proposed for", *others)
    if report.failures:
        yield from ("", "no numbers from", *(_failure(one) for one in report.failures[:_FAILURES]))
        if len(report.failures) > _FAILURES:
            yield f"  … and {len(report.failures) - _FAILURES} more"
    yield from ("", *_ends(report))


def _cells(row: Row) -> list[str]:
    found = row.calibration
    return [
        escape(found.layer),
        str(found.tests),
        str(len(found.values)),
        *(f"{share:.3g}" for share in (found.values[-1], found.share(0.5), found.share(0.99))),
        _rate(found.rate(1.0)) if found.worst.fitted else "",
        "" if row.factor is None else _rate(found.rate(row.factor)),
        escape(found.worst.tests[0]),
    ]


def _proposed(row: Row) -> str:
    changes = (f"{key} {bound} (now {row.bounds[key]})" for key, bound in row.proposed.items())
    return escape(f"{row.calibration.layer}: {', '.join(changes)}")


def _rate(rate: float) -> str:
    return "<1e-99" if rate < 1e-99 else f"{rate:.0e}"


def _failure(one: Failure) -> str:
    return f"  [red]{one.outcome}[/] {escape(one.test)} ({counted(len(one.draws), 'draw')}): {escape(one.reason)}"


def _ends(report: Report) -> Iterator[str]:
    if report.exact:
        yield f"{counted(len(report.exact), 'layer')} with bounds of 0 left alone: {', '.join(map(escape, report.exact))}"
    if report.expected:
        yield f"{counted(len(report.expected), 'test')} not run: the suite expects other outcomes of them"
    for reason in dict.fromkeys(reason for _, reason in report.not_run):
        count = sum(reason == other for _, other in report.not_run)
        yield f"{counted(count, 'test')} not run: {escape(reason)}"
    yield "Shares are of today's bounds; rates are those of false alarms per run of the worst test; runs alike count once."
    yield (
        f"{counted(report.tests, 'test')}, {counted(report.draws, 'draw')} each, {counted(report.executed, 'action')} run; "
        f"false alarms asked for: {report.wanted:.0e} of runs, with {CONFIDENCE:.0%} confidence"
    )
