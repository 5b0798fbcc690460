"""Every verb has --help with examples that can be typed as they stand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mlir_matrix.bisect.log import LAST, Log, bisections
from mlir_matrix.cli.main import VERBS, matrix
from mlir_matrix.cli.options import repeat_command
from mlir_matrix.cli.verbs import Verb, VerbGroup
from mlir_matrix.plan.request import Request
from mlir_matrix.run.commands import run_command as run
from mlir_matrix.run.unchanged import UnchangedRuns
from support.workspace import REPOSITORY


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
def test_examples_are_taken_by_the_verb(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path))
    # What ``--resume`` continues.
    (bisections() / "last").mkdir(parents=True)
    Log(bisections() / "last" / LAST, ()).begin(["mlir/math-poly/x86_64/asin"], "llvm", [])
    for example in ALL[name].examples:
        # A command whose output is another command stands in $(…).
        inner = re.match(r"\$\((matrix .*?)\)", example)
        words = shlex.split(inner[1] if inner else example.partition(" > ")[0])
        assert words[:2] == ["matrix", *name.split(maxsplit=1)[:1]]
        command: click.Command | None = matrix.get_command(click.Context(matrix), words[1])
        if isinstance(command, VerbGroup):
            called = command.with_default(words[2:])
            below = command.get_command(click.Context(command), called[0])
            assert below is not None
            below.make_context(called[0], called[1:])
        else:
            command.make_context(words[1], words[2:])


def test_the_table_of_verbs_is_true() -> None:
    """The documented options of each verb are those that it takes."""
    page = (REPOSITORY / "docs" / "verbs.md").read_text()
    table = page.partition("| verb | names |")[2].partition("\n\n")[0].splitlines()
    columns = re.findall("`(--[^`]+)`", table[0])
    documented = {}
    for row in table[2:]:
        names, _, *marks = row.strip("| ").split(" | ")
        documented |= {name: dict(zip(columns, marks, strict=True)) for name in re.findall("`([^`]+)`", names)}
    found = {}
    for name, command in ALL.items():
        if not isinstance(command, VerbGroup):
            options = {word for parameter in command.params for word in parameter.opts}
            formats = next((each.type.to_info_dict()["choices"] for each in command.params if each.name == "form"), ())
            options |= {f"--format {form}" for form in formats}
            found[name] = {option: "yes" if option in options else "no" for option in columns}
    assert found == documented


def request(*words: str) -> Request:
    """Return what ``matrix run`` makes of a command line."""
    found: list[Request] = []

    def stop(request: Request) -> UnchangedRuns:
        found.append(request)
        raise click.Abort

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlir_matrix.run.commands.UnchangedRuns", stop)
        with pytest.raises(click.Abort):
            run.main(list(words), standalone_mode=False)
    return found[0]


CHOSEN = [
    ("--catalog", "my catalog", "--pin", "llvm=19", "--pin", "torch=2", "--environment", "mlir=mlir-upstream"),
    (
        "--executor",
        "bazel",
        "--remote",
        "grpc://a:1",
        "--exec-property",
        "zig:pool=a=b",
        "--remote-cache",
        "grpc://b:2",
    ),
    ("--cache-dir", "/tmp/it's", "--device", "/dev/null", "--timeout", "0.5", "--memory", "64"),
]


@pytest.mark.parametrize("words", CHOSEN)
def test_the_command_that_repeats_says_all_that_was_chosen(words: tuple[str, ...]) -> None:
    test = "jax/linalg-loops/x86_64/mlp"
    repeated = shlex.split(repeat_command(request(*words), ["laws"])(test))
    assert repeated == ["tools/matrix", "run", *words, "laws", test]
    # It says the same again, but for what it tests.
    assert replace(request(*repeated[2:]), tests=()) == request(*words)


def test_the_command_that_repeats_has_no_defaults_and_no_words_about_speed() -> None:
    chosen = request("--executor", "local", "--timeout", "120", "--jobs", "3", "--fail-fast", "smoke")
    assert shlex.split(repeat_command(chosen)("a/b/c/d")) == ["tools/matrix", "run", "a/b/c/d"]


@pytest.mark.parametrize("words", [(), ("run",), ("golden", "update")])
def test_help_is_a_verb_too(words: tuple[str, ...]) -> None:
    asked, option = (CliRunner().invoke(matrix, [*each]) for each in (("help", *words), (*words, "--help")))
    assert (asked.exit_code, asked.output) == (0, option.output)
