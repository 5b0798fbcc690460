"""Escape foreign text for Markdown, and convert a report in Markdown to an HTML page that loads no other files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from mlir_matrix.base.files import write_text

_STYLE = """\
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
h1, h2, td { overflow-wrap: anywhere; }
table { border-collapse: collapse; } td, th { border: 1px solid var(--line); padding: .2rem .6rem; text-align: left; }
td:first-child { white-space: nowrap; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 4px; padding: .7rem; overflow-x: auto; }
code { font: 13px/1.45 ui-monospace, monospace; }
code.language-text { white-space: pre-wrap; }
ins, del { text-decoration: none; } ins { background: #2a43; } del { background: #d333; }
"""
#: Characters that CommonMark and GitHub may interpret as markup.
_MARKUP = re.compile(r"[\\`*_\[\]<>|#!&~$]")


def write_with_page(path: Path, markdown: str) -> None:
    """Write a report as Markdown, and as HTML beside it. Raise InfrastructureError."""
    write_text(path, markdown)
    write_text(path.with_suffix(".html"), page(markdown))


def page(markdown: str) -> str:
    """Return HTML. HTML inside the Markdown becomes text."""
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _highlight}).enable("table")
    tokens = parser.parse(markdown)
    heading = next((each.children or [] for each in tokens if each.type == "inline"), [])
    title = "".join(each.content for each in heading)
    body = parser.renderer.render(tokens, parser.options, {})
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>\n{_STYLE}</style></head>\n<body>\n{body}</body></html>\n'
    )


def _highlight(text: str, language: str, _attributes: str) -> str:
    """Mark added and removed lines in a difference."""
    if language != "diff":
        return ""
    marks = {"+": "ins", "-": "del"}
    lines = []
    for line in text.splitlines():
        mark = marks.get(line[:1])
        lines.append(f"<{mark}>{escape(line)}</{mark}>" if mark else escape(line))
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return foreign text for the middle of a line, escaped so that Markdown finds no markup in it."""
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.splitlines())


def fenced(language: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a block of code that no line in it ends."""
    fence = "`" * max(3, _longest_run("\n".join(lines)) + 1)
    yield from (f"{fence}{language}", *lines, fence)


def code(text: str) -> str:
    """Return code for the middle of a line. The code may contain backticks."""
    fence, space = "`" * (_longest_run(text) + 1), " " if "`" in text else ""
    return f"{fence}{space}{one_line(text)}{space}{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
