"""How verdicts speak of a property: what should be, and what was found."""

from __future__ import annotations


def of_relation(relation: str, outcome: str, reason: str) -> str:
    """The reason of a verdict on ``relation``, which is the property in words."""
    return f"{relation}: {reason}" if outcome == "pass" else f"expected: {relation}; found: {reason}"
