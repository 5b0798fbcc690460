"""Show the proposals of `matrix expect` as text: one line per reason, then the patches."""

from __future__ import annotations

from collections.abc import Iterator

from mlir_matrix.base.names import printable
from mlir_matrix.base.text import counted
from mlir_matrix.expectations.documents import Expect, ExpectationsChange


def lines(document: Expect) -> Iterator[str]:
    """Yield the changes by reason, the tests without a proposal, and the patches."""
    members, expectations = document.get("members"), document.get("expectations")
    if members:
        yield from (f"added    {printable(name)}" for name in members["added"])
        yield from (f"removed  {printable(name)}" for name in members["removed"])
    if expectations:
        rows = list(_rows(expectations))
        widest = max((len(row[3]) for row in rows), default=0)
        for state, count, outcome, where, reason in rows:
            yield f"{state:<8} {count:>5}  {outcome:<14}  {where:<{widest}}  {reason}"
        yield f"{counted(expectations['expected'], 'test')} expected to fail, {len(expectations['left'])} left"
    for part in (members, expectations):
        if part and part["patch"]:
            yield from ("", part["patch"].removesuffix("\n"))


def _rows(found: ExpectationsChange) -> Iterator[tuple[str, int, str, str, str]]:
    """Yield a row for each change, then a row for each reason why tests have no proposal, with the first of these tests."""
    for each in found["changes"]:
        reason = each["reason"] + (f" (was {each['was']})" if each["was"] else "")
        yield each["state"], len(each["tests"]), each["outcome"], each["cell"], printable(" ".join(reason.split()), 400)
    groups: dict[tuple[str, str], list[str]] = {}
    for test in found["left"]:
        groups.setdefault((test["outcome"], test["reason"]), []).append(test["test"])
    for (outcome, reason), tests in groups.items():
        yield "left", len(tests), outcome, printable(tests[0], 400), printable(reason, 400)
