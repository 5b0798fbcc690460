"""Define verbs and groups of verbs. Each verb is a module, imported only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Verb(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, self.examples)


def verb(name: str, *examples: str) -> Callable[[Callable[..., Any]], Verb]:
    """Return a decorator that makes a verb."""
    return click.command(name, cls=Verb, examples=examples)


class VerbGroup(click.Group):
    """A group that imports a verb when it is called; its help ends with examples, if any.

    The verb ``V`` of the group ``G`` is the function ``command`` in ``cli/G/V.py``; without a group it is in ``cli/V.py``.
    """

    def __init__(
        self, *arguments: Any, verbs: Mapping[str, str], group: str = "", examples: Sequence[str] = (), **more: Any
    ) -> None:
        """``verbs`` has the help of each verb."""
        super().__init__(*arguments, **{"subcommand_metavar": "VERB [ARGUMENTS]...", **more})
        self._verbs, self._group = verbs, group
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._verbs:
            return None
        module = f"{self._group}.{cmd_name}" if self._group else cmd_name
        command = importlib.import_module(f"mlir_matrix.cli.{module}").command
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete verbs without importing them."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in self._verbs.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._verbs and not args[0].startswith("-"):
            from mlir_matrix.base.names import did_you_mean

            of = f" of {self._group}" if self._group else ""
            raise click.UsageError(f"no verb {args[0]!r}{of}{did_you_mean(args[0], self._verbs)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(self._verbs.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            _write_examples(formatter, self.examples)
        else:
            super().format_epilog(ctx, formatter)


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write examples without wrapping, so that they can be copied."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
