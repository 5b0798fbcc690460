"""Show the best pipelines as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.markup import escape

from mlir_matrix.base.layout import columns
from mlir_matrix.base.text import counted
from mlir_matrix.cost.documents import BeatenTest, BestDocument, Contest, Contestant
from mlir_matrix.cost.report import time_unit

_HEADINGS = {
    "time_ns": "time", "instructions": "instructions", "code_bytes": "code", "compile_s": "compilation", "error": "error",
}  # fmt: skip


def best_lines(document: BestDocument) -> Iterator[str]:
    """Yield the best tests of each workload on each target with all criteria, and why the others are not among them."""
    for contest in document["contests"]:
        yield f"[bold]{escape(contest['workload'])}[/] on {escape(contest['target'])}"
        yield from (f"  {line}" for line in _table(contest))
        for each in contest["beaten"]:
            yield f"  {escape(_short(each))}: {escape(_why(each, contest))}"
        for test, reason in contest["failing"].items():
            yield f"  {escape(test)}: [red]{escape(reason)}[/]"
        for name, reason in contest["not_compared"].items():
            yield f"  [dim]not compared in {_HEADINGS[name]}: {escape(reason)}[/]"
        yield ""
    summary = document["summary"]
    yield (
        f"{counted(summary['contests'], 'contest')} of {counted(summary['tests'], 'test')}: "
        f"{summary['best']} best, {summary['failing']} failing"
    )


def _table(contest: Contest) -> list[str]:
    if not contest["best"]:
        return ["nothing passes"]
    rows = [
        (escape(_short(each)), *_cells(each["values"]), _first(each["first_in"], contest)) for each in contest["best"]
    ]
    return columns(("best", *_HEADINGS.values(), "first in"), rows, right=range(1, 6))


def _first(names: list[str], contest: Contest) -> str:
    """Return in what a test is first; nothing where it stands alone."""
    return ", ".join(_HEADINGS[name] for name in names) if len(contest["best"]) > 1 else ""


def _cells(values: Mapping[str, float]) -> list[str]:
    texts = {
        "time_ns": _time_text, "instructions": "{:,.0f}".format, "code_bytes": "{:,.0f}".format,
        "compile_s": "{:.2f} s".format, "error": "{:.0%}".format,
    }  # fmt: skip
    return [texts[name](values[name]) if name in values else "" for name in _HEADINGS]


def _time_text(nanoseconds: float) -> str:
    unit, size = time_unit(nanoseconds)
    return f"{nanoseconds / size:.3g} {unit}"


def _short(test: Contestant) -> str:
    """Return the framework and the pipeline of a test, with the pins of its identifier."""
    pins = test["test"].partition("@")[2]
    return f"{test['framework']}/{test['pipeline']}{'@' if pins else ''}{pins}"


def _why(beaten: BeatenTest, contest: Contest) -> str:
    winner = next(each for each in contest["best"] if each["test"] == beaten["by"])
    if len(beaten["better_in"]) == len(contest["criteria"]):
        count = len(beaten["better_in"])
        where = "the only criterion" if count == 1 else f"all {count} criteria"
        return f"{_short(winner)} is better in {where}"
    return (
        f"{_short(winner)} is better in {', '.join(_HEADINGS[name] for name in beaten['better_in'])}, worse in nothing"
    )
