"""Take a command line apart, to make another one of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import click


def option_words(
    command: click.Command, arguments: Sequence[str], *, only: Collection[str] = (), without: Collection[str] = ()
) -> list[str]:
    """Return the words of the options in a command line: those of the parameters ``only``, or all but ``without``."""
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
