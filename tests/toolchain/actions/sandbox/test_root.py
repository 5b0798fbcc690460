"""Which files a program in the form of a script needs, and what it finds in its root."""

from __future__ import annotations

import os
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
    assert (str(named) in found) == expected
    assert {"/bin/sh", "/usr/bin/env", "/usr/bin/grep"} <= set(map(os.path.realpath, found)) | found


@pytest.mark.parametrize("names", [("one",), ("one", "two")], ids=["itself", "each other"])
def test_scripts_that_name_themselves_as_their_interpreter(tmp_path: Path, names: tuple[str, ...]) -> None:
    paths = [str(tmp_path / name) for name in names]
    for path, interpreter in zip(paths, (*paths[1:], paths[0]), strict=True):
        Path(path).write_text(f"#!{interpreter}\n")
        Path(path).chmod(0o755)
    assert {path for path in needed_by(paths[0]) if path.startswith(str(tmp_path))} == set(paths)
