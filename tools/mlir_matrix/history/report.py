"""Print the answers of ``matrix history``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.text import counted, minute, shortened
from mlir_matrix.history.unexplained import unexplained
from mlir_matrix.results.cause_globs import abridged_globs
from mlir_matrix.results.cost_text import change, number

if TYPE_CHECKING:
    from mlir_matrix.history.documents import (
        ChangedTest,
        Diff,
        FirstBadCause,
        FirstBadSummary,
        FlakyTest,
        GrowingTest,
        RecentOutcome,
        RecordedCatalog,
        RecordedRun,
        ShownTest,
        SlowerTest,
    )

_DAY = 10
_SHORT = 12
_NOT_RUN = ("unsupported", "skipped")
_KINDS = {
    "new": "new failures",
    "fixed": "fixed",
    "changed": "fail in another way",
    "passes": "pass, though a failure is expected",
    "not_run": "still bad, not run this time",
    "added": "added tests",
    "gone": "tests that no longer exist",
}
#: The most lines of an answer, or of a part of it.
MOST_LINES = 50
#: The most causes of bad tests that are shown.
MOST_CAUSES = 10


def runs_text(runs: Sequence[RecordedRun], matched: int) -> Iterator[str]:
    """Return one line per run."""
    if not runs:
        yield "the history has no such run; each matrix run adds to it"
        return
    rows = [
        (
            run["id"][:_SHORT], minute(run["started"]), f"{run['seconds']:.1f}", escape(run["host"]),
            escape(_commit(run["catalogs"])), str(run["tests"]),
            _bad(run["unexpected"]), str(run["executed"]), f"{run['repeats']} ×" if run["repeats"] else "",
            escape(shortened(run["command"], 50)),
        )
        for run in runs
    ]  # fmt: skip
    headings = (
        "run",
        "started",
        "seconds",
        "host",
        "commit",
        "tests",
        "unexpected",
        "executed",
        "unchanged",
        "command",
    )
    yield from columns(headings, rows, right=(2, 5, 6, 7, 8))
    if len(runs) < matched:
        yield ""
        yield f"the newest {len(runs)} of {counted(matched, 'run')}; older ones: --limit {matched}, or --since DATE"


def _commit(catalogs: Sequence[RecordedCatalog]) -> str:
    """Return the commits of the user's catalogs, else that of the program's own, which is the first."""
    return " ".join(
        each["commit"][:9] + ("+" if each["dirty"] else "") for each in catalogs[1:] or catalogs if each["commit"]
    )


def _bad(count: int) -> str:
    return f"[bold red]{count}[/]" if count else "0"


def strip(recent: Iterable[RecentOutcome]) -> str:
    """Return one character per outcome: ``.`` is a pass, ``-`` did not run, others are letters, in capitals if unexpected."""
    return "".join(letter(each["outcome"], unexpected=each["unexpected"]) for each in recent)


def _changed_costs(recent: Iterable[RecentOutcome]) -> list[str]:
    """Return a line for each run whose exact costs differ from those that were counted before it."""
    found, before = [], dict[str, float]()
    for each in recent:
        now = each.get("costs", {})
        words = [
            f"{name} {number(before[name])} → {number(value)}{change(before[name], value)}"
            for name, value in now.items()
            if before.get(name, value) != value
        ]
        before |= now
        if words:
            found.append(f"{each['run'][:_SHORT]} {minute(each['started'])}: {', '.join(words)}")
    return found


def letter(outcome: str, *, unexpected: bool) -> str:
    """Return the character of an outcome, as in :func:`strip`."""
    if outcome in _NOT_RUN:
        return "-"
    if outcome == "pass" and not unexpected:
        return "."
    return outcome[0].upper() if unexpected else outcome[0]


def shown_text(tests: Sequence[ShownTest], summary: Mapping[str, int]) -> Iterator[str]:
    """Return one line per test; for a single test also the summaries of its removed results."""
    rows = []
    for test in tests:
        bad = test["bad"]
        marks = strip(test["recent"])
        last = escape(shortened(test["behaviour"], 60))
        if test["decided"] and test["decided"] < test["last_seen"]:
            last += f" (on {test['decided'][:_DAY]})"
        rows.append((
            escape(test["id"]), marks, f"[bold red]{last}[/]" if bad else last, test["first_seen"][:_DAY], test["last_seen"][:_DAY],
            f"{test['seconds']:.2f}" if test["seconds"] is not None else "",
            escape(shortened(", ".join(f"{name} {release}" for name, release in test["pins"].items()), 60)), escape(test["host"]),
        ))  # fmt: skip
    yield from columns(
        ("test", "outcomes", "last", "first seen", "last seen", "seconds", "pins", "host"), rows, right=(5,)
    )
    if len(tests) == 1:
        runs = [
            (
                each["run"][:_SHORT], minute(each["started"]), f"{each['seconds']:.2f}", escape(each["host"]),
                escape(_commit(each["catalogs"])), f"[bold red]{each['outcome']}[/]" if each["unexpected"] else each["outcome"],
            )
            for each in tests[0]["recent"]
        ]  # fmt: skip
        yield ""
        yield from columns(("run", "started", "seconds", "host", "commit", "outcome"), runs, right=(2,))
        yield from section("costs that changed", _changed_costs(tests[0]["recent"]), MOST_LINES)
        months = [
            f"{each['month']}: {counted(each['results'], 'result')}, {each['unexpected']} unexpected, {each['seconds']:.2f} s each"
            for each in tests[0]["months"]
        ]
        yield from section("removed results", months)
    hidden = summary["matched"] - summary["shown"]
    yield ""
    yield (
        f"{counted(summary['shown'], 'test')}, {_bad(summary['unexpected'])} unexpected when last decided"
        + (f"; {hidden} more match: --limit {summary['matched']}" if hidden else "")
    )


def first_bad_text(causes: Sequence[FirstBadCause], summary: FirstBadSummary, most: int = MOST_CAUSES) -> Iterator[str]:
    """Return when tests went bad, and what changed then: one entry a cause."""
    causes = causes[:most]
    for cause in causes:
        test = cause["example"]
        if len(cause["tests"]) == 1:
            yield f"[bold]{escape(test['id'])}[/]  [red]{escape(test['behaviour'])}[/]"
        else:
            yield f"[bold]{escape(cause['title'])}[/]"
            yield escape(f"  tests      {len(cause['tests'])}: {', '.join(abridged_globs(cause['globs']))}")
            yield f"  example    {escape(test['id'])}  [red]{escape(test['behaviour'])}[/]"
        good = test["last_good"]
        yield f"  last good  {_named(good)}" if good else "  never good"
        yield f"  first bad  {_named(test['first_bad'])}"
        for each in test["commits"]:
            note = ", with changes that were not committed" if each["dirty"] else ""
            yield escape(f"  commits    {each['folder']}: {each['good'][:9]}..{each['bad'][:9]}{note}")
        for name, (before, after) in test["pins"].items():
            yield escape(f"  pin        {name}: {before} → {after}")
        if good and not (test["commits"] or test["pins"]):
            yield escape(f"  {unexplained(test, good)}")
        if test["bisect"]:
            yield f"  bisect     {escape(test['bisect'])}"
        for note in test["bisect_notes"]:
            yield escape(f"             {note}")
        yield ""
    total = summary["causes"]
    more = f"; the {len(causes)} of most tests are shown: --limit {total}" if len(causes) < total else ""
    yield f"{counted(summary['tests'], 'test')} bad when last decided, {counted(total, 'cause')}{more}"


def _named(run: RecordedRun) -> str:
    last = f", unchanged until {run['last_seen'][:16]}" if run["repeats"] else ""
    return escape(f"{run['id'][:_SHORT]}  {minute(run['started'])}  {run['host']}{last}")


def flaky_text(tests: Sequence[FlakyTest], total: int) -> Iterator[str]:
    """Return one line per test, with the ways in which it ended."""
    rows = [
        (
            escape(test["id"]), f"{100 * test['rate']:.0f} %", "–".join(f"{100 * end:.0f}" for end in test["interval"]) + " %",
            str(test["executions"]),
            escape("; ".join(f"{each['executions']} × {shortened(each['behaviour'], 50)}" for each in test["behaviours"])),
        )
        for test in tests
    ]  # fmt: skip
    yield from _table(("test", "differs", "95 %", "executions", "ended in"), rows, total, "flaky", right=(1, 2, 3))


def slower_text(tests: Sequence[SlowerTest], total: int) -> Iterator[str]:
    """Return one line per test, host and cost."""
    rows = []
    for test in tests:
        digits = ",.0f" if test["cost"] == "instructions" else ".2f"
        low, high = test["interval"]
        interval = "" if low == high else f"[{low:.2f}, {high:.2f}]"
        numbers = (f"{test['before']:{digits}}", f"{test['after']:{digits}}", f"{test['factor']:.2f}", escape(interval))
        rows.append((escape(test["id"]), escape(test["host"]), test["cost"], *numbers))
    headings = ("test", "host", "cost", "before", "after", "factor", "interval")
    yield from _table(headings, rows, total, "slower", right=(3, 4, 5))


def growing_text(tests: Sequence[GrowingTest], total: int) -> Iterator[str]:
    """Return one line per test."""
    rows = [
        (
            escape(test["id"]), str(test["executions"]), f"{100 * test['first']:.0f} %", f"{100 * test['last']:.0f} %",
            f"{100 * test['per_run']:.2f} %", str(test["runs_left"]), f"{test['chance']:.2g}",
        )
        for test in tests
    ]  # fmt: skip
    headings = ("test", "executions", "first", "last", "per run", "runs left", "p")
    yield from _table(headings, rows, total, "with a growing error", right=range(1, 7))


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], total: int, words: str, *, right: Iterable[int]
) -> Iterator[str]:
    if rows:
        yield from columns(headings, rows, right=right)
        yield ""
    more = f"; the first {len(rows)} are shown: --limit {total}" if len(rows) < total else ""
    yield f"{counted(total, 'test')} {words}{more}"


def diff_text(found: Diff, most: int = MOST_LINES) -> Iterator[str]:
    """Return the tests that differ, by kind, at most so many of each."""
    for kind, heading in _KINDS.items():
        tests = found[kind]  # type: ignore[literal-required] # kinds are keys
        entries = [
            escape(test["id"]) + escape("".join(f"  {word}" for word in (_ended(kind, test),) if word))
            for test in tests
        ]
        yield from section(f"[bold]{heading}[/] ({len(tests)})", entries, most)
    yield ""
    # Name rare kinds only if they have tests.
    counts = {kind.replace("_", " "): count for kind, count in found["summary"].items()}
    yield ", ".join(f"{count} {kind}" for kind, count in counts.items() if count or kind not in ("passes", "not run"))


def _ended(kind: str, test: ChangedTest) -> str:
    before, after = test["before"], test["after"]
    words = {"changed": f"{before} → {after}", "fixed": before, "new": after, "not_run": after}.get(kind) or ""
    return f"{words} (last seen {test['last_seen'][:_DAY]})" if "last_seen" in test else words
