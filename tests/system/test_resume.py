"""Runs that are killed, interrupted or not alone: what was finished is kept, and the outcomes are those of a quiet run."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.execute.action_cache import ActionCache
from support.workspace import Report, Workspace, new_home, results, wait_until

#: Workloads in MLIR, some in a framework: enough to kill in the middle of, short enough to do so often.
TESTS = (
    "mlir/linalg-loops/x86_64/{a,b,c}*",
    "jax/linalg-loops/x86_64/mlp",
    "mlir/bufferize/ir/*",
)


def descendants(pid: int) -> dict[int, str]:
    """The processes that descend from one, each with what tells it from a later process of the same number."""
    parents: dict[int, int] = {}
    started: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            parents[int(entry.name)], started[int(entry.name)] = int(fields[1]), fields[19]
    found: dict[int, str] = {}
    generation = {pid}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation}
        found |= {child: started[child] for child in generation}
    return found


def alive(processes: Mapping[int, str]) -> list[str]:
    """Those that are still there; one that waits for its parent to take notice is not."""
    found = []
    for pid, started in processes.items():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if fields[19] == started and fields[0] != "Z":
            found.append(f"{pid} {command[:150]}")
    return found


def stop_at(workspace: Workspace, results: int, stop: signal.Signals) -> tuple[int, str, str]:
    """Start a run, and send its leader a signal once it has workers and the cache holds so many results.

    The cache may hold them from the start: the run before was killed a moment after it had reached its point.
    Nobody else gets the signal: workers and what they run must end by themselves. Returns code, stdout and stderr.
    """
    with workspace.start("run", *TESTS, "--format", "json", "--quiet") as process:
        assert wait_until(
            lambda: process.poll() is not None or (workspace.count() >= results and descendants(process.pid))
        )
        others = descendants(process.pid)
        assert process.poll() is None, "the run was over before it could be stopped"
        process.send_signal(stop)
        out, err = process.communicate(timeout=120)
        assert wait_until(lambda: not alive(others)), alive(others)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def undisturbed(c_library: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Mapping[str, Any]]:
    """The results of a run that nothing disturbs, from an empty cache, and what it leaves in the cache."""
    workspace = Workspace(new_home(tmp_path_factory.mktemp("undisturbed") / "home"))
    report = workspace.run(*TESTS)
    assert report.executed > 120
    assert report.executed == len(report.actions) == workspace.count() - 1, "each is kept, and the C library"
    return report, workspace.kept()


def test_killed_again_and_again(
    fresh: Callable[[str], Workspace], undisturbed: tuple[Report, Mapping[str, Any]]
) -> None:
    expected, kept = undisturbed
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    workspace = fresh("home")
    points = sorted(random.Random(seed).sample(range(2, expected.executed - 60), 4))
    for point in points:
        code, _, _ = stop_at(workspace, point, signal.SIGKILL)
        assert code == -signal.SIGKILL
    finished = workspace.kept()
    assert points[-1] <= len(finished) <= len(kept)
    assert finished.items() <= kept.items()
    report = workspace.run(*TESTS)
    assert report.executed == len(kept) - len(finished), "what was finished is not done again, what was not is"
    assert report.outcomes == expected.outcomes
    assert {test["reason"] for test in report.tests.values()} == {test["reason"] for test in expected.tests.values()}
    assert workspace.kept() == kept
    assert list((workspace.actions / "scratch").iterdir()) == [], "the folders of killed runs are swept"
    assert not any("." in path.name for path in (workspace.actions / "blobs").glob("??/*"))


def test_killed_while_workers_start(fresh: Callable[[str], Workspace]) -> None:
    """A worker that still imports its framework when its parent dies must not be left behind either."""
    with fresh("home").start("run", "pytorch/linalg-loops/x86_64/*", "--quiet") as process:
        assert wait_until(lambda: bool(descendants(process.pid)))
        others = descendants(process.pid)
    assert wait_until(lambda: not alive(others)), alive(others)


@pytest.mark.parametrize(("point", "stop"), [(3, signal.SIGINT), (60, signal.SIGTERM)])
def test_interrupted(
    fresh: Callable[[str], Workspace], undisturbed: tuple[Report, Mapping[str, Any]], point: int, stop: signal.Signals
) -> None:
    expected, kept = undisturbed
    workspace = fresh("home")
    code, out, err = stop_at(workspace, point, stop)
    assert code == 128 + stop
    assert "interrupted; finished actions are cached: run the same command again to continue" in err
    assert "Traceback" not in err
    document = json.loads(out)
    assert document["interrupted"]
    outcomes = {test["id"]: test["outcome"] for test in document["tests"]}
    assert list(outcomes) == list(expected.outcomes), "no test is left out"
    left_out = {test["id"] for test in document["tests"] if test["reason"] == "the run was interrupted"}
    assert left_out
    assert {outcomes[test] for test in left_out} == {"skipped"}
    assert {test: outcomes[test] for test in outcomes if test not in left_out}.items() <= expected.outcomes.items()
    finished = workspace.count()
    # Driver and C library are there already. And the signal may come between keeping a result and counting it.
    assert finished - 3 <= document["executed"] <= finished - 2
    report = workspace.run(*TESTS)
    assert report.executed == len(kept) - finished
    assert not report.document["interrupted"]
    assert report.outcomes == expected.outcomes


def test_simultaneous_runs_share_what_they_do(
    fresh: Callable[[str], Workspace], undisturbed: tuple[Report, Mapping[str, Any]]
) -> None:
    """Each action is executed by one of them; and where that one is killed, by another."""
    expected, kept = undisturbed
    workspace = fresh("home")
    words = ("run", *TESTS, "--format", "json", "--quiet", "--jobs", "2")
    with ExitStack() as stack:
        runs = [stack.enter_context(workspace.start(*words)) for _ in range(4)]
        assert wait_until(lambda: workspace.count() >= 40)
        runs[0].kill()
        ends = [process.communicate(timeout=300) for process in runs]
    assert [process.returncode for process in runs] == [-signal.SIGKILL, 0, 0, 0], ends
    documents = [json.loads(out) for out, _ in ends[1:]]
    for document in documents:
        assert {test["id"]: test["outcome"] for test in document["tests"]} == expected.outcomes
        assert document["executed"] == len(document["executed_actions"])
        assert document["executed"] < expected.executed
    assert workspace.kept() == kept
    # Together they executed all that the first one had not kept, hardly anything twice.
    assert sum(document["executed"] for document in documents) <= 1.02 * len(kept)


def test_a_cache_that_cannot_be_made_is_told(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    """A cache folder that cannot be made is the machine's fault, with its name, and nothing else goes wrong."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = Workspace(fresh("home").home, cache=blocked / "cache")("run", "mlir/linalg-loops/x86_64/mlp", "--quiet")
    assert done.code == 3
    assert done.stderr.startswith("matrix: the action cache cannot be written: ")
    assert str(blocked / "cache") in done.stderr


def test_what_is_damaged_is_made_again(fresh: Callable[[str], Workspace]) -> None:
    """Blobs are checked against their names when they are read; a damaged one costs an execution, not a verdict."""
    workspace = fresh("home")
    test = "mlir/linalg-loops/x86_64/mlp"
    before = workspace.run(test)
    for path in (workspace.actions / "blobs").glob("??/*"):
        if path.read_bytes().startswith(b"module"):
            path.write_bytes(path.read_bytes() + b"// changed\n")
    for path in results(workspace.actions):
        if b'"kernel"' in path.read_bytes():
            path.unlink()
    again = workspace.run(test)
    assert again.outcomes == before.outcomes == {test: "pass"}
    assert 0 < again.executed <= before.executed


def test_the_c_library_outlives_action_caches(tmp_path: Path) -> None:
    """It is among the packages: the second cache finds there what the first one has, by the same keys."""
    first, second = (Workspace(new_home(tmp_path / name)) for name in ("first", "second"))
    first.run("mlir/linalg-loops/x86_64/transpose")
    report = second.run("mlir/linalg-loops/x86_64/transpose")
    assert not [name for name in report.actions if name.startswith("runtime/")]
    assert second.kept() == first.kept()


def test_the_cache_is_for_one_machine_and_environment(warm: Workspace, tmp_path: Path) -> None:
    """Results hold nothing of this machine's folders, so that they can be moved to another."""
    found = subprocess.run(
        ["grep", "-rlF", "-e", str(warm.home.resolve()), "-e", "/scratch/", ActionCache(warm.actions).results],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.stdout == ""
