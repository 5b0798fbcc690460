"""Define verbs and groups of verbs. Each verb is a module, imported only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


#: The key of a context's ``meta`` that has the words of the command line after the verb.
ARGUMENTS = "arguments"


class Verb(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words of the command line for verbs that repeat them."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, self.examples)


def verb(name: str, *examples: str) -> Callable[[Callable[..., object]], Verb]:
    """Return a decorator that makes a verb."""
    return click.command(name, cls=Verb, examples=examples)


def call_verb(context: click.Context, name: str, arguments: Sequence[str]) -> int:
    """Call another verb of the program's table, so that no verb imports another. Return its exit code."""
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, name)
    assert command is not None, name
    with command.make_context(name, list(arguments), parent=root) as inner:
        return int(command.invoke(inner) or 0)


class LazyVerb:
    """An entry in a table of verbs: its help, and the module and function that define it."""

    def __init__(self, help: str, place: str) -> None:
        """``place``: ``PACKAGE.MODULE:FUNCTION``, below ``mlir_matrix``."""
        self.help, self._place = help, place

    def load(self, name: str) -> click.Command:
        """Import the verb."""
        module, _, function = self._place.partition(":")
        command = getattr(importlib.import_module(f"mlir_matrix.{module}"), function)
        assert isinstance(command, click.Command), name
        return command


class LazyGroup:
    """An entry in a table of verbs: a group, which has another table."""

    def __init__(
        self, help: str, verbs: Mapping[str, LazyVerb], *examples: str, about: str = "", default: str = ""
    ) -> None:
        """Define a group.

        ``about`` is the beginning of its ``--help``, if that is more than ``help``. ``default``: the verb that is called where the
        first word is none of the group's.
        """
        self.help, self.verbs, self._examples, self._about = help, verbs, examples, about or help
        self._default = default

    def load(self, name: str) -> click.Command:
        """Make the group without importing its verbs."""
        return VerbGroup(
            name,
            verbs=self.verbs,
            help=self._about,
            examples=self._examples,
            callback=lambda: None,
            default=self._default,
        )


class VerbGroup(click.Group):
    """A group that imports a verb when it is called; its help ends with examples, if any."""

    def __init__(
        self,
        *arguments: Any,
        verbs: Mapping[str, LazyVerb | LazyGroup],
        examples: Sequence[str] = (),
        default: str = "",
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **{"subcommand_metavar": "VERB [ARGUMENTS]...", **more})
        self._verbs = verbs
        self._default = default
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._verbs[cmd_name].load(cmd_name) if cmd_name in self._verbs else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete verbs without importing them."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.help) for name, entry in self._verbs.items() if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read ``help VERB`` as ``VERB --help``."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        is_help = args[:1] and args[0] in self.get_help_option_names(ctx)
        return super().parse_args(ctx, args if is_help else self.with_default(args))

    def with_default(self, args: list[str]) -> list[str]:
        """Return the words of a call with the verb that is meant where they name none."""
        if self._default and args and args[0] not in self._verbs:
            return [self._default, *args]
        return args

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._verbs and not args[0].startswith("-"):
            from mlir_matrix.base.names import did_you_mean

            of = f" of {self.name}" if ctx.parent else ""
            raise click.UsageError(f"no verb {args[0]!r}{of}{did_you_mean(args[0], self._verbs)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, entry.help) for name, entry in self._verbs.items()])

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


def option_words(
    command: click.Command, arguments: Sequence[str], *, only: Collection[str] = (), without: Collection[str] = ()
) -> list[str]:
    """Return the words of options on the command line: of the parameters ``only``, or of all but ``without``."""
    given, _, _ = command.make_parser(click.Context(command)).parse_args(list(arguments))
    words: list[str] = []
    for option in command.params:
        name = option.name or ""
        if not isinstance(option, click.Option) or name not in given or name in without or (only and name not in only):
            continue
        value = given[name]
        if option.is_flag:
            words.append((option.opts if value == option.flag_value or value is True else option.secondary_opts)[0])
        else:
            words += [word for each in (value if option.multiple else [value]) for word in (option.opts[0], each)]
    return words
