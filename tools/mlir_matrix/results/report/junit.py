"""Write JUnit XML: a suite for each cell, a case for each test."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.files import write_output
from mlir_matrix.base.text import counted
from mlir_matrix.results.results import NOT_RUN, TestResult

if TYPE_CHECKING:
    from mlir_matrix.results.documents import Cause

#: Characters that XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(value: str) -> str:
    return _FORBIDDEN.sub("\ufffd", value)


def _case(parent: ElementTree.Element, result: TestResult, cause: Cause | None) -> None:
    names = {"classname": result.identity.cell.replace("/", "."), "name": result.called}
    case = ElementTree.SubElement(parent, "testcase", names, time=f"{result.duration_s:.4f}")
    if result.outcome in NOT_RUN:
        ElementTree.SubElement(case, "skipped", message=_text(f"{result.outcome}: {result.reason}"))
    elif result.quarantine is not None:
        of = result.quarantine
        message = (
            f"in quarantine until {of['until']} ({of['owner']}): {of['reason']}: {result.outcome}: {result.reason}"
        )
        ElementTree.SubElement(case, "skipped", message=_text(message))
    elif not result.expected:
        if cause is not None:
            properties = ElementTree.SubElement(case, "properties")
            for name, value in (
                ("cause", cause["title"]),
                ("cause-key", cause["key"]),
                ("cause-file", cause.get("file", "")),
            ):
                ElementTree.SubElement(properties, "property", name=name, value=_text(value))
        tag = "error" if result.outcome == Outcome.INFRA_ERROR else "failure"
        wanted = f"expected {result.expectation['outcome']}, got {result.outcome}: " if result.expectation else ""
        problem = ElementTree.SubElement(case, tag, type=result.outcome, message=_text(wanted + result.reason))
        shared = f"cause of {counted(len(cause['tests']), 'test')}: {cause['title']}\n" if cause else ""
        problem.text = _text(shared + result.diagnostics)
    elif result.expectation is not None:
        message = f"expected {result.outcome}: {result.expectation['reason']}"
        ElementTree.SubElement(case, "skipped", message=_text(message))
    elif result.compile_only:
        ElementTree.SubElement(case, "system-out").text = "compiled and checked, not run"


def _is_skipped(result: TestResult) -> bool:
    expected_failure = result.expected and result.expectation is not None
    return result.outcome in NOT_RUN or result.quarantine is not None or expected_failure


def write_junit(path: Path, results: Sequence[TestResult], causes: Iterable[Cause] = ()) -> None:
    """Write the results of a run. Raise InfrastructureError if the file cannot be written."""
    cause_of = {test: cause for cause in causes for test in cause["tests"]}
    cells: dict[str, list[TestResult]] = defaultdict(list)
    for result in results:
        cells[result.identity.cell].append(result)
    root = ElementTree.Element("testsuites", name="mlir-matrix")
    for cell, members in cells.items():
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=cell,
            tests=str(len(members)),
            failures=str(sum(r.fails and r.outcome != Outcome.INFRA_ERROR for r in members)),
            errors=str(sum(r.fails and r.outcome == Outcome.INFRA_ERROR for r in members)),
            skipped=str(sum(map(_is_skipped, members))),
            time=f"{sum(r.duration_s for r in members):.4f}",
        )
        for result in members:
            _case(suite, result, cause_of.get(result.id))
    ElementTree.indent(root)
    write_output(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
