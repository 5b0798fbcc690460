"""Options of a command line, taken for another one."""

from __future__ import annotations

from mlir_matrix.bisect.commands import bisect_command as command
from mlir_matrix.cli.verbs import option_words

LINE = [
    "a/b/c/d",
    "--catalog",
    "my files",
    "--by=outcome",
    "--catalog",
    "x",
    "--search",
    "-q",
    "--first-parent",
    "--skip",
    "1",
]


def test_the_options_of_a_command_line() -> None:
    words = option_words(command, LINE, without=("quiet",))
    assert sorted(words) == sorted(
        ["--catalog", "my files", "--catalog", "x", "--by", "outcome", "--search", "--first-parent", "--skip", "1"]
    )
    # What is made of it says the same again.
    assert option_words(command, words) == words
    assert option_words(command, LINE, only=("catalogs",)) == ["--catalog", "my files", "--catalog", "x"]
    assert option_words(command, ["a", "--scan"]) == ["--scan"]
    assert option_words(command, []) == []
