"""Write JUnit XML: a suite for each cell, a case for each test."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.files import write_output
from mlir_matrix.results.results import NOT_RUN, TestResult

#: Characters that XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(value: str) -> str:
    return _FORBIDDEN.sub("\ufffd", value)


def _case(parent: ElementTree.Element, result: TestResult) -> None:
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
        tag = "error" if result.outcome == Outcome.INFRA_ERROR else "failure"
        wanted = f"expected {result.expectation['outcome']}, got {result.outcome}: " if result.expectation else ""
        problem = ElementTree.SubElement(case, tag, type=result.outcome, message=_text(wanted + result.reason))
        problem.text = _text(result.diagnostics)
    elif result.expectation is not None:
        message = f"expected {result.outcome}: {result.expectation['reason']}"
        ElementTree.SubElement(case, "skipped", message=_text(message))
    elif result.compile_only:
        ElementTree.SubElement(case, "system-out").text = "compiled and checked, not run"


def _is_skipped(result: TestResult) -> bool:
    expected_failure = result.expected and result.expectation is not None
    return result.outcome in NOT_RUN or result.quarantine is not None or expected_failure


def write_junit(path: Path, results: Sequence[TestResult]) -> None:
    """Write the results of a run. Raise InfrastructureError if the file cannot be written."""
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
            _case(suite, result)
    ElementTree.indent(root)
    write_output(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
