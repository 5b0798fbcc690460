"""Folders of users' own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mlir_matrix.home import Home


@pytest.fixture
def homes(tmp_path: Path) -> Callable[[str], Home]:
    """Folders of several users."""

    def make(name: str) -> Home:
        root = tmp_path / name
        return Home(cache=root, state=root / "state", actions=root / "actions")

    return make


@pytest.fixture
def home(homes: Callable[[str], Home]) -> Home:
    """The folders of one."""
    return homes("home")
