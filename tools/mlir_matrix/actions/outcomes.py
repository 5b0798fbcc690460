"""The words for outcomes of tests and stages of actions, as documents have them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


class Outcome(StrEnum):
    """How a test ends."""

    PASS = "pass"  # noqa: S105
    SLOWER = "slower"
    MISMATCH = "mismatch"
    IMPORT_FAILED = "import-failed"
    LOWER_FAILED = "lower-failed"
    CODEGEN_FAILED = "codegen-failed"
    RUN_FAILED = "run-failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    INFRA_ERROR = "infra-error"
    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"


#: The outcomes of programs that compute the right results.
RIGHT = frozenset({Outcome.PASS, Outcome.SLOWER})
#: The outcomes of tests that do not run.
NotRun = Literal[Outcome.UNSUPPORTED, Outcome.SKIPPED]


class Stage(StrEnum):
    """What an action does for a test; a failure has the outcome of its stage."""

    IMPORT = "import"
    LOWER = "lower"
    CODEGEN = "codegen"
    RUN = "run"
    JUDGE = "judge"


def of_relation(relation: str, outcome: str, reason: str) -> str:
    """Return the reason of a verdict on a property, which ``relation`` is in words."""
    return f"{relation}: {reason}" if outcome == Outcome.PASS else f"expected: {relation}; found: {reason}"


def judged_by(owner: str) -> str:
    """Return which FileCheck judges: that of a release, or the one in Python."""
    return f"FileCheck of {owner}" if owner else "FileCheck in Python"
