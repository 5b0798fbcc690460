"""Options that limit actions: ``--timeout``, ``--memory`` and ``--jobs``, and the words that repeat them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from mlir_matrix.execute.options import Limits

F = TypeVar("F", bound=Callable[..., Any])
_USUAL = Limits(jobs=1)


class Seconds(click.FloatRange):
    """A range that also leaves out what is no number, which compares with nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        return self.fail("not a number", param, ctx) if math.isnan(seconds) else seconds


_TIMEOUT = click.option(
    "--timeout",
    type=Seconds(0.1, 86_400),
    default=_USUAL.timeout_s,
    show_default=True,
    metavar="SECONDS",
    help="Stop an action after this time.",
)
_MEMORY = click.option(
    "--memory",
    type=click.IntRange(64, 1 << 20),
    default=_USUAL.memory_mb,
    show_default=True,
    metavar="MIB",
    help="Limit the memory of an action.",
)
_JOBS = click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1, 512),
    default=None,
    metavar="N",
    help="Run N actions at a time. Default: one per core.",
)


def limits_options(*, jobs: bool = True) -> Callable[[F], Callable[..., Any]]:
    """Adds the options; the verb is given ``limits``, what they come to. ``jobs``: whether a person may choose how many."""

    def decorate(function: F) -> Callable[..., Any]:
        @wraps(function)
        def verb(*arguments: Any, timeout: float, memory: int, jobs: int | None = None, **more: Any) -> Any:
            limits = Limits(jobs=jobs or len(os.sched_getaffinity(0)), timeout_s=timeout, memory_mb=memory)
            return function(*arguments, limits=limits, **more)

        decorated = _TIMEOUT(_MEMORY(verb))
        return _JOBS(decorated) if jobs else decorated

    return decorate


def limit_words(limits: Limits) -> list[str]:
    """The options for limits that are not those of a command without options."""
    words = []
    if limits.timeout_s != _USUAL.timeout_s:
        words += ["--timeout", f"{limits.timeout_s:g}"]
    if limits.memory_mb != _USUAL.memory_mb:
        words += ["--memory", str(limits.memory_mb)]
    return words
