"""``--executor`` and the options of executors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from mlir_matrix.errors import UsageError
from mlir_matrix.execute.options import EXECUTORS, ExecutorOptions
from mlir_matrix.names import DEVICE_PATTERN, DEVICE_RULE, printable


def _devices(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    for value in values:
        if not re.fullmatch(DEVICE_PATTERN, value):
            raise UsageError(f"--device {printable(value)}: expected {DEVICE_RULE}")
    return tuple(dict.fromkeys(values))


device_option = click.option(
    "--device",
    "devices",
    multiple=True,
    callback=_devices,
    metavar="PATH",
    help="Grant a device, e.g. /dev/kvm, to kernels of targets that declare it. Repeatable.",
)
_OPTIONS = (
    click.option(
        "--executor",
        type=click.Choice(EXECUTORS),
        default="local",
        show_default=True,
        help="Execute actions in this way.",
    ),
    click.option(
        "--remote", metavar="URL", default="", help="Bazel: use the remote execution service at grpc://HOST:PORT."
    ),
    click.option(
        "--exec-property",
        "properties",
        multiple=True,
        metavar="[ENVIRONMENT:]KEY=VALUE",
        help="Bazel: set an execution property, e.g. pool=big or zig:pool=small. Repeatable.",
    ),
    click.option("--remote-cache", metavar="URL", default="", help="Bazel: use the remote cache at URL."),
    device_option,
)


def executor_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the verb receives them as ``executor``, an ExecutorOptions."""

    @wraps(function)
    def verb(
        *arguments: Any,
        executor: str,
        remote: str,
        remote_cache: str,
        properties: Sequence[str],
        devices: tuple[str, ...],
        **more: Any,
    ) -> Any:
        given = {"--remote": remote, "--remote-cache": remote_cache, "--exec-property": properties}
        for option, value in given.items():
            if value and executor != "bazel":
                raise UsageError(f"{option} is for --executor bazel; this is --executor {executor}")
        for device in devices:
            if executor != "local":
                raise UsageError(f"--device {device}: only --executor local grants devices; this is {executor}")
            if not os.path.exists(device):
                raise UsageError(f"--device {device}: this machine has no such device")
        chosen = ExecutorOptions(
            executor=executor,
            remote=remote,
            remote_cache=remote_cache,
            properties=tuple(map(_property, properties)),
            devices=devices,
        )
        return function(*arguments, executor=chosen, **more)

    decorated: Callable[..., Any] = verb
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _property(words: str) -> tuple[str, str]:
    key, mark, value = words.partition("=")
    if not (key and mark and value):
        raise UsageError(f"--exec-property {printable(words)}: expected KEY=VALUE, e.g. pool=big")
    return key, value


def executor_words(options: ExecutorOptions) -> list[str]:
    """Return the options that repeat this choice."""
    words = [] if options.executor == "local" else ["--executor", options.executor]
    words += ["--remote", options.remote] if options.remote else []
    words += [word for key, value in options.properties for word in ("--exec-property", f"{key}={value}")]
    words += [word for device in options.devices for word in ("--device", device)]
    return words + (["--remote-cache", options.remote_cache] if options.remote_cache else [])
