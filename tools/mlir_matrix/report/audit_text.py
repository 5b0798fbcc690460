"""Show an audit as text: a line per workload, then what was missed, flagged, weak or too loose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.text import counted
from mlir_matrix.judge.audit import ENOUGH, LOOSE, Found, by_test, counts

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.audit import AuditFlagged, AuditMiss

#: Entries of a list; the document has all.
_MOST = 30


def audit_lines(found: Found) -> Iterator[str]:
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
            ", ".join(sorted({test.rsplit("/", 1)[-1] for test in entry["tests"]})),
        )
        for entry in found.slack()
    ]
    if rows:
        yield from ("", f"[bold]slack[/]: tolerances over {LOOSE:g} times as large as any error that was seen")
        yield from columns(("  layer", "looser", "workloads"), rows, right=(1,))
    failed = [escape(f"{test}: {reason}") for test, reason in sorted(found.failed.items())]
    yield from section("[bold]not audited[/]", failed)
    yield from _last(found)


def _table(found: Found) -> list[str]:
    tests = list(by_test(found))
    # The workload is enough where it has one test.
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
            f"{miss['test']}{times}\n    {place}: off by {_number(miss['error'])}, sound up to {_number(miss['bound'])}\n"
            f"    let through by {miss['layer']}: atol {miss['atol']}, rtol {miss['rtol']}"
        )


def _share(miss: Mapping[str, Any]) -> float:
    error, bound = float(miss["error"]), float(miss["bound"])
    return error / bound if bound else float("inf")


def _number(value: Any) -> str:
    return f"{float(value):.3g}"


def _flagged(entries: Iterable[AuditFlagged]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[AuditFlagged]] = {}
    for entry in entries:
        groups.setdefault((entry["test"], entry["mutation"]), []).append(entry)
    for (test, mutation), members in groups.items():
        yield escape(f"{mutation} in {test}, {counted(len(members), 'draw')}: {members[0]['reason']}")


def _last(found: Found) -> Iterator[str]:
    total = found.summary()
    share = f" ({100 * total['caught'] / total['mattered']:.2f} %)" if total["mattered"] else ""
    failing = f"; {total['by_runner']} of them by failing to run" if total["by_runner"] else ""
    colour = "green" if found.sound else "red"
    beyond = f"; {len(found.beyond)} exceed the forward error bound" if found.beyond else ""
    yield ""
    yield f"{total['planted']} miscompiles planted: {total['mattered']} matter, {total['not_mattering']} do not"
    yield f"[bold {colour}]{total['caught']} of {total['mattered']} caught{share}[/], {100 * ENOUGH:g} % are wanted{failing}"
    yield f"{total['allowed_flagged']} of {total['allowed']} runs of allowed changes flagged{beyond}"
