"""Reports are columns and whole lines: readable at 80 columns, searchable in a log."""

from __future__ import annotations

import pytest
from rich.text import Text

from mlir_matrix.base.layout import columns, not_run, print_lines
from mlir_matrix.base.text import counted


def plain(lines: list[str]) -> list[str]:
    return [Text.from_markup(line).plain for line in lines]


def test_cells_stand_below_each_other_whatever_their_markup() -> None:
    rows = [("a", "[green]3[/]", "first"), ("longer", "[dim]–[/]", "second")]
    assert plain(columns(("cell", "run", "why"), rows, right=(1,))) == [
        "cell    run  why",
        "a         3  first",
        "longer    –  second",
    ]


def test_a_column_without_entries_is_left_out() -> None:
    assert plain(columns(("cell", "pass", "other"), [("a", "1", ""), ("b", "2", "")])) == [
        "cell  pass",
        "a     1",
        "b     2",
    ]


def test_wide_characters_keep_the_columns() -> None:
    lines = plain(columns(("name", "n"), [("漢字", "1"), ("ab", "2")]))
    assert lines[1:] == ["漢字  1", "ab    2"]


def test_long_lines_stay_whole_where_nobody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_lines(["x" * 200, "[bold]y[/]"])
    assert capsys.readouterr().out == "x" * 200 + "\ny\n"


def test_reasons_are_counted_most_frequent_first_and_not_taken_for_markup() -> None:
    reasons = [("unsupported", "no [red]route[/]")] * 2 + [("skipped", "no GPU")]
    assert plain(not_run(reasons)) == ["", "not run", "  2 unsupported: no [red]route[/]", "  1 skipped: no GPU"]


def test_more_reasons_than_anyone_reads_are_counted() -> None:
    lines = plain(not_run(("unsupported", f"reason {number}") for number in range(30)))
    assert len(lines) == 15
    assert lines[-1] == "  18 more, for 18 more reasons"


def test_no_reasons_no_heading() -> None:
    assert not_run([]) == []


@pytest.mark.parametrize(("number", "text"), [(0, "0 tests"), (1, "1 test"), (2, "2 tests")])
def test_counted(number: int, text: str) -> None:
    assert counted(number, "test") == text
