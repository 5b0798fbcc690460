"""Bisections that are killed, continued, judged by a person and followed by a program."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.bisect.log import read_log
from support.downstream import Downstream
from support.histories import make_history, plain_files, write_catalog
from support.machine import git, needs
from support.workspace import REPOSITORY, Workspace, wait_until

TEST = "mlir/math-poly/x86_64/asin"


def logs(workspace: Workspace) -> list[Path]:
    return sorted((workspace.home / "state" / "bisect").glob("*/log.ndjson"), key=lambda log: log.stat().st_mtime_ns)


def observed(log: Path) -> int:
    """How much a log has; it may be about to be written."""
    return log.read_text().count('"observed"')


def changes(document: Any) -> list[tuple[str, str, list[str]]]:
    return [(each["kind"], each["step"], each["candidates"]) for each in document["tests"][0]["changes"]]


@pytest.fixture(scope="module", autouse=True)
def _fetched(workspace: Workspace) -> None:
    """What runs for a limited time below fetches nothing."""
    done = workspace("bisect", TEST, "--quiet")
    assert done.code == 0, done.stderr


FOUND = [("broke", "math-polynomial", ["19.1.7"]), ("fixed", "math-polynomial", ["21.1.8"])]


def test_a_killed_bisection_goes_on(fresh: Callable[[str], Workspace]) -> None:
    """Killed after some observations, it keeps these, and ends as if nothing had happened."""
    workspace = fresh("home")
    arguments = ("bisect", TEST, "--bad", "22", "--repeats", "1", "--jobs", "1", "--quiet")
    with workspace.start(*arguments) as process:
        assert wait_until(lambda: any(observed(log) > 2 for log in logs(workspace)))
        running = workspace("bisect", "--resume")
        assert running.code == 2
        assert "is still running" in running.stderr
        process.kill()
    (log,) = logs(workspace)
    before = log.read_text()
    done = workspace("bisect", "--resume", "--format", "json", "--skip", "17", "--jobs", "2", "--quiet")
    assert done.code == 0, done.stderr
    assert changes(done.document) == FOUND
    assert log.read_text().startswith(before)
    assert done.document["tests"][0]["log"] == str(log)
    # Every point that can run was run twice, those before the kill too.
    counts = {point["release"]: sum(point["observations"].values()) for point in done.document["tests"][0]["points"]}
    assert {release.split(".")[0] for release, count in counts.items() if count} == {"18", "19", "21", "22"}
    assert set(counts.values()) == {0, 2}
    shown = workspace("bisect", "--log")
    assert shown.stdout.splitlines()[0] == str(log)
    assert shown.stdout.count(f"{TEST}@llvm=19") == 2
    # Its log begins another one, in which nothing runs.
    again = workspace("bisect", "--replay", log, "--format", "json", "--quiet")
    assert changes(again.document) == FOUND
    assert again.document["tests"][0]["log"] != str(log)
    copied, first = (read_log(Path(name)).observed for name in (again.document["tests"][0]["log"], log))
    kept = [each["release"] for each in first if each["release"] != "17.0.6"]
    assert sorted(each["release"] for each in copied) == sorted(kept), "what is skipped does not count"


def test_a_person_judges(workspace: Workspace) -> None:
    """Whoever says that the newest release is wrong finds another change than the golden tree."""

    def answer(words: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            workspace.command("bisect", *arguments, "--format", "json"),
            input=words, capture_output=True, text=True, cwd=REPOSITORY, env={**os.environ, **workspace.env}, check=False,
        )  # fmt: skip

    stopped = answer("g\nb\nq\n", TEST, "--good", "18", "--bad", "24", "--interactive")
    assert stopped.returncode == 0, stopped.stderr
    assert f"{TEST} with llvm 18.1.8: pass" in stopped.stderr
    assert "Is it good (g), bad (b), or skip (s)" in stopped.stderr
    assert "continue with: tools/matrix bisect --resume" in stopped.stderr
    done = answer("b\n" * 10, "--resume")
    assert done.returncode == 0, done.stderr
    (change,) = json.loads(done.stdout)["tests"][0]["changes"]
    assert (change["kind"], change["before"], change["candidates"]) == ("broke", "18.1.8", ["19.1.7"])
    undone = answer("g\n" * 10, "--resume", "--undo")
    assert undone.returncode == 0, undone.stderr
    (change,) = json.loads(undone.stdout)["tests"][0]["changes"]
    assert change["candidates"] == ["21.1.8"]


def test_events(workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    done = workspace("bisect", TEST, "--search", "--good", "18", "--bad", "19", "--events", file, "--quiet")
    assert done.code == 0, done.stderr
    assert "broke in 19.1.7  A → B\n  18.1.8 is the last release before" in done.stdout
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["planned", "ended"]
    finished = [each["test"] for each in events if each["event"] == "finished"]
    assert {(each["id"], each["outcome"]) for each in finished} == {
        (f"{TEST}@llvm=18", "pass"),
        (f"{TEST}@llvm=19", "mismatch"),
    }
    # The answer was confirmed by further runs.
    assert len(finished) > 2


@needs("git")
def test_a_flaky_commit(workspace: Workspace, tmp_path: Path) -> None:
    """A bad commit fails in half of its runs; the answer has a confidence.

    If by chance all bad commits that ran fail at once, another history decides.
    """
    options = ("--repeats", "12", "--confidence", "0.999", "--format", "json", "--quiet")
    for seed in range(4, 9):
        made = make_history(tmp_path / f"plain-{seed}", 16, plain_files(0.5), culprit=9, seed=seed)
        catalog = Downstream(tmp_path / f"theirs-{seed}")
        test = write_catalog(catalog, made, "plain-number")
        ends = ("--good", made.ids[0], "--bad", "main")
        done = workspace("bisect", test, "--catalog", catalog.root, *ends, *options)
        assert done.code == 0, done.stderr
        (found,) = done.document["tests"]
        if any(len(point["observations"]) == 2 for point in found["points"]):
            break
    (change,) = found["changes"]
    assert change["confidence"] >= 0.95
    assert made.ids[made.culprit][:12] in change["candidates"]
    report = Path(found["report"]).read_text()
    named = re.search(r"flaky: of (\d+) runs with the change, (\d+) shows? B(.*)", report)
    assert named
    assert 0 < int(named[2]) < int(named[1])
    assert named[3] == "; in repeated runs, plain-number gave different outputs for the same input"
    assert "the difference is in what ran" not in report


@needs("git")
def test_a_release_on_a_branch_of_its_own(workspace: Workspace, tmp_path: Path) -> None:
    """The search begins where both ends part."""
    made = make_history(tmp_path / "plain", 12, plain_files(), culprit=8, unbuildable=0, seed=5)
    catalog = Downstream(tmp_path / "theirs")
    test = write_catalog(catalog, made, "plain-number")
    parted = 2
    words = ("commit-tree", "-p", made.ids[parted], "-m", "Release 1", f"{made.ids[parted]}^{{tree}}")
    release = git(made.folder, *words)
    git(made.folder, "tag", "v1", release)
    done = workspace(
        "bisect", test, "--catalog", catalog.root, "--good", "v1", "--bad", "main", "--format", "json", "-q"
    )
    assert done.code == 0, done.stderr
    part = made.ids[parted][:12]
    assert f"v1 is not an ancestor of main: the search begins at their fork, {part}" in done.stderr
    (change,) = done.document["tests"][0]["changes"]
    assert change["candidates"] == [made.ids[8][:12]]


def test_pins(workspace: Workspace) -> None:
    """Two pins moved; one is guilty, and then its releases are bisected."""
    test = "mlir/math-expand/x86_64/ceil"
    done = workspace(
        "bisect", test, "--good", "llvm=16,numpy=2.4.6,iree=3.12", "--bad", "llvm=18,numpy=2.4.6,iree=3.13",
        "--format", "json", "--quiet",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert "the pins of iree have no effect, because nothing there uses them" in done.stderr
    (found,) = done.document["tests"]
    assert [(each["kind"], each["after"]) for each in found["changes"]] == [("broke", "17.0.6")]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--resume", "--replay", "x"), "give one of them"),
        (("--undo",), "--undo forgets the last observation of a bisection; give it with --resume"),
        (("--replay", "/nonexistent"), "the log /nonexistent cannot be read"),
        ((TEST, "--good", "18", "--bad", "18.1.8"), "are the same release"),
        ((TEST, "--good", "19", "--bad", "18"), "passes at --bad 18.1.8 and not at --good 19.1.7"),
        ((TEST, "--good", "22", "--bad", "23"), "behaves alike at --good 22.1.8 and --bad 23"),
        ((TEST, "--good", "20"), "llvm has no release '20'"),
        ((TEST, "--skip", "20"), "llvm has no release '20'"),
        ((TEST, "--interactive", "--scan"), "leave out --scan"),
        ((TEST, "--skip", "18", "--good", "18"), "--skip 18.1.8: it is an end of the range"),
        ((TEST, "--good", "llvm=18", "--bad", "llvm=19", "--dry-run"), "--dry-run is about commits"),
        ((f"{TEST}@llvm=19",), "leave out what follows the '@'"),
        (("mlir/linalg-loops/x86_64/matmul~scaling",), "tests of properties are not bisected"),
        ((TEST, "--first-parent"), "--first-parent is about commits; name a repository with --repo"),
        ((TEST, "--repo", "/nonexistent", "--good", "a", "--bad", "b"), "--repo /nonexistent: there is no such folder"),
        ((TEST, "--repo", "."), "needs both ends: --good REVISION --bad REVISION"),
        ((TEST, "--by", "max_ul"), "did you mean 'max_ulp'"),
        ((TEST, "--by", "time", "--search"), "--by time compares the times of all releases"),
        ((TEST, "--good", "llvm=18", "--bad", "llvm=18.1.8"), "are the same pin set"),
        ((TEST, "--good", "llvm=18", "--bad", "llvm=19", "--bindings"), "--bindings does not go with pins as ends"),
    ],
)
def test_what_cannot_be_bisected(workspace: Workspace, arguments: tuple[str, ...], reason: str) -> None:
    done = workspace("bisect", *arguments, "--quiet")
    assert done.code == 2
    assert reason in done.stderr
