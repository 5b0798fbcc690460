"""What README.md and docs/ show is what happens: their files are written, their commands run, their output compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import blocks, perform, runnable
from support.workspace import REPOSITORY, Workspace

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=lambda page: page.name)
def test_a_page_shows_what_happens(page: Path, tmp_path: Path, workspace: Workspace) -> None:
    (tmp_path / "tools").symlink_to(REPOSITORY / "tools")
    (tmp_path / "mlir-matrix").symlink_to(REPOSITORY)
    for block in blocks(page):
        title = block.option("title")
        if title is not None:
            path = tmp_path / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.runnable:
            perform(block, tmp_path, workspace.home, f"{page.name}:{block.line}")


def test_every_verb_is_shown_running() -> None:
    text = "\n".join(block.text for page in PAGES for block in runnable(page))
    for verb in (
        "plan",
        "run",
        "explain",
        "compare",
        "golden update",
        "golden explain",
        "golden audit",
        "init",
        "schema",
        "history show",
        "history diff",
        "history export",
    ):
        assert f"tools/matrix {verb} " in text, verb


def test_the_readme_names_the_command_that_tests_everything() -> None:
    commands = [line for block in blocks(REPOSITORY / "README.md") for line in block.text.splitlines()]
    assert "$ tools/test" in commands
    assert "$ tools/matrix run" in commands
