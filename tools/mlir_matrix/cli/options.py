"""Options that several verbs take."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlir_matrix.cli.lazy import LazyGroup
from mlir_matrix.errors import UsageError
from mlir_matrix.text import catalog_options

if TYPE_CHECKING:
    from mlir_matrix.plan.planner import Plan
    from mlir_matrix.session import Session

F = TypeVar("F", bound=Callable[..., Any])


class Verb(click.Command):
    """A command whose help ends with examples, a line each, as they are typed."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)


class VerbGroup(click.Group):
    """The same for a verb that has verbs of its own."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*arguments, **{"subcommand_metavar": "VERB [ARGUMENTS]...", **more})
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)


class LazyVerbGroup(VerbGroup, LazyGroup):
    """One whose verbs are imported when they are asked for."""


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Unwrapped: who copies an example must get all of it."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


tests_argument = click.argument("tests", nargs=-1, metavar="[SUITE|GLOB|ID]...")


class Folder(click.Path):
    """A folder, made or not. Nothing is not the current one: it is a variable of somebody's script that was not set."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("the name of the folder is empty", param, ctx)
        return super().convert(value, param, ctx)


class NewFile(click.Path):
    """A file to be written: that its folder is missing is told before anything is run."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{param.opts[0] if param else ''} {path}: there is no such folder")
        return path


def catalog_option(function: F) -> F:
    """``--catalog DIR``, repeatable."""
    return click.option(
        "--catalog",
        "catalogs",
        multiple=True,
        type=Folder(),
        metavar="DIR",
        help="Add the catalog in DIR, a folder laid out like this repository. Repeatable.",
    )(function)


def cache_option(function: F) -> F:
    """``--cache-dir DIR``."""
    return click.option("--cache-dir", type=Folder(), metavar="DIR", help="Keep the action cache in DIR.")(function)


def format_option(*formats: str) -> Callable[[F], F]:
    """``--format``; the first is the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Print the result in this format.",
    )


def sealed_option(function: F) -> F:
    """``--sealed``."""
    return click.option(
        "--sealed",
        is_flag=True,
        help="Give environments an interpreter of their own, as containers and Bazel do.",
    )(function)


def pin_option(function: F) -> F:
    """``--pin COMPONENT=RELEASE``, repeatable."""
    return click.option(
        "--pin", "pins", multiple=True, metavar="COMPONENT=RELEASE", help="Use this release, e.g. llvm=19. Repeatable."
    )(function)


def _substitutions(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for value in values:
        name, separator, other = value.partition("=")
        if not (separator and name and other):
            raise UsageError(f"--environment {value}: expected NAME=OTHER, e.g. mlir=mlir-upstream")
        pairs[name] = other
    return pairs


def environment_option(function: F) -> F:
    """``--environment NAME=OTHER``, repeatable; the verb is given ``swaps``, the other by the name."""
    return click.option(
        "--environment",
        "swaps",
        multiple=True,
        callback=_substitutions,
        metavar="NAME=OTHER",
        help="Use environment OTHER instead of NAME. Repeatable.",
    )(function)


def session(
    catalogs: tuple[Path, ...],
    cache_dir: Path | None = None,
    swaps: Mapping[str, str] | None = None,
    pins: Sequence[str] = (),
) -> Session:
    """Open the session of a verb."""
    from mlir_matrix.session import open_session  # a run that finds everything unchanged needs none

    return open_session(catalogs=catalogs, cache_dir=cache_dir, swaps=swaps or {}, pins=pins)


def used_pins(current: Session, plan: Plan) -> dict[str, str]:
    """The pins that a person asks for and that a plan uses; what it does not use is told on stderr."""
    references = {action.environment for action in plan.graph.actions.values()}
    found = (pair for each in references for pair in (*current.releases(each), *current.needs(each)))
    used = {(entry.name, release.release) for entry, release in found}
    for name, release in current.pins.overrides.items() - used:
        click.echo(f"matrix: --pin {name}={release}: nothing that was chosen uses {name} {release}", err=True)
    return dict(sorted(current.pins.overrides.items() & used))


def same_catalogs(words: Sequence[str], catalogs: Sequence[Path]) -> str:
    """A command to go on with, over the catalogs that this one was given, as a shell takes it."""
    return shlex.join([*words, *catalog_options(catalogs)])


def repeat_command(test: str, options: Sequence[str]) -> str:
    """The command that runs one test again, in words that a shell takes as they are."""
    return shlex.join(["tools/matrix", "run", *options, test])
