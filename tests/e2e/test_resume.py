"""Runs that are killed, interrupted or not alone: what was finished is kept, and the outcomes are those of a quiet run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from house import House, Report, copy_runtime, new_home

#: Every workload in MLIR, some in a framework: enough to kill in the middle of, short enough to do so often.
TESTS = ("mlir/{linalg-loops,linalg-named}/**", "jax/linalg-loops/x86_64/m*", "mlir/bufferize/ir/*")


def processes_of(folder: Path) -> dict[int, str]:
    """The processes that work in a folder or know of it, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            where = os.readlink(entry / "cwd")
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if where.startswith(str(folder)) or str(folder).encode() in environment:
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")[:200]
    return found


def wait_until(true: Callable[[], bool], seconds: float = 120) -> bool:
    """Wait for something; returns whether it came true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def stop_at(house: House, results: int, stop: signal.Signals) -> tuple[int, str, str]:
    """Start a run, and send its leader a signal once the cache holds so many results; returns code, stdout and stderr."""
    process = house.start("run", *TESTS, "--format", "json", "--quiet")
    try:
        assert wait_until(lambda: house.count() >= results or process.poll() is not None)
        assert process.poll() is None, "the run was over before it could be stopped"
        process.send_signal(stop)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


@pytest.fixture(scope="module")
def undisturbed(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Mapping[str, Any]]:
    """The results of a run that nothing disturbs, from an empty cache, and what it leaves in the cache."""
    house = House(new_home(tmp_path_factory.mktemp("undisturbed") / "home"))
    copy_runtime(runtime, house.actions)
    report = house.run(*TESTS)
    assert report.executed > 250
    assert report.executed == len(report.actions) == house.count() - 1, "all but the runtime, each kept"
    return report, house.kept()


def test_killed_again_and_again(fresh: Callable[[str], House], undisturbed: tuple[Report, Mapping[str, Any]]) -> None:
    """Only the leader is killed, and without warning: its workers, and what they run, must end by themselves."""
    expected, kept = undisturbed
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    random_points = random.Random(seed).sample(range(2, expected.executed - 20), 4)
    house = fresh("home")
    for point in sorted(random_points):
        code, _, _ = stop_at(house, point, signal.SIGKILL)
        assert code == -signal.SIGKILL
        assert wait_until(lambda: not processes_of(house.home), seconds=10), processes_of(house.home)
    finished = house.kept()
    assert random_points[-1] <= len(finished) <= len(kept)
    assert finished.items() <= kept.items()
    report = house.run(*TESTS)
    assert report.executed == len(kept) - len(finished), "what was finished is not done again, what was not is"
    assert report.outcomes == expected.outcomes
    assert {test["reason"] for test in report.tests.values()} == {test["reason"] for test in expected.tests.values()}
    assert house.kept() == kept
    assert list((house.actions / "scratch").iterdir()) == [], "the folders of killed runs are swept"
    assert not any("." in path.name for path in (house.actions / "blobs").glob("??/*"))


def test_killed_while_workers_start(fresh: Callable[[str], House]) -> None:
    house = fresh("home")
    process = house.start("run", *TESTS, "--quiet")
    assert wait_until(lambda: any("--persistent_worker" in command for command in processes_of(house.home).values()))
    process.kill()
    process.communicate()
    assert wait_until(lambda: not processes_of(house.home), seconds=30), processes_of(house.home)


@pytest.mark.parametrize("point", [3, 150])
def test_interrupted(fresh: Callable[[str], House], undisturbed: tuple[Report, Mapping[str, Any]], point: int) -> None:
    expected, kept = undisturbed
    house = fresh("home")
    code, out, err = stop_at(house, point, signal.SIGINT)
    assert code == 130
    assert "interrupted; what was finished is kept: the same command goes on from there" in err
    assert "Traceback" not in err
    document = json.loads(out)
    assert document["interrupted"]
    assert len(document["tests"]) < len(expected.tests)
    partial = {test["id"]: test["outcome"] for test in document["tests"]}
    assert partial.items() <= expected.outcomes.items()
    assert wait_until(lambda: not processes_of(house.home), seconds=10), processes_of(house.home)
    finished = house.count() - 1
    assert document["executed"] == finished
    report = house.run(*TESTS)
    assert report.executed == len(kept) - 1 - finished
    assert not report.document["interrupted"]
    assert report.outcomes == expected.outcomes


def test_two_runs_share_a_cache(fresh: Callable[[str], House], undisturbed: tuple[Report, Mapping[str, Any]]) -> None:
    expected, kept = undisturbed
    house = fresh("home")
    both = [house.start("run", *TESTS, "--format", "json", "--quiet", "--jobs", "1") for _ in range(2)]
    ends = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    for out, _ in ends:
        outcomes = {test["id"]: test["outcome"] for test in json.loads(out)["tests"]}
        assert outcomes == expected.outcomes
    assert house.kept() == kept


def test_a_full_disk_of_the_cache_is_told(fresh: Callable[[str], House], tmp_path: Path) -> None:
    """A cache folder that cannot be made is the machine's fault, with its name, and nothing else goes wrong."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = House(fresh("home").home, cache=blocked / "cache")("run", "mlir/linalg-loops/x86_64/mlp", "--quiet")
    assert done.code == 3
    assert done.stderr.startswith("matrix: the action cache cannot be written: ")
    assert str(blocked / "cache") in done.stderr


def test_what_is_damaged_is_made_again(fresh: Callable[[str], House]) -> None:
    """Blobs are checked against their names when they are read; a damaged one costs an execution, not a verdict."""
    house = fresh("home")
    test = "mlir/linalg-loops/x86_64/mlp"
    before = house.run(test)
    for path in (house.actions / "blobs").glob("??/*"):
        if path.read_bytes().startswith(b"module"):
            path.write_bytes(path.read_bytes() + b"// changed\n")
    for path in (house.actions / "results-v1").glob("??/*"):
        if b'"kernel"' in path.read_bytes():
            path.unlink()
    again = house.run(test)
    assert again.outcomes == before.outcomes == {test: "pass"}
    assert 0 < again.executed <= before.executed


def test_the_cache_is_for_one_machine_and_environment(warm: House, tmp_path: Path) -> None:
    """Results hold nothing of this machine's folders, so that they can be moved to another."""
    found = subprocess.run(
        ["grep", "-rlF", "-e", str(warm.home.resolve()), "-e", "/scratch/", str(warm.actions / "results-v1")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.stdout == ""
