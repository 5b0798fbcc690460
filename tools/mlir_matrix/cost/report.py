"""Show what tests cost, and comparisons, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.markup import escape

from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.text import counted, megabytes
from mlir_matrix.cli.output import note
from mlir_matrix.compare.documents import Number
from mlir_matrix.cost.audit import LEAST_FOUND, MOST_FALSE, SUITE, WITHIN
from mlir_matrix.cost.documents import (
    AuditedComparisons,
    ChangedCost,
    ComparedTest,
    CostAudit,
    CostComparison,
    CostsDocument,
    TestCosts,
)
from mlir_matrix.results.documents import Costs, KernelTime

#: Up to so many tests are shown with all that they cost; of more, a line each.
_DETAILED = 3
_COLOURS = {"better": "green", "worse": "bold red", "mixed": "yellow", "cannot tell": "yellow"}
_TIME_COLOURS = {"faster": "green", "slower": "bold red", "cannot tell": "yellow"}
#: The columns of an audit: words of decisions.
_AUDITED = ("same", "cannot tell", "slower", "faster")
#: Exact costs of the table of comparisons; all others are counted in one column.
_SHOWN = {"code_bytes": "code", "instructions": "instructions"}


def shown_progress(*, quiet: bool) -> Callable[[int], None]:
    """Return a function that says how many programs are timed."""

    def progress(programs: int) -> None:
        if not quiet:
            note(f"timing {counted(programs, 'program')}")

    return progress


def costs_lines(document: CostsDocument) -> list[str]:
    """Return what tests cost, as lines of markup: each in full, or one line a test if they are many."""
    measured = [each for each in document["tests"] if "costs" in each]
    failed = [each for each in document["tests"] if "costs" not in each]
    lines = list(_in_full(measured)) if len(measured) <= _DETAILED else _table(measured)
    failures = [f"{escape(each['id'])}: {each['outcome']}: {escape(each['reason'])}" for each in failed]
    return lines + section("[bold]without costs[/]", failures, most=10)


def _in_full(tests: Sequence[TestCosts]) -> Iterator[str]:
    for number, test in enumerate(tests):
        costs = test["costs"]
        yield from ([""] if number else [])
        yield f"[bold]{escape(test['id'])}[/]"
        rows = [row for row in (*_rows(costs), ("time", _time(test))) if row[1]]
        width = max(len(heading) for heading, _ in rows)
        yield from (f"  {heading:{width}}  {text}" for heading, text in rows)
        reasons: dict[str, list[str]] = {}
        for name, reason in costs["absent"].items():
            reasons.setdefault(reason, []).append(_words(name))
        yield from (f"  [dim]without {', '.join(names)}: {escape(reason)}[/]" for reason, names in reasons.items())


def _rows(costs: Costs) -> Iterator[tuple[str, str]]:
    """Yield headings and texts of what a test costs; a text is empty if nothing is known."""
    exact = costs["exact"]
    yield "code", _joined(exact, {"code_bytes": "{} bytes", "data_bytes": "{} bytes of data"})
    yield "executed", _joined(exact, {"instructions": "{} instructions"})
    share, of_what = exact.get("vector_share"), "executed" if "instructions" in exact else "in innermost loops"
    yield "vectors", "" if share is None else f"{float(share):.0%} of the arithmetic {of_what}"
    yield "misses", _joined(exact, {"d1_misses": "{} in the first cache", "ll_misses": "{} in the last"})
    allocated = _joined(exact, {"total_bytes": "{} bytes", "peak_bytes": "{} bytes at most"})
    yield "memory", f"{counted(int(exact['allocations']), 'allocation')}, {allocated}" if allocated else ""
    cycles = {name: value for name, value in exact.items() if name.startswith("cycles_")}
    unit = "" if "instructions" in exact else " for one iteration of each innermost loop"
    estimates = ", ".join(f"{_number(value)} on {_words(name)}" for name, value in cycles.items())
    yield "cycles", f"{estimates}{unit} (llvm-mca)" if cycles else ""
    yield "operations", ", ".join(f"{kind} {sum(each.values())}" for kind, each in costs["operations"].items())
    yield "compiled", _compilation(costs)


def _joined(exact: Mapping[str, Number], forms: Mapping[str, str]) -> str:
    return ", ".join(form.format(_number(exact[name])) for name, form in forms.items() if name in exact)


def _words(name: str) -> str:
    return name.removeprefix("cycles_").replace("_", " ")


def _number(value: Number) -> str:
    number = float(value)
    return f"{number:,.0f}" if number == int(number) or abs(number) >= 1000 else f"{number:,.2f}"


def _compilation(costs: Costs) -> str:
    steps = costs["compile"]
    if not steps:
        return ""
    total = sum(each["cpu_s"] for each in steps)
    longest = sorted(steps, key=lambda each: -each["cpu_s"])[:3]
    named = ", ".join(f"{escape(each['action'])} {each['cpu_s']:.3f}" for each in longest)
    peak = max(each["peak_bytes"] for each in steps)
    return f"{total:.3f} s of CPU time ({named}), {megabytes(peak)} at most"


def _time(test: TestCosts) -> str:
    """Return the time of a call, the speed of its arithmetic, and the share of the machine's peak."""
    time = test["costs"].get("time")
    if time is None:
        return ""
    parts = [time_text(time)]
    if flops := test.get("work", {}).get("flops"):
        parts.append(f"{flops / time['ns']:.3g} GFLOP/s")
    if peak := test.get("peak"):
        limit = "arithmetic" if peak["bound"] == "compute" else peak["level"]
        parts.append(f"{peak['fraction']:.1%} of the peak of {limit}")
    return ", ".join(parts)


def time_text(time: KernelTime) -> str:
    """Return the time of a call with its interval, in a fitting unit."""
    unit, factor = time_unit(time["ns"])
    return f"{time['ns'] / factor:.4g} {unit} \\[{time['low'] / factor:.4g}, {time['high'] / factor:.4g}]"


def time_unit(nanoseconds: float) -> tuple[str, float]:
    """Return the unit that fits a time, and its nanoseconds."""
    units = (("s", 1e9), ("ms", 1e6), ("µs", 1e3))
    return next((each for each in units if nanoseconds >= each[1]), ("ns", 1.0))


def _table(tests: Sequence[TestCosts]) -> list[str]:
    rows = []
    for test in tests:
        costs = test["costs"]
        exact = costs["exact"]
        share = exact.get("vector_share")
        rows.append(
            (
                escape(test["id"]),
                _number(exact["code_bytes"]) if "code_bytes" in exact else "",
                _number(exact["instructions"]) if "instructions" in exact else "",
                "" if share is None else f"{float(share):.0%}",
                f"{sum(each['cpu_s'] for each in costs['compile']):.3f} s",
                time_text(costs["time"]).partition(" \\[")[0] if "time" in costs else "",
            )
        )
    return columns(("test", "code", "instructions", "vectors", "compiled", "time"), rows, right=(1, 2, 3, 4, 5))


def comparison_lines(document: CostComparison) -> list[str]:
    """Return a comparison as lines of markup: each test that differs, and how many do not."""
    compared = [each for each in document["tests"] if each["word"] not in ("equal", "not compared")]
    lines: list[str] = []
    if compared:
        rows = [_compared_row(each) for each in compared]
        lines += columns(("test", *_SHOWN.values(), "time", "other costs"), rows, right=(1, 2))
    reasons = Counter(each.get("reason", "") for each in document["tests"] if each["word"] == "not compared")
    lines += section("[bold]not compared[/]", [f"{count}: {escape(why)}" for why, count in reasons.most_common()], 10)
    untimed = Counter(each["untimed"] for each in compared if "untimed" in each)
    lines += section("[bold]not timed[/]", [f"{count}: {escape(why)}" for why, count in untimed.most_common()], 10)
    words = document["summary"]["by_word"]
    total = ", ".join(f"{count} {word}" for word, count in sorted(words.items(), key=lambda each: -each[1]))
    heading = f"{counted(document['summary']['total'], 'test')} against {escape(document['against'])}: {total}"
    return [*lines, *([""] if lines else []), heading]


def _compared_row(test: ComparedTest) -> tuple[str, ...]:
    exact = test.get("exact", {})
    cells = [_change(exact[name]) if name in exact else "" for name in _SHOWN]
    time, said = test.get("time"), ""
    if time is not None:
        interval = f"{time['ratio']:.3g}× \\[{time['low']:.3g}, {time['high']:.3g}]"
        said = f"{_coloured(time['word'], _TIME_COLOURS)} {interval}, {counted(time['pairs'], 'pair')}"
    others: dict[str, list[str]] = {}
    for name, cost in exact.items():
        if name not in _SHOWN and cost["word"] in _COLOURS:
            others.setdefault(cost["word"], []).append(name)
    rest = "; ".join(f"{word}: {', '.join(names)}" for word, names in others.items())
    return (_coloured(escape(test["id"]), _COLOURS, test["word"]), *cells, said, rest)


def _coloured(text: str, colours: Mapping[str, str], word: str = "") -> str:
    """Return text in the colour of a word, by default of itself."""
    colour = colours.get(word or text, "")
    return f"[{colour}]{text}[/]" if colour else text


def _change(cost: ChangedCost) -> str:
    before, now = float(cost["before"]), float(cost["now"])
    text = f"{now / before - 1:+.1%}" if before else f"+{_number(now)}"
    return _coloured(text, _COLOURS, cost["word"])


def audit_lines(document: CostAudit) -> Iterator[str]:
    """Yield an audit as markup: equal programs by load, planted slowdowns, and what is wanted of both."""
    summary = document["summary"]
    equal = [each for each in document["comparisons"] if each["ratio"] == 1]
    planted = [each for each in document["comparisons"] if each["ratio"] != 1]
    yield from _audit_table("equal programs", equal)
    yield (
        f"called different: {summary['false']} of {summary['equal']:,} that were recorded, at most "
        f"{summary['false_at_most']:.3%} (wanted: {MOST_FALSE:.1%})"
    )
    yield f"after confirmation, as parts of a suite of {SUITE:,}: {summary['confirmed_false']} (wanted: none)"
    yield ""
    yield from _audit_table("3 % slower", planted)
    share = summary["found_quiet"] / max(summary["planted_quiet"], 1)
    yield (
        f"found within {WITHIN} pairs on the quiet machine: {share:.1%}, at least {summary['found_at_least']:.1%} "
        f"(wanted: {LEAST_FOUND:.0%})"
    )
    yield f"called the same: {summary['planted_same']} (wanted: none)"


def _audit_table(heading: str, tallies: list[AuditedComparisons]) -> list[str]:
    rows = []
    for each in tallies:
        counts = (str(each["words"].get(word, 0) or "") for word in _AUDITED)
        wrong = f"[bold red]{each['false']}[/]" if each["false"] else "–"
        numbers = (f"{each['comparisons']:,}", f"{each['pairs']:.1f}", *counts, str(each["confirmed"] or ""), wrong)
        rows.append((each["load"], *numbers))
    headings = (heading, "comparisons", "pairs", *_AUDITED, "confirmed", "wrong")
    return columns(headings, rows, right=range(1, len(headings)))
