"""Continue bisections from their logs: ``--resume``, ``--replay``, ``--undo``, ``--log``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import is_held
from mlir_matrix.base.paths import find_home
from mlir_matrix.bisect.log import Past, read_log
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import Verb

#: The name of a log in the folder of its bisection.
LAST = "log.ndjson"
_FLAGS = ("--resume", "--undo", "--log")


def bisections() -> Path:
    """Return the folder of all bisections."""
    return find_home().state / "bisect"


class Continued(Verb):
    """A verb whose arguments, where it continues, are those of the bisection before, and what is given now."""

    def __init__(self, *arguments: Any, params: list[click.Parameter], **more: Any) -> None:
        own = [
            click.Option(["--resume"], is_flag=True, expose_value=False, help="Continue the last bisection."),
            click.Option(
                ["--undo"], is_flag=True, expose_value=False, help="With --resume: forget the last observation."
            ),
            click.Option(
                ["--replay"],
                type=click.Path(),
                metavar="LOG",
                expose_value=False,
                help="Begin the bisection of LOG again, with what was observed in it.",
            ),
            click.Option(["--log"], is_flag=True, expose_value=False, help="Show what the last bisection observed."),
        ]
        super().__init__(*arguments, params=[*params, *own], **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            # Of a shell that completes a word.
            return super().parse_args(ctx, args)
        given = {flag for flag in _FLAGS if flag in args}
        args = [word for word in args if word not in given]
        replayed = _take_value(args, "--replay")
        if "--log" in given:
            show("text", None, _shown(_last()))
            ctx.exit(0)
        ctx.obj = _past(given, replayed)
        if isinstance(ctx.obj, Past):
            args = [*ctx.obj.arguments, *args]
            if os.path.isdir(ctx.obj.folder):
                # Folders in the arguments are relative to it.
                os.chdir(ctx.obj.folder)
        ctx.meta["arguments"] = list(args)
        return super().parse_args(ctx, args)


def _past(given: Collection[str], replayed: str) -> Past | None:
    """Return the bisection that these options continue. Raise UsageError."""
    if "--undo" in given and "--resume" not in given:
        raise UsageError("--undo forgets the last observation of a bisection; give it with --resume")
    if "--resume" not in given:
        return read_log(Path(replayed).absolute()) if replayed else None
    if replayed:
        raise UsageError("--resume continues the last bisection and --replay another one; give one of them")
    path = _last()
    if is_held(path.parent):
        raise UsageError(f"the last bisection is still running; its log is {path}")
    return replace(read_log(path), resumed=True, undo="--undo" in given)


def _take_value(args: list[str], option: str) -> str:
    """Remove an option with its value from arguments; return the value."""
    for index, word in enumerate(args):
        if word.startswith(f"{option}="):
            del args[index]
            return word.partition("=")[2]
        if word == option and index + 1 < len(args):
            value = args[index + 1]
            del args[index : index + 2]
            return value
    return ""


def _last() -> Path:
    """Return the log of the last bisection. Raise UsageError."""
    # One that was killed as it began has an empty log.
    logs = sorted((log for log in bisections().glob(f"*/{LAST}") if _modified(log)), key=_modified)
    if not logs:
        raise UsageError(f"there is no bisection to continue in {bisections()}")
    return logs[-1]


def _modified(log: Path) -> int:
    """Return the time of the last event; 0 without any, or where another process has removed it."""
    with suppress(FileNotFoundError):
        found = log.stat()
        return found.st_mtime_ns if found.st_size else 0
    return 0


def _shown(path: Path) -> Iterator[str]:
    """Return the observations of a log, a line each."""
    past = read_log(path)
    yield str(path)
    for each in past.observed:
        result = each["result"]
        judged = " (judged by a person)" if each["judged"] else ""
        yield f"{result['outcome']:<14} {result['id']}  {result['reason'][:120]}{judged}".rstrip()
    for name in sorted(past.skipped):
        yield f"{'skipped':<14} {name}"
