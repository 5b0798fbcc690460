"""What verbs print may have text of others: of servers, of git, of programs under test. A terminal must not obey it."""

from __future__ import annotations

import pytest
from rich.text import Text

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.layout import print_lines
from mlir_matrix.cli.output import note, show, warn

HOSTILE = "a \x1b[2Jb\x07\r\x9b"
SHOWN = "a \\x1b[2Jb\\x07\\r\\x9b"


def test_lines_of_reports(capsys: pytest.CaptureFixture[str]) -> None:
    show("text", None, [HOSTILE])
    show("table", None, [HOSTILE, f"[bold]{HOSTILE}[/]"], markup=True)
    # Rich takes BEL and CR out of a Text.
    print_lines([Text("a \x1b[2Jb"), Text.assemble(("a \x1b[2Jb", "red"), " c")])
    assert capsys.readouterr().out.splitlines() == [SHOWN, SHOWN, SHOWN, r"a \x1b[2Jb", r"a \x1b[2Jb c"]


def test_messages(capsys: pytest.CaptureFixture[str]) -> None:
    note(f"{HOSTILE}\n\tsecond line")
    warn(InfrastructureError(HOSTILE))
    assert capsys.readouterr().err.splitlines() == [SHOWN, "\tsecond line", f"matrix: {SHOWN}"]


def test_documents(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has the text itself, in characters that a terminal prints."""
    show("json", {"reason": HOSTILE}, [])
    assert capsys.readouterr().out.splitlines() == ["{", r' "reason": "a \u001b[2Jb\u0007\r\u009b"', "}"]
