"""Every verb has --help with examples that can be typed as they stand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from mlir_matrix.cli import VERBS, matrix
from mlir_matrix.cli.options import Verb, VerbGroup, repeat_command


def verbs() -> Iterator[tuple[str, Verb | VerbGroup]]:
    for name in VERBS:
        command = matrix.get_command(click.Context(matrix), name)
        yield name, command
        if isinstance(command, VerbGroup):
            context = click.Context(command)
            for below in command.list_commands(context):
                each = command.get_command(context, below)
                assert isinstance(each, Verb | VerbGroup)
                yield f"{name} {below}", each


ALL = dict(verbs())


@pytest.mark.parametrize("name", ALL)
def test_help_ends_with_examples_a_line_each(name: str) -> None:
    command = ALL[name]
    text = command.get_help(click.Context(command, info_name=f"matrix {name}"))
    shown = text.partition("Examples:\n")[2].splitlines()
    assert command.examples
    assert shown == [f"  {example}" for example in command.examples]


@pytest.mark.parametrize("name", ALL)
def test_examples_are_taken_by_the_verb(name: str) -> None:
    for example in ALL[name].examples:
        # A command whose output is another command stands in $(…).
        inner = re.match(r"\$\((matrix .*?)\)", example)
        words = shlex.split(inner[1] if inner else example.partition(" > ")[0])
        assert words[:2] == ["matrix", *name.split(maxsplit=1)[:1]]
        command: click.Command | None = matrix.get_command(click.Context(matrix), words[1])
        if isinstance(command, VerbGroup):
            below = command.get_command(click.Context(command), words[2])
            assert below is not None
            below.make_context(words[2], words[3:])
        else:
            command.make_context(words[1], words[2:])


def test_the_command_that_repeats_survives_a_shell() -> None:
    command = repeat_command("jax/linalg-loops/x86_64/mlp", ["--catalog", "my catalog"])
    assert shlex.split(command) == ["tools/matrix", "run", "--catalog", "my catalog", "jax/linalg-loops/x86_64/mlp"]
