"""Compare by NumPy alone: ``tests/toolchain/compare`` shows that compiled code counts alike."""

from __future__ import annotations

import pytest

from mlir_matrix.compare import native


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have large arrays start no compiler."""
    monkeypatch.setattr(native, "load", lambda: None)
