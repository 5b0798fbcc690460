"""Programs that do what no program should: each gets an outcome of its own, and the others beside it theirs.

One run has all that end at once, with innocent ones in between, so that what one does to another shows.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.contained import BY_THE_WORKER
from support.downstream import Downstream, processes, tree
from support.hostile import CASES, CELLS, CONTAINED, GOOD, INNOCENT_MLIR, JAX, LEFT, MLIR, REFERENCES, TORCH
from support.machine import namespaces
from support.workspace import ENDLESS_S, ENDS_S, Report, Workspace, bazel_servers, new_home

#: By executor: local has all in a few workers, Bazel each in a process of its own.
INNOCENT = {
    executor: [f"{cell}/good_{n}" for cell in CELLS.values() for n in range(number)]
    for executor, number in (("local", 4), ("bazel", 1))
}
#: Of what the worker alone sees, by Bazel a few.
_FEW = ("raises", "exits", "leaves_quietly", "claims_pass", "outcome_garbage", "long_message")
TRIED = {
    "local": list(CASES),
    "bazel": [
        test
        for test in CASES
        if test.startswith("jax/")
        if (name := test.rpartition("/")[2]) in _FEW or name not in BY_THE_WORKER
    ]
    + [f"{CELLS['mlir']}/{name}" for name in ("m_divides", "m_memory", "m_broken")],
}


def cases(executor: str) -> dict[str, tuple[str, str, str]]:
    """Those that this machine can hold."""
    return {test: CASES[test] for test in TRIED[executor] if namespaces() or test.rsplit("/")[-1] not in CONTAINED}


def each(tests: Mapping[str, Iterable[str]]) -> pytest.MarkDecorator:
    """For each executor's tests."""
    return pytest.mark.parametrize(
        ("aftermath", "test"),
        [
            pytest.param(executor, test, marks=[pytest.mark.namespaces] if test.rsplit("/")[-1] in CONTAINED else [])
            for executor, names in tests.items()
            for test in names
        ],
        indirect=["aftermath"],
    )


@dataclass(frozen=True)
class Aftermath:
    """The run with everything in it, and the traces that it left."""

    catalog: Downstream
    executor: str
    tests: dict[str, Any]
    workspace: Workspace
    connections: int
    victim_before: dict[str, Any]
    victim_after: dict[str, Any]
    left: list[str]

    def run_again(self, tests: Iterable[str], limit_s: int) -> Report:
        """By the same executor."""
        words = ["--catalog", self.catalog.root, "--format", "json", "--quiet", "--executor", self.executor]
        return Report(self.workspace("run", *tests, *words, "--timeout", str(limit_s), "--memory", "1536"))


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[int, list[int]]]:
    """A port of this machine that counts who comes."""
    server = socket.create_server(("127.0.0.1", 0))
    came = [0]

    def serve() -> None:
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return
            came[0] += 1

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1], came
    server.shutdown(socket.SHUT_RDWR)
    server.close()


@pytest.fixture(scope="module")
def aftermaths(
    tmp_path_factory: pytest.TempPathFactory, c_library: Path, listener: tuple[int, list[int]]
) -> Callable[[str], Aftermath]:
    """By executor, each at its first use."""
    return cache(lambda executor: make_aftermath(executor, tmp_path_factory.mktemp("hostile"), listener))


@pytest.fixture(params=["local", "bazel"])
def aftermath(request: pytest.FixtureRequest, aftermaths: Callable[[str], Aftermath]) -> Aftermath:
    return aftermaths(request.param)


def make_aftermath(executor: str, folder: Path, listener: tuple[int, list[int]]) -> Aftermath:
    workspace = Workspace(new_home(folder / "home"), more={"COLUMNS": "120"})
    victim = folder / "victim"
    victim.mkdir()
    (victim / "kept").write_text("kept")
    (victim / "linalg.mlir").write_text("kept")
    (victim / "stablehlo.mlir").write_text("kept")
    port, came = listener
    came[0] = 0
    started = time.monotonic()
    catalog = Downstream(folder / "catalog")
    for framework, sources in (("jax", JAX), ("pytorch", TORCH), ("linalg", MLIR)):
        for name, (source, _, _) in sources.items():
            text = source.replace("VICTIM", str(victim)).replace("PORT", str(port))
            # Bazel keeps results from one session of tests to the next.
            text += f"\n{'//' if framework == 'linalg' else '#'} {started}"
            catalog.workload(name, **{framework: text.replace("STABLEHLO", "stablehlo.mlir")})
    for number in range(4):
        catalog.workload(f"good_{number}", jax=GOOD, pytorch=GOOD, linalg=INNOCENT_MLIR)
    before = tree(victim)
    tried = cases(executor)
    endless = [test for test, (_, outcome, _) in tried.items() if outcome == "timed-out"]
    tests = workspace.run_with_endless(
        [*(test for test in tried if test not in endless), *INNOCENT[executor]], endless,
        "--catalog", catalog.root, "--memory", "1536", "--jobs", "4", "--executor", executor,
    )  # fmt: skip
    servers = tuple(f"{pid} " for pid in bazel_servers(workspace.home / "bazel"))
    left = [line for line in processes(name=LEFT, command=str(workspace.home)) if not line.startswith(servers)]
    return Aftermath(catalog, executor, tests, workspace, came[0], before, tree(victim), left)


def test_every_test_has_a_result(aftermath: Aftermath) -> None:
    assert len(aftermath.tests) == len(cases(aftermath.executor)) + len(INNOCENT[aftermath.executor])


@each(INNOCENT)
def test_innocent_ones_pass(aftermath: Aftermath, test: str) -> None:
    result = aftermath.tests[test]
    assert result["outcome"] == "pass", result


@each(TRIED)
def test_each_gets_its_own_outcome(aftermath: Aftermath, test: str) -> None:
    _, outcome, reason = CASES[test]
    result = aftermath.tests[test]
    said = f"{result['outcome']} at {result['stage']}: {result['reason']}\n{result.get('diagnostics', '')[-3000:]}"
    assert re.fullmatch(outcome, result["outcome"]), said
    assert re.search(reason, result["reason"]), said
    stage = "run" if test.startswith("mlir") and result["outcome"] in ("crashed", "timed-out") else None
    if result["outcome"] in ("crashed", "timed-out"):
        assert result["stage"] == (stage or "import")


def test_nothing_is_left_running(aftermath: Aftermath) -> None:
    assert aftermath.left == []


def test_nothing_is_left_lying(aftermath: Aftermath) -> None:
    assert os.listdir(aftermath.workspace.actions / "scratch") == []


def test_nothing_else_is_touched(aftermath: Aftermath) -> None:
    assert aftermath.victim_after == aftermath.victim_before
    assert aftermath.connections == 0


def test_words_do_not_reach_the_terminal_raw(aftermath: Aftermath) -> None:
    for test in aftermath.tests.values():
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", test["reason"] + test.get("diagnostics", "")), test["id"]


def test_verdicts_about_code_are_kept_and_others_are_not(aftermath: Aftermath) -> None:
    """A failure is a value; a time-out, or a SIGKILL from who knows where, is not."""
    if aftermath.executor == "local":
        results = [entry["outcome"] for entry in aftermath.workspace.kept().values()]
        assert {entry["outcome"] for entry in results} <= {"ok", "import-failed", "crashed", "run-failed"}
        assert not [entry for entry in results if entry.get("signal") == "SIGKILL"]
        assert len([entry for entry in results if entry.get("signal") == "SIGSEGV"]) >= 4
    found = aftermath.tests
    said = {test: f"{result['outcome']} {result['reason']}" for test, result in found.items()}
    # What ends without a word may have been ended by the machine, what leaves a damaged folder may not have done that.
    unsure = "exit code|claims an outcome|left an outcome|reported success|damaged its folder"
    kept = [test for test in said if re.search(f"SIGSEGV|import-failed(?!.*({unsure}))", said[test])]
    lost = [f"{CELLS['jax']}/{name}" for name in ("bomb", "kills_itself")]
    assert len(kept) >= 8
    assert all(re.search("timed-out|SIGKILL", said[test]) for test in lost)
    again = aftermath.run_again(kept, ENDS_S)
    assert {test: again.outcomes[test] for test in kept} == {test: found[test]["outcome"] for test in kept}
    assert again.actions == set()
    executed = {action.rpartition("-")[0].rpartition("/")[2] for action in aftermath.run_again(lost, ENDLESS_S).actions}
    assert executed == {test.rpartition("/")[2] for test in lost}


@pytest.mark.parametrize("name", ["daemon", "bomb"])
def test_what_failures_leave_has_what_came_before(aftermath: Aftermath, name: str) -> None:
    """Whoever made it, and from whichever run it is known."""
    folder = Path(aftermath.tests[f"{CELLS['jax']}/{name}"]["kept"])
    assert {"result.json", "repeat.sh", f"01-inputs-{name}-x.npy"} <= {path.name for path in folder.iterdir()}


@pytest.mark.namespaces
def test_hostile_references(tmp_path: Path) -> None:
    """A golden is written for the reference that computes one, and for no other."""
    workspace = Workspace(new_home(tmp_path / "home"))
    catalog = Downstream(tmp_path / "catalog")
    (tmp_path / "victim").mkdir()
    for name, (reference, _) in REFERENCES.items():
        catalog.workload(name, reference=reference.replace("VICTIM", str(tmp_path / "victim")), jax=GOOD)
    catalog.workload("good", jax=GOOD)
    (catalog.root / "golden/good/y.npy").unlink()
    before = tree(catalog.root)
    command = workspace.command("golden", "update", "--write", *REFERENCES, "good", "--catalog", catalog.root)
    # Their tracebacks belong to what it says.
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **workspace.env}, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "internal error" not in done.stderr
    for name, (_, reason) in REFERENCES.items():
        place = rf"{catalog.root}/matrix/workloads/{name}/(reference\.py:\d+|workload\.yaml:1:1)"
        said = re.search(rf"^{place}: .*$", done.stderr, re.MULTILINE)
        assert said, (name, done.stderr)
        assert re.search(reason, said[0]), said[0]
    after = tree(catalog.root)
    assert {path for path in after if after[path] != before.get(path)} == {"golden/good", "golden/good/y.npy"}
    assert processes(command=str(workspace.home)) == []
    assert os.listdir(tmp_path / "victim") == []
