"""Fixtures of several modules of this folder."""

from __future__ import annotations

import time

import pytest

from support.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of this process, which stands still."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made
