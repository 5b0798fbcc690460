"""The compiled half of comparisons, made by the Zig that kernels are linked with."""

from __future__ import annotations

import ctypes

import pytest

from mlir_matrix.compare import native
from mlir_matrix.environments.installer import require
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session


@pytest.fixture(scope="session")
def library(current: Session) -> ctypes.CDLL:
    """What :func:`mlir_matrix.compare.native.load` gives where Zig is there."""
    zig = current.environment("zig")
    assert isinstance(zig, ResolvedEnvironment)
    require(current, zig)
    native.load.cache_clear()
    loaded = native.load()
    assert loaded is not None, "it could not be made or loaded"
    return loaded
