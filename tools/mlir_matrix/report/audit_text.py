"""An audit for people: a line per workload, then what slipped through, what is too strict, too weak or too loose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from mlir_matrix.judge.audit import ENOUGH, LOOSE, Found, by_test, counts
from mlir_matrix.report.layout import columns, print_lines, stdout_console
from mlir_matrix.text import counted

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.audit import AuditMiss

#: Entries of a list that are shown; the document has all.
_MOST = 30


def print_audit(found: Found) -> None:
    """All of it on stdout."""
    print_lines(stdout_console(), lines(found))


def lines(found: Found) -> list[str]:
    """The report as lines of markup."""
    parts = (_table, _misses, _flagged, _weak, _blind, _slack, _failed, _last)
    return [line for part in parts for line in part(found)]


def _table(found: Found) -> list[str]:
    tests = list(by_test(found))
    # Where there is one test of each workload the workload says enough.
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


def _misses(found: Found) -> list[str]:
    if not found.misses:
        return []
    seen: Counter[tuple[str, str]] = Counter()
    groups: dict[tuple[str, str], AuditMiss] = {}
    for miss in found.misses:
        key = (miss["test"], miss["mutation"])
        seen[key] += 1
        # The largest one says most.
        if key not in groups or _share(miss) > _share(groups[key]):
            groups[key] = miss
    text = ["", "[bold]missed[/], the worst of each mutation in each test"]
    for key, miss in list(groups.items())[:_MOST]:
        times = f" ({seen[key]} times)" if seen[key] > 1 else ""
        text.append(f"  [red]{miss['mutation']}[/] in {escape(miss['test'])}{times}")
        text.append(
            escape(
                f"    {miss['output']}{miss['index']}, draw {miss['draw']}, {miss['where']}: off by {_number(miss['error'])}, "
                f"sound up to {_number(miss['bound'])}"
            )
        )
        text.append(escape(f"    let through by {miss['layer']}: atol {miss['atol']}, rtol {miss['rtol']}"))
    return [*text, *_rest(len(groups), "mutation")]


def _share(miss: Mapping[str, Any]) -> float:
    error, bound = float(miss["error"]), float(miss["bound"])
    return error / bound if bound else float("inf")


def _number(value: Any) -> str:
    return f"{float(value):.3g}"


def _rest(count: int, noun: str) -> list[str]:
    return [f"  and {counted(count - _MOST, f'more {noun}')}; --format json has all"] if count > _MOST else []


def _flagged(found: Found) -> list[str]:
    text = _grouped(found.flagged, lambda entry: f": {entry['reason']}")
    return ["", "[bold]allowed, and yet no pass[/]", *text] if text else []


def _grouped(entries: Iterable[Mapping[str, Any]], told: Any) -> list[str]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for entry in entries:
        groups.setdefault((entry["test"], entry["mutation"]), []).append(entry)
    text = []
    for (test, mutation), members in list(groups.items())[:_MOST]:
        text.append(escape(f"  {mutation} in {test}, {counted(len(members), 'draw')}{told(members[0])}"))
    return [*text, *_rest(len(groups), "mutation")]


def _weak(found: Found) -> list[str]:
    if not found.weak:
        return []
    text = [
        f"  {escape(test)}: {escape(output)}, in {counted(len(draws), 'draw')}"
        for (test, output), draws in sorted(found.weak.items())
    ]
    return ["", "[bold]weak[/]: these outputs pass, and take no program", *text]


def _blind(found: Found) -> list[str]:
    blind = found.blind()
    return ["", "[bold]nothing planted here matters[/]", *(escape(f"  {test}") for test in blind)] if blind else []


def _slack(found: Found) -> list[str]:
    entries = found.slack()
    if not entries:
        return []
    rows = [
        (
            f"  {escape(entry['layer'])}",
            f"{entry['looser']:g} times" if entry["looser"] else "no error was seen",
            ", ".join(sorted({test.rsplit("/", 1)[-1] for test in entry["tests"]})),
        )
        for entry in entries
    ]
    table = columns(("  layer", "looser", "workloads"), rows, right=(1,))
    return ["", f"[bold]slack[/]: tolerances over {LOOSE:g} times as large as any error that was seen", *table]


def _failed(found: Found) -> list[str]:
    if not found.failed:
        return []
    return [
        "",
        "[bold]not audited[/]",
        *(f"  {escape(test)}: {escape(reason)}" for test, reason in sorted(found.failed.items())),
    ]


def _last(found: Found) -> list[str]:
    total = found.summary()
    share = f" ({100 * total['caught'] / total['mattered']:.2f} %)" if total["mattered"] else ""
    failing = f"; {total['by_runner']} of them by failing to run" if total["by_runner"] else ""
    colour = "green" if found.sound else "red"
    beyond = f"; {len(found.beyond)} came out further off than the a-priori bound" if found.beyond else ""
    return [
        "",
        f"{total['planted']} miscompiles planted: {total['mattered']} matter, {total['not_mattering']} do not",
        f"[bold {colour}]{total['caught']} of {total['mattered']} caught{share}[/], {100 * ENOUGH:g} % are wanted{failing}",
        f"{total['allowed_flagged']} of {total['allowed']} runs of what is allowed flagged{beyond}",
    ]
