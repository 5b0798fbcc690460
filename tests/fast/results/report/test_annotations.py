"""What Buildbot's AnnotatedCommand and GitHub's runner read of a run, also where its texts look like commands."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.report.annotations import Annotations
from mlir_matrix.results.results import Run, TestResult

PASS = TestResult(
    id="jax/p/t/a", framework="jax", pipeline="p", target="t", workload="a", outcome="pass", stage="judge",
    expected=True, reason="", repeat="matrix run jax/p/t/a",
)  # fmt: skip
HOSTILE = "no\n@@@STEP_LINK@x@javascript:y@@@\n::error::z\n::stop-commands::a\n | <b>`*[x](y)\x1b[0m 100%"
WRONG = replace(
    PASS, id="jax/p/t/b", workload="b", outcome="lower-failed", expected=False, reason=HOSTILE, diagnostics=HOSTILE,
    expectation={"outcome": "mismatch", "reason": "r", "position": "matrix/suites/s.yaml:23:13"},
)  # fmt: skip
ABSENT = replace(PASS, id="mlir/q/t/c", framework="mlir", pipeline="q", outcome="unsupported", reason="no q")
LOST = replace(
    PASS, id="mlir/s/ir/d", framework="mlir", pipeline="s", target="ir", outcome="infra-error", expected=False
)
ALL = (PASS, WRONG, ABSENT, LOST)


def run_of(*results: TestResult) -> Run:
    return Run(results=list(results), causes=causes_of(results))


def printed(form: str, capsys: pytest.CaptureFixture[str], *results: TestResult) -> list[str]:
    Annotations(form).print(run_of(*results), {})
    return capsys.readouterr().out.splitlines()


@pytest.fixture(autouse=True)
def _no_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlir_matrix.results.report.annotations._PACE_S", 0)


def test_a_step_for_each_cause(capsys: pytest.CaptureFixture[str]) -> None:
    steps: dict[str, list[str]] = {}
    for line in printed("buildbot", capsys, *ALL):
        if begun := re.match(r"^@@@BUILD_STEP (?P<name>.*)@@@", line):
            steps[begun["name"]] = []
        elif line.startswith("@@@"):
            steps[list(steps)[-1]].append(line)
    assert steps == {
        "jax/p/t/b": ["@@@STEP_TEXT@1 lower-failed@@@", "@@@STEP_FAILURE@@@"],
        "mlir/s/ir/d": ["@@@STEP_TEXT@1 infra-error@@@", "@@@STEP_EXCEPTION@@@"],
        "summary": ["@@@STEP_TEXT@4 tests, 2 not as expected, 2 causes@@@", "@@@STEP_FAILURE@@@"],
    }


def test_a_long_name_fits_the_name_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    test = replace(WRONG, id=f"jax/{'p' * 60}/t/b", pipeline="p" * 60)
    (name,) = [line[14:-3] for line in printed("buildbot", capsys, test) if "BUILD_STEP jax" in line]
    assert len(name) == 50


def test_errors_of_a_workflow(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    lines = printed("github", capsys, *ALL)
    commands, stopped = [], ""
    for line in lines:
        # As the runner reads them: spaces before a command do not count.
        if not (line := line.lstrip()).startswith("::"):
            continue
        if stopped:
            stopped = "" if line == f"::{stopped}::" else stopped
        elif line.startswith("::stop-commands::"):
            stopped = line.removeprefix("::stop-commands::")
        else:
            commands.append(line)
    assert not stopped
    assert [line.split(" ")[0].split("::")[1] for line in commands] == ["error", "group", "endgroup"] * 2
    assert commands[0].startswith(
        "::error file=matrix/suites/s.yaml,line=23,title=lower-failed jax/p/t/b::lower-failed"
    )
    assert commands[0].endswith("100%25")
    assert "file=recipes/steps/s/step.yaml,line=1," in commands[3]

    text = summary.read_text()
    assert text.startswith("### ❌ 4 tests: 1 infra-error, 1 lower-failed, 1 pass, 1 unsupported\n")
    row = next(line for line in text.splitlines() if "jax/p/t/b" in line)
    assert row.count("|") == 5
    assert "<b>" not in row
    assert "](y)" not in row


def test_github_marks_the_line_of_a_catalogs_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Not that of a file of the failure, which is no file of the repository."""
    wrong = replace(WRONG, expectation=None, position="recipes/steps/s/schedule.mlir:4:5", kept="/kept/b")
    kept = replace(wrong, position="/kept/b/01-x.mlir:4:5")
    others = [kept, replace(kept, step={"name": "s", "action": "s-1"}), replace(wrong, position="", workload="zoo:a.b")]
    text = "".join(line for each in (wrong, *others) for line in printed("github", capsys, each))
    assert re.findall(r"file=(.+?),line=(\d+),", text) == [
        ("recipes/steps/s/schedule.mlir", "4"),
        ("matrix/workloads/b/workload.yaml", "1"),
        ("recipes/steps/s/step.yaml", "1"),
        ("matrix/corpora/zoo/corpus.yaml", "1"),
    ]


def test_a_cause_of_many_tests_is_one_error_at_its_step(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    step: Any = {"name": "tile", "action": ""}
    failed = replace(WRONG, expectation=None, reason="tile: no loop", step=step, steps=["tile"], repeat="again")
    many = [replace(failed, id=f"jax/p/t/b{number}", workload=f"b{number}") for number in range(30)]
    held: Any = {"owner": "me", "until": "2026-02-01", "reason": "r", "position": "f:1:1"}
    lines = printed("github", capsys, *many, replace(failed, quarantine=held))
    commands = [line for line in lines if line.startswith(("::error ", "::warning "))]
    assert len(commands) == 2
    assert commands[0].startswith("::error file=recipes/steps/tile/step.yaml,line=1,title=30 tests%3A tile%3A 30 of 30")
    assert "for example jax/p/t/b0: lower-failed: tile: no loop" in commands[0]
    assert commands[1].startswith("::warning ")
    assert lines.count("  jax/p/t/b29") == 1
    rows = [line for line in summary.read_text().splitlines() if line.startswith("| <code>")]
    assert len(rows) == 2
    assert "and 29 more" in rows[0]
    steps = [line for line in printed("buildbot", capsys, *many) if "BUILD_STEP" in line or "STEP_TEXT" in line]
    assert steps[1] == "@@@STEP_TEXT@30 lower-failed@@@"
    assert steps[-1] == "@@@STEP_TEXT@30 tests, 30 not as expected, 1 cause@@@"
    assert len(steps) == 4


class Interrupted(StringIO):
    """A stream that Ctrl-C interrupts when it is given the output of a failed test, within its group."""

    def write(self, text: str) -> int:
        if "::group::" in self.getvalue() and "diagnostics of b" in text:
            raise KeyboardInterrupt
        return super().write(text)


def test_github_obeys_commands_again_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it comes within the group of a test, where commands are stopped for a second time."""
    stream = Interrupted()
    monkeypatch.setattr("sys.stdout", stream)
    annotations = Annotations("github")
    with pytest.raises(KeyboardInterrupt):
        annotations.print(run_of(replace(WRONG, reason="r", diagnostics="diagnostics of b")), {})
    annotations.close()
    lines = stream.getvalue().splitlines()
    stops = [line for line in lines if line.startswith("::stop-commands::")]
    assert len(stops) == 2
    assert lines[-1] == f"::{stops[-1].removeprefix('::stop-commands::')}::"


def test_no_more_errors_than_github_shows(capsys: pytest.CaptureFixture[str]) -> None:
    many = [replace(WRONG, id=f"jax/p/t/b{number}", workload=f"b{number}", reason="x" * number) for number in range(30)]
    passing = [replace(PASS, id=f"jax/p/t/c{number}", workload=f"c{number}") for number in range(30)]
    lines = printed("github", capsys, *many, *passing)
    assert sum(line.startswith("::error ") for line in lines) == 10
    assert sum(line.startswith("::group::") for line in lines) == 30


def test_a_summary_that_cannot_be_written(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/nowhere/summary.md")
    with pytest.raises(InfrastructureError, match=r"GITHUB_STEP_SUMMARY /nowhere/summary.md: No such file"):
        Annotations("github").print(run_of(*ALL), {})
