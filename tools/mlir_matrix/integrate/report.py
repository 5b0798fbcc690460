"""Show what ``matrix integrate`` found: lines for a terminal, the text of a pull request, and a text for each issue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.markup import escape

from mlir_matrix.base.text import abridged, counted, first_few, harmless, shortened
from mlir_matrix.bisect.commits import SHORT
from mlir_matrix.integrate.documents import CarriedPatch, IntegrationBreak, IntegrationDocument, UpstreamCommit

_LONGEST = 150
#: How many tests of a break to name.
_NAMED = 3
_FAULTS = {"upstream": "upstream", "patch": "a carried patch", "catalog": "the catalog"}


def lines(document: IntegrationDocument) -> Iterator[str]:
    """Yield the lines of a report."""
    yield f"{escape(document['component'])}  {counted(document['summary']['commits'], 'commit')} after {_name(document['start'])}"
    at_end = document["furthest"]["commit"] == document["newest"]["commit"]
    yield f"  newest          {_name(document['newest'])}"
    yield f"  furthest green  [bold]{'the newest' if at_end else _name(document['furthest'])}[/]"
    if document["broken_before"]:
        yield f"  not as expected from the start, and not counted: {_tests(document['broken_before'])}"
    for test, commit in document["flaky"].items():
        yield f"  flaky           {escape(test)}, at {commit[:SHORT]}"
    for renamed in document["renames"]:
        yield f"  renamed         {escape(renamed['old'])} → {escape(renamed['new'])} in {_name(renamed['culprit'])}"
    for each in document["breaks"]:
        yield ""
        yield from _break(each)
    if document["patches"]:
        yield ""
        yield from _patches(document["patches"])
    if document["reverts"]:
        yield ""
        yield from _reverts(document)
    yield ""
    yield from _end(document)


def _name(commit: UpstreamCommit) -> str:
    return f"{commit['commit'][:SHORT]} {escape(abridged(harmless(commit['subject']), 70))}"


def _tests(names: Sequence[str]) -> str:
    return escape(first_few(names, _NAMED))


def _break(found: IntegrationBreak) -> Iterator[str]:
    what = "the build" if found["kind"] == "build" else counted(len(found["tests"]), "test")
    yield f"[bold]{found['outcome']}[/] {what}: {escape(shortened(harmless(found['reason']), _LONGEST))}"
    if found["tests"]:
        yield f"  tests:    {_tests(found['tests'])}"
    first, *others = found["culprits"]
    yield f"  culprit:  {_name(first)}"
    for other in others:
        yield f"        or  {_name(other)}"
    because = f": {escape(found['because'])}" if found["because"] else ""
    yield f"  mend:     {_FAULTS[found['fault']]}{because}"
    for each in found["behind"]:
        yield f"  behind:   {escape(each)}"
    if found["reduction"]:
        yield f"  reduced:  {escape(found['reduction'])}"
    if found["trouble"]:
        yield f"  not reduced: {escape(shortened(harmless(found['trouble']), _LONGEST))}"
    if found["report"]:
        yield f"  report:   {escape(found['report'])}"


def _patches(patches: Sequence[CarriedPatch]) -> Iterator[str]:
    width = max(len(each["name"]) for each in patches)
    for each in patches:
        commit = f"{each['commit'][:SHORT]} " if each["commit"] and each["state"] == "upstreamed" else ""
        reason = escape(shortened(harmless(each["reason"]), _LONGEST))
        merged = "; applies by a merge" if each["refreshed"] else ""
        yield f"{escape(each['name']):<{width}}  {each['state']:<10}  {commit}{reason}{merged}"


def _reverts(document: IntegrationDocument) -> Iterator[str]:
    found = document["reverts"]
    assert found is not None
    held = "everything expected holds" if found["green"] else f"not green: {escape(found['trouble'])}"
    yield f"newest with {counted(len(found['reverts']), 'revert')}: {held}"
    for each in found["reverts"]:
        yield f"  {escape(each)}"


def _end(document: IntegrationDocument) -> Iterator[str]:
    summary = document["summary"]
    if not document["complete"]:
        yield "The time was over; the same command goes on from here."
    yield f"Assumed: {document['assumed']}."
    if document["not_proposed"]:
        yield f"No branch: {escape(document['not_proposed'])}"
    for branch in document["branches"]:
        commits = counted(branch["commits"], "commit")
        yield f"branch: {escape(branch['name'])} of {escape(branch['repository'])}, {commits}"
    for each in document["patches_to_apply"]:
        yield f"No branch, because {escape(each['folder'])} is in no git repository: apply {escape(each['patch'])} there"
    if document["folder"]:
        yield f"folder: {escape(document['folder'])}"
    counts = f"{counted(summary['trials'], 'trial')}, {counted(summary['breaks'], 'break')}"
    # A job of Buildbot shows the last line.
    yield f"[bold]{counts}[/] in {summary['seconds']:.0f} s; furthest green: {_name(document['furthest'])}"


def pull_request(document: IntegrationDocument) -> Iterator[str]:
    """Yield the lines of a pull request's text, in Markdown: its title first."""
    yield f"Move {document['component']} to {document['pin']['commit'][:SHORT]}"
    yield ""
    yield f"From {_code(document['start'])} to {_code(document['pin'])}."
    before = document["broken_before"]
    besides = f", besides {counted(len(before), 'test')} that were not before" if before else ""
    yield f"{counted(document['summary']['tests'], 'test')} ran there; all are as expected{besides}."
    yield ""
    for each in document["renames"]:
        yield f"Step {each['step']}: `{each['old']}` is `{each['new']}` since {_code(each['culprit'])}."
        yield ""
    if document["patches"]:
        yield "| carried patch | is | because |"
        yield "|---|---|---|"
        for patch in document["patches"]:
            commit = f"{patch['commit'][:SHORT]} " if patch["state"] == "upstreamed" else ""
            yield f"| {_cell(patch['subject'])} | {patch['state']} | {_cell(commit + patch['reason'])} |"
        yield ""
    if document["pin"] != document["furthest"] and document["reverts"]:
        yield "With these reverts:"
        yield ""
        for subject in document["reverts"]["reverts"]:
            yield f"- {_cell(subject)}"
        yield ""
    if document["breaks"]:
        yield f"What holds back the commits up to {_code(document['newest'])}:"
        yield ""
        for found in document["breaks"]:
            what = "the build" if found["kind"] == "build" else counted(len(found["tests"]), "test")
            since = " or ".join(map(_code, found["culprits"]))
            yield f"- {what}, {found['outcome']}, since {since}: {_cell(found['reason'])}"
        yield ""
    yield f"Assumed: {document['assumed']}."


def _code(commit: UpstreamCommit) -> str:
    return f"`{commit['commit'][:SHORT]}` {_cell(commit['subject'])}"


def _cell(text: str) -> str:
    return shortened(" ".join(harmless(text).split()), _LONGEST).replace("|", "\\|").replace("<", "&lt;")


def issue(document: IntegrationDocument, found: IntegrationBreak, repeat: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the text of an issue about a break, in Markdown; ``repeat``: commands that show it."""
    what = "cannot be built" if found["kind"] == "build" else f"{found['outcome']} of {found['tests'][0]}"
    yield f"# {document['component']}: {what} since {found['culprits'][0]['commit'][:SHORT]}"
    yield ""
    yield f"{' or '.join(map(_code, found['culprits']))} changed it. {_code(found['last_good'])} does not show it."
    yield ""
    yield "```"
    yield harmless(found["reason"])
    yield "```"
    yield ""
    if found["tests"]:
        yield f"{counted(len(found['tests']), 'test')}:"
        yield ""
        for test in found["tests"]:
            yield f"- {test}"
        yield ""
    yield f"What has to change: {_FAULTS[found['fault']]}{': ' if found['because'] else ''}{found['because']}."
    yield ""
    yield "```console"
    for command in repeat:
        yield f"$ {command}"
    yield "```"
    if found["program"]:
        yield ""
        yield f"The program of {found['tests'][0]}, reduced:"
        yield ""
        yield "```mlir"
        yield harmless(found["program"].rstrip("\n"))
        yield "```"
