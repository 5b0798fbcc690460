"""Print ``matrix report support`` as text and as Markdown: tables of answers, then each distinct reason once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.markup import escape

from mlir_matrix.base.layout import columns
from mlir_matrix.base.names import TestId
from mlir_matrix.base.text import counted, harmless
from mlir_matrix.results.report.markdown import escaped

if TYPE_CHECKING:
    from mlir_matrix.support.documents import Support, SupportEntry

_COLOURS = {"yes": "green", "compiles": "green", "weak": "yellow", "wrong": "red", "fails": "red"}
_MEANS = {
    "weak": "passes, but outputs that need no program would pass too",
    "compiles": "compile-only target, nothing is run",
    "fails": "✗ STAGE: fails at this stage",
    "unknown": "each test with this operator fails at another one",
    "cannot": "unsupported",
}
_SHOWN_BY = "shown by"
_WIDTH = 110
#: Names of tests, and of operators, that a reason lists.
_NAMED = 6
_OF_CELL = 4
#: Reasons for what is unsupported: a whole catalog has hundreds.
_CANNOT = 8


@dataclass(frozen=True)
class _Table:
    title: str
    #: Of the column of rows.
    what: str
    headings: Sequence[str]
    rows: dict[str, dict[str, SupportEntry]]


def text(document: Support) -> Iterator[str]:
    """Return the report as lines of markup."""
    for table in _tables(document):
        for part in _parts(table):
            names = [table.what, *part, *(_last(document) if part[-1] == table.headings[-1] else ())]
            rows = [
                (escape(name), *(_coloured(cells.get(heading)) for heading in part), *map(escape, _by(cells, names)))
                for name, cells in table.rows.items()
            ]
            yield from (f"[bold]{escape(table.title)}[/]", *columns(names, rows), "")
    reasons = _reasons(document)
    if reasons:
        yield "[bold]reasons[/]"
    for why, names in reasons:
        yield from (f"  {escape(why)}", f"      {escape(', '.join(names))}")
    yield from ("", *_summary(document)) if reasons else _summary(document)


def markdown(document: Support) -> str:
    """Return the report as Markdown."""
    lines = []
    for table in _tables(document):
        names = [table.what, *table.headings, *_last(document)]
        lines += [
            f"### {escaped(table.title)}",
            "",
            f"| {' | '.join(map(escaped, names))} |",
            "|---" * len(names) + "|",
        ]
        for name, cells in table.rows.items():
            words = [name, *(_word(cells.get(heading)) for heading in table.headings), *_by(cells, names)]
            lines.append(f"| {' | '.join(map(escaped, words))} |")
        lines.append("")
    for why, names in _reasons(document):
        lines.append(f"- {escaped(harmless(why))}: {', '.join(f'`{name}`' for name in names)}")
    return "\n".join([*lines, "", *map(escaped, _summary(document))]).strip("\n") + "\n"


def _last(document: Support) -> Sequence[str]:
    """Return the heading of the last column, of operators."""
    return [_SHOWN_BY] if document["by"] == "operator" else []


def _tables(document: Support) -> list[_Table]:
    """Return tables of a framework: one a target, or one a pipeline where the targets are more.

    Rows and columns without any answer but «cannot» are left out; their reasons follow the tables.
    """
    tables: list[_Table] = []
    frameworks: dict[str, list[SupportEntry]] = defaultdict(list)
    for entry in document["entries"]:
        frameworks[entry["framework"]].append(entry)
    for framework, entries in frameworks.items():
        able = [entry for entry in entries if entry["answer"] != "cannot"]
        kept = {entry["name"] for entry in able}, {(entry["pipeline"], entry["target"]) for entry in able}
        pipelines, targets = ({entry[key] for entry in able} for key in ("pipeline", "target"))
        by_target = len(targets) <= len(pipelines)
        groups: dict[str, list[SupportEntry]] = defaultdict(list)
        for entry in entries:
            if entry["name"] in kept[0] and (entry["pipeline"], entry["target"]) in kept[1]:
                groups[entry["target"] if by_target else entry["pipeline"]].append(entry)
        for name, members in groups.items():
            rows: dict[str, dict[str, SupportEntry]] = defaultdict(dict)
            for entry in members:
                rows[entry["name"]][entry["pipeline"] if by_target else entry["target"]] = entry
            headings = dict.fromkeys(heading for cells in rows.values() for heading in cells)
            title = f"{framework} on {name}" if by_target else f"{framework} through {name}"
            tables.append(_Table(title, document["by"], list(headings), dict(sorted(rows.items()))))
    return _merged(tables)


def _merged(tables: Sequence[_Table]) -> list[_Table]:
    """Return tables; those with the same answers as one."""
    found: dict[str, list[_Table]] = defaultdict(list)
    for table in tables:
        words = [(name, *(_word(cells.get(each)) for each in table.headings)) for name, cells in table.rows.items()]
        found[f"{table.title.partition(' ')[0]} {table.headings} {words}"].append(table)
    return [
        replace(first, title=", ".join([first.title, *(other.title.split(" ", 2)[2] for other in others)]))
        for first, *others in found.values()
    ]


def _parts(table: _Table) -> Iterator[list[str]]:
    """Yield columns that fit beside the names of rows."""
    names = max(map(len, (table.what, *table.rows)))
    part: list[str] = []
    for heading in table.headings:
        if part and names + sum(2 + max(len(each), 9) for each in (*part, heading)) > _WIDTH:
            yield part
            part = []
        part.append(heading)
    yield part


def _word(entry: SupportEntry | None) -> str:
    if entry is None:
        return ""
    word = f"✗ {entry.get('stage', 'fails')}" if entry["answer"] == "fails" else entry["answer"]
    return word + ("" if entry["expected"] else " !") + (" *" if "fails_in" in entry else "")


def _coloured(entry: SupportEntry | None) -> str:
    colour = _COLOURS.get(entry["answer"], "dim") if entry else "dim"
    return f"[{colour}]{_word(entry)}[/]" if entry else ""


def _by(cells: dict[str, SupportEntry], names: Sequence[str]) -> list[str]:
    """Return the workloads that show what works, as a cell of the last column; nothing without that column."""
    if names[-1] != _SHOWN_BY:
        return []
    found = (entry["test"] for entry in cells.values() if entry["answer"] in ("yes", "compiles", "weak"))
    workloads = list(dict.fromkeys(TestId.parse(test).called for test in found))
    return [", ".join([*workloads[:2], *(["…"] if len(workloads) > 2 else [])])]


def _reasons(document: Support) -> list[tuple[str, list[str]]]:
    """Return each distinct reason with the names of its tests; failures come first."""
    found: dict[tuple[str, str], list[SupportEntry]] = defaultdict(list)
    for entry in document["entries"]:
        for bad in entry.get("fails_in", ()):
            found["yes *", f"but {bad['answer']} in a test: {bad['reason']}"].append({**entry, "test": bad["test"]})
        if entry["reason"]:
            # «workload exp has no pytorch source» is one reason, whatever the workload.
            test = TestId.parse(entry["test"])
            names = f"workload {re.escape(test.called)}|target {re.escape(test.target)}"
            why = re.sub(rf"\b({names})(?=\s)", lambda found: f"the {found[0].partition(' ')[0]}", entry["reason"])
            where = f" ({entry['position']})" if "position" in entry else ""
            found[_word(entry), f"{why}{where}"].append(entry)
    ranked = sorted(found.items(), key=lambda item: (item[0][0] == "cannot", item[1][0]["expected"]))
    name = _operators if document["by"] == "operator" else _tests
    shown = sum(word != "cannot" for (word, _), _ in ranked) + _CANNOT
    lines = [(f"{word}: {why}", name(entries)) for (word, why), entries in ranked[:shown]]
    if rest := ranked[shown:]:
        lines.append((f"cannot, for {counted(len(rest), 'more reason')}", ["--format json has all"]))
    return lines


def _operators(entries: Sequence[SupportEntry]) -> list[str]:
    """Return the names of operators, with the tests that decide."""
    names = _cut(sorted({entry["name"] for entry in entries}))
    return [*names[:-1], f"{names[-1]} in {', '.join(_tests(entries))}"]


def _tests(entries: Sequence[SupportEntry]) -> list[str]:
    """Return tests as globs, one a cell: ``jax/linalg-loops/x86_64/{mlp,topk}``."""
    cells: dict[str, dict[str, None]] = defaultdict(dict)
    for name in dict.fromkeys(entry["test"] for entry in entries):
        test = TestId.parse(name)
        cells[test.cell].setdefault(test.called)
    return _cut([str(TestId.in_cell(cell, _braces(list(names)))) for cell, names in cells.items()])


def _braces(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return "{" + ",".join(names) + "}" if len(names) <= _OF_CELL else f"* ({len(names)})"


def _cut(names: Sequence[str]) -> list[str]:
    return [*names] if len(names) <= _NAMED else [*names[:_NAMED], f"… and {len(names) - _NAMED} more"]


def _summary(document: Support) -> list[str]:
    summary = document["summary"]
    answers = summary["answers"]
    words = ", ".join(f"{number} {word}" for word, number in answers.items())
    lines = [f"{counted(summary['tests'], 'test')}; {counted(summary['entries'], 'answer')}: {words}"]
    means = [
        meaning if meaning.startswith("✗") else f"{word}: {meaning}"
        for word, meaning in _MEANS.items()
        if word in answers
    ]
    if not all(entry["expected"] for entry in document["entries"]):
        means.append("!: not as the suite expects")
    if any("fails_in" in entry for entry in document["entries"]):
        means.append("*: another test fails by it")
    return [*lines, *(["; ".join(means)] if means else [])]
