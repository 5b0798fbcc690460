"""Requests with layouts, as Bazel sends them: inputs from anywhere, outputs to anywhere, failures as values."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.runtime.bazel_layout import OUTCOME_MARK, Staged, layout_of


def layout(**more: Any) -> dict[str, Any]:
    return {
        "request": {"tool": "t", "stage": "lower", "params": {}, "inputs": {"ir": "in/a.mlir"}, "outputs": {"ir": "out/b.mlir"}},
        "files": {"in/a.mlir": "far/away/x"},
        "upstream": [],
        "outputs": {"ir": "made/b.mlir"},
        "result": "made/result.json",
        "usage": "made/usage.json",
        "building": False,
        "timeout_s": 5.0,
        "memory_mb": 64,
        **more,
    }  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "far/away/x").write_text("source")
    (tmp_path / "made").mkdir()
    return tmp_path


def finish(staged: Staged, outcome: dict[str, str], output: str | None = "target") -> str:
    """What an action would leave, delivered."""
    folder = Path(staged.folder)
    if output is not None:
        (folder / "out/b.mlir").write_text(output)
    (folder / "outcome.json").write_text(json.dumps(outcome))
    return staged.close({"wall_s": 1.5}, "")


def result(root: Path) -> Any:
    return json.loads((root / "made/result.json").read_text())


def test_an_action_that_succeeds(root: Path) -> None:
    staged = Staged(layout(), str(root))
    assert not staged.passed_on()
    staged.open()
    folder = Path(staged.folder)
    assert (folder / "in/a.mlir").read_text() == "source"
    assert json.loads((folder / "action.json").read_text())["tool"] == "t"
    (folder / "in/a.mlir").write_text("spoilt")
    assert finish(staged, {"outcome": "ok", "stage": "lower"}) == ""
    assert (root / "far/away/x").read_text() == "source"
    assert (root / "made/b.mlir").read_text() == "target"
    assert result(root) == {
        "outcome": {"outcome": "ok", "stage": "lower"},
        "outputs": {"ir": hashlib.sha256(b"target").hexdigest()},
    }
    assert json.loads((root / "made/usage.json").read_text())["usage"] == {"wall_s": 1.5}
    assert sorted(path.name for path in (root / "made").iterdir()) == ["b.mlir", "result.json", "usage.json"]


def test_a_failure_is_a_value_and_is_passed_on(root: Path) -> None:
    staged = Staged(layout(), str(root))
    staged.open()
    failed = {"outcome": "lower-failed", "stage": "lower", "reason": "no", "diagnostics": ""}
    assert finish(staged, failed, None) == ""
    assert result(root) == {"outcome": failed, "outputs": {}}
    assert (root / "made/b.mlir").read_bytes() == b""
    (root / "next").mkdir()
    names = {
        "outputs": {"ir": "next/c"},
        "result": "next/result.json",
        "usage": "next/usage.json",
        "ending": "next/end",
    }
    after = Staged(layout(upstream=["made/result.json"], **names), str(root))
    assert after.passed_on()
    assert json.loads((root / "next/result.json").read_text())["outcome"] == failed
    assert (root / "next/end").read_text() == "lower-failed\nmeasurable\nno\n"


@pytest.mark.parametrize("word", ["timed-out", "infra-error"])
def test_what_is_about_the_moment_fails_the_command(root: Path, word: str) -> None:
    staged = Staged(layout(), str(root))
    staged.open()
    told = finish(staged, {"outcome": word, "stage": "lower", "reason": "slow"}, None)
    assert json.loads(told.splitlines()[-1].removeprefix(OUTCOME_MARK))["outcome"] == word
    assert not (root / "made/result.json").exists()


def test_what_builds_our_own_is_never_to_blame(root: Path) -> None:
    staged = Staged(layout(building=True), str(root))
    staged.open()
    told = finish(staged, {"outcome": "lower-failed", "stage": "lower", "reason": "no zig"}, None)
    assert json.loads(told.splitlines()[-1].removeprefix(OUTCOME_MARK))["outcome"] == "infra-error"


@pytest.mark.parametrize(
    ("verdict", "ending"),
    [
        ({"outcome": "pass", "reason": "fine", "outputs": [{}]}, "pass\nmeasurable\nfine\n"),
        ({"outcome": "mismatch", "reason": "a\nb", "outputs": [{"measurable": False}]}, "mismatch\nnot\na b\n"),
    ],
)
def test_layout_writes_the_ending_of_a_test(root: Path, verdict: dict[str, Any], ending: str) -> None:
    request = {"tool": "judge", "stage": "judge", "params": {}, "inputs": {}, "outputs": {"verdict": "out/v.json"}}
    words = layout(request=request, files={}, outputs={"verdict": "made/v.json"}, ending="made/end")
    staged = Staged(words, str(root))
    staged.open()
    (Path(staged.folder) / "out/v.json").write_text(json.dumps(verdict))
    assert finish(staged, {"outcome": "ok", "stage": "judge"}, None) == ""
    assert (root / "made/end").read_text() == ending


def test_layouts_are_told_from_other_arguments(tmp_path: Path) -> None:
    file = tmp_path / "layout"
    file.write_text(json.dumps(layout()))
    assert layout_of([f"@{file}"]) == layout_of([json.dumps(layout())]) == layout()
    assert layout_of(["action.json"]) is None
    assert layout_of(["--timeout-s", "3"]) is None
    assert layout_of([]) is None
