"""Which files a program in the form of a script needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.actions.sandbox.root import needed_by


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [("script", 0o755, True), ("secret", 0o600, False), ("folder", 0o755, False), ("absent", 0, False)],
)
def test_a_script_needs_an_interpreter_and_no_other_file(tmp_path: Path, name: str, mode: int, expected: bool) -> None:
    """The first line of what a catalog's build has made may name any path of the machine."""
    named = tmp_path / name
    if name == "folder":
        named.mkdir()
    elif mode:
        named.write_text("#!/bin/sh\n")
        named.chmod(mode)
    program = tmp_path / "program"
    program.write_text(f"#!{named}\n")
    found = set(needed_by(str(program)))
    assert str(program) in found
    assert (str(named) in found) == ("/bin/sh" in found) == expected
