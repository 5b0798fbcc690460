"""Show the proposals of `matrix expect` as text: one line per reason, then the patches."""

from __future__ import annotations

from collections.abc import Iterator

from mlir_matrix.base.names import printable
from mlir_matrix.base.text import counted
from mlir_matrix.expectations.documents import Differing, Expect, ExpectationsChange, Upstream

#: The most names of tests in a line.
_SHOWN = 3


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
    if upstream := document.get("upstream"):
        yield from _upstream(upstream)
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


def _upstream(found: Upstream) -> Iterator[str]:
    """Yield the numbers of each cell, then the tests that only upstream, or only this run, has as failures."""
    for cell in found["cells"]:
        theirs, ours = (_tests_in(cell[key]) for key in ("only_they_fail", "only_we_fail"))
        yield f"{cell['cell']}: {', '.join(cell['sets'])}"
        yield (
            f"  {cell['both_pass']} pass as expected upstream, {cell['both_fail']} fail as expected,"
            f" {theirs} pass only here, {ours} fail only here, {len(cell['not_run'])} of the sets are not run here"
        )
        for word, groups in (("pass only here", cell["only_they_fail"]), ("fail only here", cell["only_we_fail"])):
            for group in groups:
                reason = " ".join(group["reason"].split())
                if group["outcome"] != "pass":
                    reason = f"{group['outcome']}: {reason}"
                yield f"  {len(group['tests']):>4} {word}: {printable(reason, 400)}"
                yield f"         {_first_names(group['tests'])}"


def _tests_in(groups: list[Differing]) -> int:
    return sum(len(group["tests"]) for group in groups)


def _first_names(names: list[str]) -> str:
    more = f", … {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return printable(", ".join(names[:_SHOWN]), 400) + more
