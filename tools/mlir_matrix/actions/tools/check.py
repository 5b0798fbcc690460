"""Run FileCheck as a step: IR that satisfies the directives passes through unchanged; other IR is a ``mismatch``.

inputs   ``ir``; ``directives``: a file with ``CHECK`` lines
outputs  ``ir``: the same bytes
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Action, ActionFailed, under_test
from mlir_matrix.actions.params import StepParams

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: A line that the filecheck package prints for its developers at the end of a block of CHECK-DAG.
_NOISE = re.compile(r"^moving to .*\n", re.MULTILINE)
#: ``FILE:LINE: error: MESSAGE``, the first line of FileCheck's report; LLVM's has a column.
_ERROR = re.compile(r"^[^:\n]*:(\d+):(?:\d+:)?\s+error:\s+(.*)$", re.MULTILINE)
#: The same of a directive that cannot be read, from the FileCheck in Python.
_MALFORMED = re.compile(r"[^:\n]*:(\d+):\d+ (.*)")
#: The prefix of no directive, from either FileCheck.
_LACKING = re.compile(r"check strings found with prefix(?:es)? '?([\w-]+)")


def preload() -> None:
    """Import FileCheck once; it is pure Python and starts no thread."""
    # An environment whose LLVM has FileCheck does not have the one in Python.
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("filecheck.matcher")


def run(action: Action[StepParams]) -> None:
    """Copy ``ir``, or raise ActionFailed with FileCheck's report."""
    ir, directives = Path(action.inputs["ir"]), Path(action.inputs["directives"])
    require(ir, directives)
    Path(action.outputs["ir"]).write_bytes(ir.read_bytes())


def require(ir: Path, directives: Path, options: Sequence[str] = ()) -> None:
    """Raise ActionFailed unless the IR satisfies the directives. Empty IR or directives fail too. ``options``: FileCheck's."""
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options

    parsed = parse_argv_options(["filecheck", *options, str(directives)])
    text = directives.read_text(encoding="utf-8", errors="replace")
    for prefix in parsed.check_prefixes:
        # As LLVM's, which refuses a prefix without directives even if another one has some.
        if not re.search(rf"(?<![\w-]){re.escape(prefix)}(?:-[A-Z]+)*(?:\{{[^}}\n]*\}})?:", text):
            raise ActionFailed(f"no {prefix} lines: nothing would be tested")
    parsed.input_file = str(ir)
    told = io.StringIO()
    # Matcher keeps the sys.stderr of the time at which it is made.
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        try:
            with under_test():
                matcher = Matcher.from_opts(parsed)
                matcher.file.print_line = partial(_line_at, matcher.file)
                code = matcher.run()
        except RuntimeError as error:
            # filecheck raises, and does not report, an error for a check beyond the end of a CHECK-LABEL region.
            told.write(f"{error}\n")
            code = 1
    if code == 0:
        return
    raise refused(_NOISE.sub("", _COLOUR.sub("", told.getvalue())))


def refused(text: str) -> ActionFailed:
    """Return the error for what LLVM's FileCheck or that in Python printed."""
    return ActionFailed(_reason(text), diagnostics=text)


def _line_at(file: Any, start: int | None = None, end: int | None = None) -> str:
    """Return line and column of an offset in the IR, by default that from which the search went on, and mark it.

    The package's own function counts characters for lines, and no lines before a label.
    """
    at: int = file.range.start if start is None else start
    # At the end of a line, the next one is meant.
    at += file.content.startswith("\n", at)
    begin = file.content.rfind("\n", 0, at) + 1
    line = file.content[begin:].partition("\n")[0]
    number = file.content.count("\n", 0, at) + 1
    marks = "^" * max(1, (end or 0) - at)
    return f"{file.fname}:{number}:{at - begin + 1}\n{line}\n{' ' * (at - begin)}{marks}"


def _reason(text: str) -> str:
    """Return one line for the table: the directive and the error, without the pattern, which may be long."""
    if lacking := _LACKING.search(text):
        return f"no {lacking[1]} lines: nothing would be tested"
    if malformed := _MALFORMED.match(text):
        return f"line {malformed[1]} of the directives is malformed: {malformed[2]}"
    found = _ERROR.search(text)
    if not found:
        return f"FileCheck failed: {next(iter(text.splitlines()), 'it prints nothing')}"
    line, message = found.groups()
    return f"the IR does not match line {line} of the directives: {message.split(' (', 1)[0][:200]}"
