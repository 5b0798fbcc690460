"""Progress: words of others are no markup on the live display; plain lines for logs; nothing where it is quiet."""

from __future__ import annotations

import io
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from mlir_matrix.base.events import Note, PackageProgress, Tick
from mlir_matrix.base.layout import report_console
from mlir_matrix.execute.job import ActionDone, ActionStarted
from mlir_matrix.execute.progress import Counting, PlainProgress
from mlir_matrix.results.report.progress import LiveTests, shown_tests
from mlir_matrix.results.results import TestDone

#: A closing tag without an opening one, which rich refuses; colours, links, pictures; what clears a screen; a backslash.
WORDS = "cannot open [/dev/eth0] [bold]x[/] [link=http://a.invalid]y :bug: \x1b[2J\\"


def ended(**more: Any) -> Any:
    """A result: a pass, unless more is said."""
    usual = {"expected": True, "fails": False, "quarantine": None, "expectation": None}
    return SimpleNamespace(**{**usual, "outcome": "pass", "id": "a", "reason": "", **more})


def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return what a terminal gets: rich takes what it writes to for one."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "300"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(LiveTests, "_REDRAW_S", 0)
    return shown


def test_other_peoples_words_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    action: Any = SimpleNamespace(id=f"{WORDS}-0", label=WORDS, tool="run", outputs={})
    result = ended(expected=False, fails=True, outcome="run-failed", id="t", reason=WORDS)
    done: Any = SimpleNamespace()
    display = LiveTests(2)
    display.on(ActionStarted(action))
    display.on(PackageProgress(package=WORDS, received=1, total=2))
    display.on(Tick())
    display.on(Note(WORDS))
    display.on(TestDone(result))
    display.on(PackageProgress(package="p", error=WORDS))
    display.on(ActionDone(action, done))
    display.close()
    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown.getvalue())
    said = WORDS.replace("\x1b", "\\x1b")
    for line in (f"fetching {said}  0 of 0 MB", f"running  {said}  0.0 s", f"note {said}", f"error {said}"):
        assert line in plain
    assert f"run-failed     t  UNEXPECTED  {said}" in plain
    assert "0/2 tests, 0 actions done" in plain


def test_the_first_unexpected_results_are_shown_at_once_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = terminal(monkeypatch)
    display = LiveTests(50)
    for number in range(50):
        result = ended(expected=False, fails=True, outcome="mismatch", id=f"t{number}", reason="y is wrong")
        display.on(TestDone(result))
        assert (f"mismatch       t{number}  UNEXPECTED  y is wrong" in shown.getvalue()) == (number < 3)
    display.on(Tick())
    display.close()
    assert shown.getvalue().count("further unexpected results") == 1
    assert "50/50 tests, 0 actions done" in shown.getvalue()
    assert "50 unexpected" in shown.getvalue()


def test_no_picture_is_made_of_words(capsys: pytest.CaptureFixture[str]) -> None:
    report_console().print("a.mlir:bug: x", markup=False)
    assert capsys.readouterr().out == "a.mlir:bug: x\n"


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """What is known and expected takes no line."""
    result, known = ended(cached=False), ended(id="b", cached=True)
    with shown_tests(2, quiet=False) as listener:
        for event in (
            PackageProgress(package="p"), PackageProgress(package="p", received=1, total=2), Tick(1), Tick(1), Note("n"),
            PackageProgress(package="p", done=True), TestDone(known), TestDone(result), PackageProgress(package="q", error="e"),
        ):  # fmt: skip
            assert not listener(event)
    assert capsys.readouterr().err.splitlines() == [
        "fetching       p",
        "waiting        for actions that other runs are executing",
        "note           n",
        "installed      p",
        "[2/2] pass           a",
        "error          e",
    ]


def test_quiet_progress_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_tests(2, quiet=True) as listener:
        listener(Note("n"))
    assert capsys.readouterr().err == ""


def test_a_long_graph_is_counted_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    counting = Counting(3, said.append)
    action: Any = SimpleNamespace(id="a")
    done: Any = SimpleNamespace()
    for event in (ActionDone(action, done), Tick(), PackageProgress(package="p", done=True)):
        counting.on(event)
    assert said == ["installed p"]
    monkeypatch.setattr(counting, "_last", -100.0)
    counting.on(Tick())
    assert said[1:] == ["1 of 3 actions done"]


def test_what_is_unpacked_is_installing_and_the_rest_is_estimated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the pace of the phase: the first 100 MB of the download are from an earlier run."""
    clock = [0.0]
    monkeypatch.setattr("mlir_matrix.execute.progress.time.monotonic", lambda: clock[0])
    progress = PlainProgress()
    for at, phase, received in (
        (0, "fetching", 100),
        (16, "fetching", 200),
        (20, "installing", 0),
        (36, "installing", 400),
    ):
        clock[0] = at
        progress.on(PackageProgress(package="p", received=received * 10**6, total=600 * 10**6, phase=phase))
    assert capsys.readouterr().err.splitlines() == [
        "fetching       p",
        "fetching       p: 200 of 600 MB, about 64 s left",
        "installing     p",
        "installing     p: 400 of 600 MB, about 8 s left",
    ]
