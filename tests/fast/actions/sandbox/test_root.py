"""Which paths an action can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.actions.sandbox.root import needed_by


@pytest.mark.parametrize("names", [("one",), ("one", "two")], ids=["itself", "each other"])
def test_scripts_that_name_themselves_as_their_interpreter(tmp_path: Path, names: tuple[str, ...]) -> None:
    paths = [str(tmp_path / name) for name in names]
    for path, interpreter in zip(paths, (*paths[1:], paths[0]), strict=True):
        Path(path).write_text(f"#!{interpreter}\n")
        Path(path).chmod(0o755)
    assert set(needed_by(paths[0])) == set(paths)
