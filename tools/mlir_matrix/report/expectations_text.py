"""Show what `matrix expect` proposes as text: a line a reason, then the patches."""

from __future__ import annotations

from collections.abc import Iterator

from mlir_matrix.names import printable
from mlir_matrix.report.schemas.expect import ExpectationChange, ExpectationsChange, MembersChange
from mlir_matrix.text import counted


def lines(members: MembersChange | None, expectations: ExpectationsChange | None) -> Iterator[str]:
    """Yield what changes by reason, what is left, and the patches."""
    if members:
        for sign, names in (("added", members["added"]), ("removed", members["removed"])):
            yield from (f"{sign:<8} {printable(name)}" for name in names)
    if expectations:
        rows: list[tuple[str, int, str, str, str]] = [
            (each["state"], len(each["tests"]), each["outcome"], each["cell"], _because(each))
            for each in expectations["changes"]
        ]
        groups: dict[tuple[str, str], list[str]] = {}
        for test in expectations["left"]:
            groups.setdefault((test["outcome"], test["reason"]), []).append(test["test"])
        rows += [("left", len(tests), outcome, tests[0], reason) for (outcome, reason), tests in groups.items()]
        widest = max((len(row[3]) for row in rows), default=0)
        for state, count, outcome, where, reason in rows:
            yield f"{state:<8} {count:>5}  {outcome:<14}  {printable(where, 400):<{widest}}  {printable(reason, 400)}"
        yield f"{counted(expectations['expected'], 'test')} expected to fail, {len(expectations['left'])} left"
    for part in (members, expectations):
        if part and part["patch"]:
            yield from ("", part["patch"].removesuffix("\n"))


def _because(change: ExpectationChange) -> str:
    reason = " ".join(change["reason"].split())
    return f"{reason} (was {change['was']})".strip() if change["was"] else reason
