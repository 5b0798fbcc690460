"""What an action may use, as options: ``--timeout`` and ``--memory``, and the words that repeat them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mlir_matrix.execute.job import Limits

F = TypeVar("F", bound=Callable[..., Any])
_USUAL = Limits(jobs=1)


class Seconds(click.FloatRange):
    """A range that also leaves out what is no number, which compares with nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        return self.fail("not a number", param, ctx) if math.isnan(seconds) else seconds


def timeout_option(function: F) -> F:
    """``--timeout S``."""
    return click.option(
        "--timeout",
        type=Seconds(0.1, 86_400),
        default=_USUAL.timeout_s,
        show_default=True,
        help="Seconds an action may take.",
    )(function)


def memory_option(function: F) -> F:
    """``--memory M``."""
    return click.option(
        "--memory",
        type=click.IntRange(64, 1 << 20),
        default=_USUAL.memory_mb,
        show_default=True,
        help="MiB an action may use.",
    )(function)


def limit_words(limits: Limits) -> list[str]:
    """The options for limits that are not those of a command without options."""
    words = []
    if limits.timeout_s != _USUAL.timeout_s:
        words += ["--timeout", f"{limits.timeout_s:g}"]
    if limits.memory_mb != _USUAL.memory_mb:
        words += ["--memory", str(limits.memory_mb)]
    return words
