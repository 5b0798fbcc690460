"""Show what is new since a time: as text for a terminal, as Markdown, as a mail."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mlir_matrix.base.text import counted, harmless, minute, shortened
from mlir_matrix.history.documents import FirstBadTest, Today, TodayCause, TodayMachine
from mlir_matrix.history.today import Series
from mlir_matrix.history.unexplained import unexplained
from mlir_matrix.results.report.markdown import code, escaped, one_line

#: How many new causes show all they have, and the most entries of each section: the first that fits on the screen is taken.
_SHORTER = ((3, 5), (2, 3), (1, 2), (1, 1))
_MOST_MARKDOWN = 50
#: The most characters of the patterns of a cause.
_LONGEST = 400
#: The most characters of machines in a heading.
_LONGEST_PLACES = 30
_WIDTH, _HEIGHT = 100, 40
#: The labels of commands, which are useless if they are cut.
_COMMANDS = ("log", "next")
_SHORT = 12


class _Entry(NamedTuple):
    """A line, and details below it: a label and its value."""

    line: str
    details: Sequence[tuple[str, str]] = ()


def summary(document: Today) -> str:
    """Return the answer in a line, for the subject of a mail."""
    of = document["summary"]
    if not of["runs"]:
        return f"no run since {minute(document['since'])}"
    new = f"{counted(of['new'], 'test')} newly {'fails' if of['new'] == 1 else 'fail'}"
    parts = [f"{new}, {counted(of['new_causes'], 'cause')}" if of["new"] else "nothing new fails"]
    words = {"changed": "in another way", "still": "as before", "trouble": "undecided"}
    kinds = ("changed", "fixed", "still", "trouble", "flaky", "slower")
    parts += [f"{of[kind]} {words.get(kind, kind)}" for kind in kinds if of[kind]]
    return "; ".join(parts)


def text(document: Today) -> list[str]:
    """Return at most 40 lines of 100 columns; a command may be longer, and counts as the lines that it needs."""
    for whole, most in _SHORTER:
        lines = _lines(document, whole, most)
        if sum(-(-len(line) // _WIDTH) or 1 for line in lines) <= _HEIGHT:
            break
    return lines


def _lines(document: Today, whole: int, most: int) -> list[str]:
    lines = [_cut(f"since {minute(document['since'])} UTC: {summary(document)}")]
    is_cut = False
    for heading, entries in _sections(document, whole):
        shown = entries[:most]
        is_cut |= len(shown) < len(entries)
        lines += ["", heading if len(shown) == len(entries) else f"{heading}, {len(shown)} of {len(entries)}"]
        for entry in shown:
            lines.append(_cut(f"  {entry.line}"))
            width = max((len(label) for label, _ in entry.details), default=0)
            for label, value in entry.details:
                line = f"    {label:<{width}}  {value}"
                lines.append(line if label in _COMMANDS else _cut(line))
    return [*lines, "", "all of it: --format markdown"] if is_cut else lines


def markdown(document: Today) -> str:
    """Return the answer as Markdown; text of tests is no markup in it."""
    lines = [f"# {escaped(summary(document))}", "", f"Since {minute(document['since'])} UTC."]
    for heading, entries in _sections(document, _MOST_MARKDOWN):
        lines += ["", f"## {heading}", ""]
        for entry in entries[:_MOST_MARKDOWN]:
            lines.append(f"- {escaped(entry.line)}")
            for label, value in entry.details:
                lines.append(f"  - {label}: {code(value) if label in _COMMANDS else escaped(value)}")
        if len(entries) > _MOST_MARKDOWN:
            lines += ["", f"… and {len(entries) - _MOST_MARKDOWN} more: `--format json`"]
    return harmless("\n".join(lines)) + "\n"


def _sections(document: Today, whole: int) -> list[tuple[str, list[_Entry]]]:
    """Return headings with their entries, the most urgent first; ``whole``: of how many new causes to show all."""
    new = [_Entry(_heading(cause, where=False), list(details(cause))) for cause in document["new"][:whole]]
    new += [_Entry(_heading(cause)) for cause in document["new"][whole:]]
    sections = [
        ("new failures", new),
        ("undecided: the infrastructure failed", [_Entry(_heading(cause)) for cause in document["trouble"]]),
        ("fail in another way than before", [_Entry(_heading(cause)) for cause in document["changed"]]),
        ("fixed", [_Entry(_heading(cause)) for cause in document["fixed"]]),
        ("bad as before", [_Entry(_heading(cause)) for cause in document["still"]]),
        ("flaky", [_Entry(f"{each['id']}: {each['differing']} of {each['executions']}") for each in document["flaky"]]),
        (
            "slower",
            [
                _Entry(f"{each['id']} on {each['host']}: {each['factor']:.2f} times the {each['cost']}")
                for each in document["slower"]
            ],
        ),
        ("machines", list(map(_machine, document["machines"]))),
        ("notes", list(map(_Entry, document["notes"]))),
    ]
    return [(heading, entries) for heading, entries in sections if entries]


def _machine(machine: TodayMachine) -> _Entry:
    runs, tests = counted(machine["runs"], "run"), counted(machine["tests"], "test")
    where, last = Series(machine["host"], machine["pins"]).words, minute(machine["last_run"])
    counts = f"{tests}, {machine['unexpected']} unexpected, {machine['new']} new"
    return _Entry(f"{where}: {runs}, the last {last}; {counts}")


def first_bad_of(cause: TodayCause) -> FirstBadTest | None:
    """Return the runs between which a cause came, of the machine on which it came first."""
    dated = [place["first_bad"] for place in cause["places"] if place["first_bad"]]
    return min(dated, key=lambda each: each["first_bad"]["started"], default=None)


def _heading(cause: TodayCause, *, where: bool = True) -> str:
    first = first_bad_of(cause)
    since = f", since {minute(first['first_bad']['started'])}" if first else ""
    places = shortened(
        ", ".join(Series(place["host"], place["pins"]).words for place in cause["places"]), _LONGEST_PLACES
    )
    on = f" on {places}" if where else ""
    return f"{counted(len(cause['tests']), 'test')}{on}{since}: {cause['title']}"


def details(cause: TodayCause) -> Iterator[tuple[str, str]]:
    """Yield what is known of a cause: labels and their values."""
    if cause["file"]:
        yield "file", cause["file"]
    yield "tests", shortened(", ".join(cause["globs"]), _LONGEST)
    if len(cause["tests"]) > 1:
        yield "example", cause["example"]
    yield (
        "on",
        ", ".join(f"{Series(place['host'], place['pins']).words}: {place['tests']}" for place in cause["places"]),
    )
    first = first_bad_of(cause)
    if first:
        yield from _changes(first, cause["file"])
    if cause["flaky"]:
        yield "flaky", f"{cause['flaky']} of {counted(len(cause['tests']), 'test')}"
    if cause["next"]:
        yield "next", cause["next"]


def _changes(first: FirstBadTest, file: str) -> Iterator[tuple[str, str]]:
    """Yield the last good and the first bad run, and what differs between them."""
    bad, good = first["first_bad"], first["last_good"]
    if good is None:
        yield "runs", f"bad {bad['id'][:_SHORT]}, the first that the history has"
        return
    yield "runs", f"bad {bad['id'][:_SHORT]}; good {good['id'][:_SHORT]}, until {minute(good['last_seen'])}"
    changed = [f"{name} {old} → {new}" for name, (old, new) in first["pins"].items()]
    if good["version"] != bad["version"]:
        changed.append(f"mlir-matrix {good['version']} → {bad['version']}")
    changed += [f"files in {each['folder']} that are not committed" for each in first["commits"] if each["dirty"]]
    if changed or not first["commits"]:
        yield "changed", ", ".join(changed) or unexplained(first, good)
    folders = [file.rpartition("/")[0] or file] if file else []
    if folders and first["pins"]:
        folders.append("toolchains")
    for each in first["commits"]:
        if each["good"] and each["bad"] and each["good"] != each["bad"]:
            commits = f"{each['good'][:9]}..{each['bad'][:9]}"
            yield "log", shlex.join(["git", "-C", each["folder"], "log", "--oneline", commits, "--", *folders])


def _cut(line: str) -> str:
    line = one_line(line)
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
