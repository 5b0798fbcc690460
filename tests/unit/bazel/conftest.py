"""Fixtures of several modules of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import Fakes


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """Programs that are all that there is on PATH."""
    made = Fakes(tmp_path)
    monkeypatch.setenv("PATH", str(made.folder))
    monkeypatch.delenv("MATRIX_BAZEL", raising=False)
    return made
