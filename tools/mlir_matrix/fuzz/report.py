"""Show what a session of ``matrix fuzz`` found."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape

from mlir_matrix.base.text import counted, harmless, shortened
from mlir_matrix.fuzz.documents import Fuzz, FuzzFinding, FuzzSummary

_LONGEST = 150


def lines(document: Fuzz) -> Iterator[str]:
    """Yield the lines of a report."""
    for finding in document["findings"]:
        yield from _finding(finding)
        yield ""
    yield from _summary(document["summary"])


def _finding(finding: FuzzFinding) -> Iterator[str]:
    """Yield what is known of a failure: how it ends, which pass is wrong, and in which releases."""
    reason = escape(shortened(harmless(finding["reason"]), _LONGEST))
    yield f"[bold]{finding['outcome']}[/] {escape(finding['id'])} ({finding['key']})"
    yield f"  {reason}"
    if finding["step"]:
        yield f"  step:     {escape(finding['step'])}"
    if finding["passes"]:
        yield f"  needs:    {escape(','.join(finding['passes']))}"
    if finding["releases"]:
        ends = ", ".join(f"{release} {outcome}" for release, outcome in finding["releases"].items())
        yield f"  releases: {escape(ends)}"
    yield f"  {counted(finding['count'], 'program')}; {_trust(finding)}"
    if finding["known"]:
        yield f"  known:    {escape(finding['known'])}"
    elif finding["trouble"]:
        yield f"  folder:   {escape(finding['folder'])}"
    else:
        yield f"  report:   {escape(finding['folder'])}/reduced/report.md"


def _trust(finding: FuzzFinding) -> str:
    if finding["known"]:
        return "not looked into, because it is known"
    if finding["trouble"]:
        return f"not reduced: {escape(finding['trouble'])}"
    size = f"reduced to {counted(finding['operations'] or 0, 'operation')}"
    if finding["confirmed"]:
        return f"{size}, and confirmed"
    if finding["draws"] is None:
        return f"{size}, but not confirmed"
    return f"{size}, but not confirmed: with {finding['draws']} of 3 other inputs it fails, too"


def _summary(summary: FuzzSummary) -> Iterator[str]:
    rate = summary["judged"] / summary["cpu_seconds"] if summary["cpu_seconds"] else 0.0
    yield (
        f"{counted(summary['programs'], 'program')} on {counted(len(summary['routes']), 'route')},"
        f" {summary['judged']} judged in {summary['seconds']:.0f} s, {rate:.1f} a CPU-second (seed {summary['seed']})"
    )
    weak = summary["weak"] / summary["outputs"] if summary["outputs"] else 0.0
    yield f"{weak:.1%} of {counted(summary['outputs'], 'output')} would also pass without the program"
    if summary["undecided"]:
        yield f"{counted(summary['undecided'], 'output')} differ only where no bound could be derived"
    yield f"[bold]{counted(summary['findings'], 'finding')}, {summary['new']} new[/]"
