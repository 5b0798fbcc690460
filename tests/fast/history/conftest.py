"""A database in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.history.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(f"sqlite:///{tmp_path / 'history.sqlite'}")
    yield made
    made.close()
