"""``--executor`` and what belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from mlir_matrix.errors import UsageError
from mlir_matrix.runner import EXECUTORS, Means

_OPTIONS = (
    click.option(
        "--executor",
        type=click.Choice(EXECUTORS),
        default="local",
        show_default=True,
        help="What executes the actions.",
    ),
    click.option("--remote", metavar="URL", default="", help="Bazel: the remote execution service, grpc://HOST:PORT."),
    click.option("--remote-cache", metavar="URL", default="", help="Bazel: the remote cache."),
)


def means_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the verb is given ``means``, what they come to."""

    @wraps(function)
    def verb(*arguments: Any, executor: str, remote: str, remote_cache: str, **more: Any) -> Any:
        for option, url in (("--remote", remote), ("--remote-cache", remote_cache)):
            if url and executor != "bazel":
                raise UsageError(f"{option} is for --executor bazel; this is --executor {executor}")
        return function(*arguments, means=Means(executor=executor, remote=remote, remote_cache=remote_cache), **more)

    decorated: Callable[..., Any] = verb
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def means_words(means: Means) -> list[str]:
    """The options that say it again."""
    words = [] if means.executor == "local" else ["--executor", means.executor]
    words += ["--remote", means.remote] if means.remote else []
    return words + (["--remote-cache", means.remote_cache] if means.remote_cache else [])
