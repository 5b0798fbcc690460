"""Scratch folders: what killed processes leave there goes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.paths import Home
from mlir_matrix.environments.scratch import make_scratch, new_scratch, temporary_folder

#: Makes a temporary folder, says where it is, and waits.
WAITS = """
import sys, time
from mlir_matrix.base.paths import find_home
from mlir_matrix.environments.scratch import temporary_folder
with temporary_folder(find_home()) as folder:
    (folder / "x").write_text("x")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_folders_of_dead_runs_are_swept(home: Home) -> None:
    for name in ("999999999-1", f"{os.getpid()}-1", "odd"):
        (home.scratch / name / "x").mkdir(parents=True)
    made = make_scratch(new_scratch(home), home)
    assert sorted(os.listdir(home.scratch)) == sorted([f"{os.getpid()}-1", made.name])


def test_no_room_for_folders(home: Home) -> None:
    home.actions.parent.mkdir()
    home.actions.write_text("x")
    with pytest.raises(InfrastructureError, match="the scratch folder cannot be created"):
        make_scratch(new_scratch(home), home)


def test_a_temporary_folder_of_a_killed_process(home: Home) -> None:
    """The next one removes it, and only then."""
    environment = {**os.environ, "MATRIX_HOME": str(home.cache), "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", WAITS], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            left = Path(process.stdout.readline().strip())
            with temporary_folder(home):
                assert (left / "x").exists()
        finally:
            process.kill()
    with temporary_folder(home) as folder:
        assert os.listdir(home.scratch) == [folder.name]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "x").write_text("x")
    assert os.listdir(home.scratch) == []


def test_a_temporary_folder_without_a_home(home: Home) -> None:
    home.actions.parent.mkdir()
    home.actions.write_text("x")
    with temporary_folder(home) as folder:
        assert folder.parent == Path(tempfile.gettempdir())
    assert not folder.exists()
