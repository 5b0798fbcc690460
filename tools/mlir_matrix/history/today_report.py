"""Show what is new since a time: as text for a terminal, as Markdown, as a mail."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mlir_matrix.base.text import counted, harmless, shortened
from mlir_matrix.history.documents import FirstBadTest, Today, TodayCause, TodayPlace
from mlir_matrix.results.report.markdown import code, escaped, one_line

#: How many new causes show all they have, and the most entries of each section: the first that fits on the screen is taken.
_SHORTER = ((3, 5), (2, 3), (1, 2), (1, 1))
_MOST_MARKDOWN = 50
#: The most groups of machines of a cause, each with the runs between which it came.
_MOST_GROUPS = 2
#: The most characters of the patterns of a cause.
_LONGEST = 400
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
        return f"no run since {_minute(document['since'])}"
    new = f"{counted(of['new'], 'test')} newly {'fails' if of['new'] == 1 else 'fail'}"
    parts = [f"{new}, {counted(of['new_causes'], 'cause')}" if of["new"] else "nothing new fails"]
    words = {
        "changed": "in another way",
        "fixed": "fixed",
        "still": "as before",
        "trouble": "undecided",
        "flaky": "flaky",
        "slower": "slower",
    }
    parts += [f"{of[kind]} {word}" for kind, word in words.items() if of[kind]]
    return "; ".join(parts)


def text(document: Today) -> list[str]:
    """Return at most 40 lines of 100 columns; a command may be longer, and counts as the lines that it needs."""
    for whole, most in _SHORTER:
        lines = _lines(document, whole, most)
        if sum(-(-len(line) // _WIDTH) or 1 for line in lines) <= _HEIGHT:
            break
    return lines


def _lines(document: Today, whole: int, most: int) -> list[str]:
    lines = [_cut(f"since {_minute(document['since'])} UTC: {summary(document)}")]
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
    return [*lines, "", "all of it: matrix history today --format markdown"] if is_cut else lines


def markdown(document: Today) -> str:
    """Return the answer as Markdown; text of tests is no markup in it."""
    lines = [f"# {escaped(summary(document))}", "", f"Since {_minute(document['since'])} UTC."]
    for heading, entries in _sections(document, _MOST_MARKDOWN):
        lines += ["", f"## {heading}", ""]
        for entry in entries[:_MOST_MARKDOWN]:
            lines.append(f"- {escaped(entry.line)}")
            for label, value in entry.details:
                lines.append(f"  - {label}: {code(value) if label in _COMMANDS else escaped(value)}")
        if len(entries) > _MOST_MARKDOWN:
            lines += ["", f"… and {len(entries) - _MOST_MARKDOWN} more: `matrix history today --format json`"]
    return harmless("\n".join(lines)) + "\n"


def _sections(document: Today, whole: int) -> Iterator[tuple[str, list[_Entry]]]:
    """Yield headings with their entries, the most urgent first; ``whole``: of how many new causes to show all."""
    new = document["new"]
    found = [
        _Entry(f"{counted(len(cause['tests']), 'test')}: {cause['title']}", list(_details(cause)))
        for cause in new[:whole]
    ]
    found += [_Entry(_heading(cause)) for cause in new[whole:]]
    kinds = {
        "new failures": found,
        "undecided: the infrastructure failed": [_Entry(_heading(cause)) for cause in document["trouble"]],
        "fail in another way than before": [_Entry(_heading(cause)) for cause in document["changed"]],
        "fixed": [_Entry(_heading(cause)) for cause in document["fixed"]],
        "bad as before": [_Entry(_heading(cause) + _bad_since(cause)) for cause in document["still"]],
        "flaky": [
            _Entry(f"{each['id']}: {100 * each['rate']:.0f} % of {each['executions']}") for each in document["flaky"]
        ],
        "slower": [
            _Entry(f"{each['id']} on {each['host']}: {each['before']:.2f} s, now {each['after']:.2f} s")
            for each in document["slower"]
        ],
        "machines": [
            _Entry(
                f"{_where(each['host'], each['pins'])}: {counted(each['runs'], 'run')}, the last {_minute(each['last_run'])}; "
                f"{counted(each['tests'], 'test')}, {each['unexpected']} unexpected, {each['new']} new"
            )
            for each in document["machines"]
            if each["runs"]
        ],
        "notes": [_Entry(note) for note in document["notes"]],
    }
    yield from ((heading, entries) for heading, entries in kinds.items() if entries)


def _heading(cause: TodayCause) -> str:
    """Return a cause with its machines."""
    places = ", ".join(_where(place["host"], place["pins"]) for place in cause["places"])
    return f"{counted(len(cause['tests']), 'test')} on {shortened(places, 40)}: {one_line(cause['title'])}"


def _where(host: str, pins: str) -> str:
    return f"{host} ({pins})" if pins else host


def _bad_since(cause: TodayCause) -> str:
    found = [place["first_bad"] for place in cause["places"] if place["first_bad"]]
    return f" (since {min(each['first_bad']['started'] for each in found)[:10]})" if found else ""


def _details(cause: TodayCause) -> Iterator[tuple[str, str]]:
    if cause["file"]:
        yield "file", cause["file"]
    yield "tests", shortened(", ".join(cause["globs"]), _LONGEST)
    if len(cause["tests"]) > 1:
        yield "example", cause["example"]
    for places, dated in _alike(cause["places"])[:_MOST_GROUPS]:
        yield "on", ", ".join(f"{_where(place['host'], place['pins'])}: {place['tests']}" for place in places)
        yield "since", _dates(dated)
        yield from _changes(dated, cause["file"])
    if cause["flaky"]:
        yield "flaky", f"{cause['flaky']} of {counted(len(cause['tests']), 'test')}"
    if cause["next"]:
        yield "next", cause["next"]


def _alike(places: Iterable[TodayPlace]) -> list[tuple[list[TodayPlace], FirstBadTest]]:
    """Group places in which the same changed."""
    groups: dict[str, list[tuple[TodayPlace, FirstBadTest]]] = defaultdict(list)
    for place in places:
        if dated := place["first_bad"]:
            groups[str([dated["commits"], dated["pins"], _versions(dated)])].append((place, dated))
    return [([place for place, _ in each], each[0][1]) for each in groups.values()]


def _dates(dated: FirstBadTest) -> str:
    first, good = dated["first_bad"], dated["last_good"]
    before = f"passed until {_minute(good['last_seen'])}" if good else "never passed"
    return f"{_minute(first['started'])}, run {first['id'][:_SHORT]}; {before}"


def _versions(dated: FirstBadTest) -> list[str]:
    good = dated["last_good"]
    return [good["version"], dated["first_bad"]["version"]] if good else []


def _changes(dated: FirstBadTest, file: str) -> Iterator[tuple[str, str]]:
    """Yield what differs between the last good and the first bad run."""
    before = _versions(dated)
    changed = [f"mlir-matrix {' → '.join(before)}"] if len(set(before)) > 1 else []
    changed += [f"{name} {old} → {new}" for name, (old, new) in dated["pins"].items()]
    changed += [f"files in {each['folder']} that are not committed" for each in dated["commits"] if each["dirty"]]
    if changed:
        yield "changed", ", ".join(changed)
    elif dated["last_good"] and not dated["commits"]:
        yield "changed", "nothing that is recorded; see: matrix history show --flaky"
    for each in dated["commits"]:
        if each["good"] != each["bad"]:
            place = ["--", file.rpartition("/")[0] or "."] if file else []
            yield (
                "log",
                shlex.join(
                    ["git", "-C", each["folder"], "log", "--oneline", f"{each['good'][:9]}..{each['bad'][:9]}", *place]
                ),
            )


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _cut(line: str) -> str:
    line = one_line(line)
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
