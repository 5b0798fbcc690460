"""A reduction has its folder alone, and no files of others in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.reduce.reduced import LOG, own_folder


def test_a_folder_is_for_one_reduction_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with own_folder(folder):
        with pytest.raises(UsageError, match="another process reduces this test"), own_folder(folder):
            pass
        (folder / LOG).touch()
    with own_folder(folder):
        pass


def test_a_folder_with_files_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog").mkdir()
    with pytest.raises(UsageError, match=r"has files, but no log\.ndjson of a reduction"), own_folder(tmp_path):
        pass
