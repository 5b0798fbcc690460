"""Fixtures that several modules of this folder use."""

from __future__ import annotations

from wheelhouse import wheels

__all__ = ["wheels"]
