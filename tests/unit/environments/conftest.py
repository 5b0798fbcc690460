"""Fixtures that several modules of this folder use."""

from __future__ import annotations

from support.wheelhouse import wheels

__all__ = ["wheels"]
