"""``matrix fuzz``: a compiler that makes a mistake is found out, and one that makes none is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support import planted
from support.workspace import Workspace

WRONG, RIGHT = "mlir/planted-swap-operands/x86_64", f"mlir/{planted.GOOD}/x86_64"


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with compilers that make mistakes."""
    folder = tmp_path_factory.mktemp("bad")
    planted.write_compilers(folder)
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where findings are written."""
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def found(workspace: Workspace, bad: Path, out: Path) -> Any:
    """The document of a session with one compiler that is wrong and one that is right."""
    words = (WRONG, RIGHT, "--catalog", bad, "--out", out, "--budget", "1s", "--format", "json", "--quiet")
    done = workspace("fuzz", *words)
    assert done.code == 1, done.stderr
    return done.document


def test_a_mistake_is_found_reduced_and_blamed(found: Any) -> None:
    (finding,) = found["findings"]
    assert finding["id"].startswith(f"{WRONG}/composed-linalg:")
    assert (finding["outcome"], finding["step"]) == ("mismatch", "planted-swap-operands")
    assert finding["confirmed"]
    assert finding["operations"] <= 5
    assert set(finding["releases"].values()) == {"pass", "mismatch"}
    report = Path(finding["folder"], "reduced/report.md").read_text()
    assert "planted-swap-operands" in report


def test_the_other_compiler_ran_as_often(found: Any) -> None:
    summary = found["summary"]
    assert summary["routes"] == sorted([RIGHT, WRONG])
    assert summary["judged"] == 2 * summary["programs"]
    assert sum(found["pairs"].values()) >= 2 * summary["programs"]


def test_a_known_finding_is_not_new(workspace: Workspace, bad: Path, out: Path, found: Any, tmp_path: Path) -> None:
    (finding,) = found["findings"]
    known = tmp_path / "known.json"
    known.write_text(json.dumps([{"key": finding["key"], "link": "https://example.com/1"}]))
    words = ("--catalog", bad, "--out", out, "--budget", "1s", "--known", known, "--seed", "1", "--quiet")
    done = workspace("fuzz", WRONG, *words)
    assert done.code == 0, done.stdout + done.stderr
    assert "known:    https://example.com/1" in done.stdout
    assert "0 new" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget", "soon"), "--budget soon: expected a time, e.g. 90s, 5m or 1h"),
        (("--known", "absent.json"), "--known absent.json: cannot be read: No such file or directory"),
        (("mlir/absent/x86_64",), "matches no test"),
    ],
)
def test_bad_input(workspace: Workspace, words: tuple[str, ...], message: str) -> None:
    done = workspace("fuzz", *words, "--quiet")
    assert done.code == 2, done.stdout
    assert message in done.stderr
