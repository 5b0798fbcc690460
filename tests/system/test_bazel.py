"""A workspace of somebody else that depends on this module, and the executor as a person calls it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mlir_matrix.bazel.locate import locate
from support.downstream import Downstream
from support.hostile import INNOCENT_MLIR, MLIR
from support.workspace import REPOSITORY, Report, Workspace, wait_until

#: Short builds end sooner if Java compiles little.
QUICK = ("--host_jvm_args=-XX:TieredStopAtLevel=1", "--host_jvm_args=-XX:+UseSerialGC")
MODULE = """\
module(name = "somebody")
bazel_dep(name = "mlir_matrix")
local_path_override(module_name = "mlir_matrix", path = "{root}")

matrix = use_extension("@mlir_matrix//toolchains/bazel:extensions.bzl", "matrix")
matrix.suite(name = "ours", catalogs = ["."], tests = ["ours"])
matrix.plan(name = "kept", catalogs = ["."], plan = "//:plan.json", tests = ["ours"])
use_repo(matrix, "ours", "kept")
register_toolchains("@ours//_toolchains:all")
register_execution_platforms("@ours//_platforms:all")
"""
SUITE = """\
description: Somebody's tests.
blocks:
  - product:
      workload: [m_good, m_wrong, m_divides]
      framework: [mlir]
      pipeline: [linalg-loops, tosa-loops]
      target: [x86_64]
expect:
  - {tests: [mlir/linalg-loops/x86_64/m_divides], outcome: crashed, reason: It divides by zero.}
"""


@dataclass(frozen=True)
class BazelWorkspace:
    """Somebody's project, and Bazel in it."""

    catalog: Downstream
    command: list[str]
    workspace: Workspace

    def __call__(self, verb: str, *words: str, code: int = 0) -> str:
        """What Bazel says."""
        settings = ["--noenable_workspace", "--lockfile_mode=off", "--color=no", "--curses=no"]
        if verb in ("build", "test"):
            kept = self.workspace.home / "bazel" / "results"
            settings += [f"--disk_cache={kept}", "--strategy=MatrixAction=worker,sandboxed", "--test_output=errors"]
        done = subprocess.run(
            [*self.command, verb, *settings, *words],
            cwd=self.catalog.root, env={**os.environ, **self.workspace.env}, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def bazel(current: Any, workspace: Workspace) -> list[str]:
    """The words that start the Bazel that is used here."""
    return [*locate(current).command, f"--output_user_root={workspace.home}/bazel/root", *QUICK]


@pytest.fixture(scope="module")
def bazel_workspace(
    tmp_path_factory: pytest.TempPathFactory, workspace: Workspace, bazel: list[str]
) -> Iterator[BazelWorkspace]:
    catalog = Downstream(tmp_path_factory.mktemp("somebody"))
    for name in ("m_wrong", "m_divides"):
        catalog.workload(name, linalg=MLIR[name][0])
    catalog.workload("m_good", linalg=INNOCENT_MLIR)
    catalog.write("matrix/suites/ours.yaml", SUITE)
    catalog.write("MODULE.bazel", MODULE.format(root=REPOSITORY))
    catalog.write("BUILD.bazel", "")
    plan = workspace("plan", "ours", "--catalog", catalog.root, "--sealed", "--format", "json")
    assert plan.code == 0, plan.stderr
    catalog.write("plan.json", plan.stdout)
    made = BazelWorkspace(catalog, bazel, workspace)
    yield made
    made("shutdown")


def test_every_test_is_a_target(bazel_workspace: BazelWorkspace) -> None:
    listed = bazel_workspace("query", "tests(@ours//mlir/...)")
    for name in ("m_good", "m_wrong", "m_divides"):
        assert f"@ours//mlir/linalg-loops/x86_64:{name}" in listed
        assert f"@ours//mlir/tosa-loops/x86_64:{name}" in listed


def test_tags_select_tests(bazel_workspace: BazelWorkspace) -> None:
    tagged = (
        'attr(tags, "pipeline=tosa-loops", tests(@ours//...)) intersect attr(tags, "framework=mlir", tests(@ours//...))'
    )
    listed = bazel_workspace("query", tagged, "--output=label").split()
    assert sorted(label for label in listed if label.startswith("@ours//")) == [
        f"@ours//mlir/tosa-loops/x86_64:{name}" for name in ("m_divides", "m_good", "m_wrong")
    ]


def test_a_wildcard_runs_what_can_run_and_tells_what_is_not_as_expected(bazel_workspace: BazelWorkspace) -> None:
    said = bazel_workspace("test", "@ours//...", "--keep_going", code=3)
    assert re.search(r"out of 6 tests: 2 tests pass, 1 fails \w+ and 3 were skipped", said), said
    assert "mismatch mlir/linalg-loops/x86_64/m_wrong: y: 3 of 4 elements" in said
    assert "repeat:   matrix run --catalog=. mlir/linalg-loops/x86_64/m_wrong" in said
    logs = Path(bazel_workspace("info", "bazel-testlogs").splitlines()[-1])
    (file,) = logs.glob("**/m_wrong/test.xml")
    (case,) = ElementTree.parse(file).iter("testcase")
    assert case.attrib == {"classname": "mlir.linalg-loops.x86_64", "name": "m_wrong"}
    failure = case.find("failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("mismatch", "expected pass, got mismatch")
    assert "y: 3 of 4 elements" in str(failure.text)


def test_bazel_builds_the_same_c_library(bazel_workspace: BazelWorkspace, c_library: Path) -> None:
    """Where no executor of ours gives it one: the same bytes in another folder, by another worker."""
    target = "@ours//_targets:runtime-x86_64-linux-musl"
    bazel_workspace("build", target)
    (path,) = re.findall(r"^\S+/out/\S+$", bazel_workspace("cquery", target, "--output=files"), re.MULTILINE)
    assert (bazel_workspace.catalog.root / path).read_bytes() == c_library.read_bytes()


def test_naming_what_cannot_run_says_why(bazel_workspace: BazelWorkspace) -> None:
    said = bazel_workspace("test", "@ours//mlir/tosa-loops/x86_64:m_good", code=1)
    assert "_because:unsupported, mlir emits linalg; tosa-loops takes tosa, torch or torch-onnx" in said


def test_actions_need_nothing_of_the_machine(bazel_workspace: BazelWorkspace) -> None:
    """In the sandbox that holds what is declared, and no other file of the machine."""
    hermetic = ["--experimental_use_hermetic_linux_sandbox", "--strategy=MatrixAction=linux-sandbox", "--disk_cache="]
    # What the kernel tells of processes, by which zig finds itself; services mount it, too.
    hermetic += ["--sandbox_add_mount_pair=/proc"]
    target = "@ours//mlir/linalg-loops/x86_64:m_good"
    said = bazel_workspace("build", *hermetic, target, "--output_groups=matrix_results", "--@ours//:timeout_s=77")
    assert re.search(r"\d+ linux-sandbox", said)


def test_a_plan_that_is_a_file_is_checked(bazel_workspace: BazelWorkspace) -> None:
    bazel_workspace("test", "@kept//:plan_is_current")
    suite = bazel_workspace.catalog.root / "matrix/suites/ours.yaml"
    old = suite.read_text()
    suite.write_text(old.replace("m_good, ", ""))
    try:
        assert "is stale: its summary, tests, actions changed" in bazel_workspace(
            "test", "@kept//:plan_is_current", code=3
        )
        # One that is made when it is needed follows.
        assert ":m_good" not in bazel_workspace("query", "tests(@ours//mlir/...)")
    finally:
        suite.write_text(old)


def test_the_executor_says_what_the_local_one_says(
    bazel_workspace: BazelWorkspace, fresh: Callable[[str], Workspace]
) -> None:
    """Results, exit code and what is kept of a failure."""
    workspace, own = fresh("home"), ("duration_s", "cached", "environments", "kept", "repeat")
    said = {}
    for executor in ("local", "bazel"):
        done = workspace(
            "run",
            "ours",
            "--catalog",
            bazel_workspace.catalog.root,
            "--executor",
            executor,
            "--format",
            "json",
            "--quiet",
        )
        assert done.code == 1, done.stderr
        said[executor] = [
            {key: value for key, value in test.items() if key not in own} for test in done.document["tests"]
        ]
        kept = Path(Report(done).tests["mlir/linalg-loops/x86_64/m_wrong"]["kept"])
        names = {path.name for path in kept.iterdir()}
        assert {"result.json", "repeat.sh"} < names
        assert any(name.endswith("-y.npy") for name in names), names
        assert executor == "local" or "--executor bazel" in (kept / "repeat.sh").read_text()
    assert said["bazel"] == said["local"]


def test_unchanged_tests_are_not_run_again(workspace: Workspace, bazel_workspace: BazelWorkspace) -> None:
    words = ("mlir/linalg-loops/x86_64/transpose", "--catalog", bazel_workspace.catalog.root, "--executor", "bazel")
    arguments = ("run", *words, "--format", "json", "--quiet")
    workspace(*arguments)
    again = json.loads(workspace(*arguments).stdout)
    assert again["executed"] == 0
    assert [test["cached"] for test in again["tests"]] == [True]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended(how: signal.Signals, workspace: Workspace, bazel_workspace: BazelWorkspace) -> None:
    """Bazel stops what it does, and goes on with the next run, which removes what is left."""
    bazel_workspace.catalog.workload(how.name, linalg=MLIR["m_endless"][0])
    words = ("--catalog", bazel_workspace.catalog.root, "--executor", "bazel")
    scratch = workspace.actions / "scratch"
    with workspace.start("run", f"mlir/linalg-loops/x86_64/{how.name}", *words) as process:
        assert wait_until(lambda: list(scratch.glob(f"{process.pid}-*/log")))
        process.send_signal(how)
        _, said = process.communicate(timeout=120)
    assert process.returncode == (130 if how == signal.SIGINT else -how), said
    assert "Traceback" not in said
    workspace("run", "mlir/linalg-loops/x86_64/transpose", *words)
    # Other tests may run at the same time, in folders of their own.
    left = [each for each in scratch.glob("*") if not Path("/proc", each.name.partition("-")[0]).exists()]
    assert not left


@pytest.mark.parametrize(
    ("program", "code", "what"),
    [("/bin/false", 2, "MATRIX_BAZEL"), ("no-such-bazel", 2, "there is no program no-such-bazel")],
)
def test_what_is_no_bazel_is_refused(workspace: Workspace, program: str, code: int, what: str) -> None:
    other = Workspace(workspace.home, more={"MATRIX_BAZEL": program})
    done = other("run", "mlir/linalg-loops/x86_64/transpose", "--executor", "bazel")
    assert done.code == code, done.stderr
    assert what in done.stderr


def test_options_of_bazel_are_for_bazel(workspace: Workspace) -> None:
    done = workspace("run", "mlir/linalg-loops/x86_64/transpose", "--remote", "grpc://127.0.0.1:1")
    assert done.code == 2
    assert "--remote requires --executor bazel" in done.stderr
    done = workspace("run", "mlir/linalg-loops/x86_64/transpose", "--executor", "bazel", "--exec-property", "pool")
    assert done.code == 2
    assert "expected KEY=VALUE" in done.stderr
    done = workspace(
        "run", "mlir/linalg-loops/x86_64/transpose", "--executor", "bazel", "--exec-property", "mlri:pool=x"
    )
    assert done.code == 2
    assert "there is no environment mlri; did you mean 'mlir'?" in done.stderr


def test_bazel_runs_the_tests_of_a_room(bazel: list[str]) -> None:
    """Of this repository, whose targets are a room each."""

    def call(*words: str) -> str:
        settings = ("--lockfile_mode=off", "--color=no", "--curses=no")
        done = subprocess.run(
            [*bazel, *words, *settings], cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    listed = re.findall(r"//:fast_(\w+)", call("query", "tests(//:all)"))
    assert {"base", "catalog", "expand", "plan", "results"} <= set(listed)
    assert re.search(r"//:fast_explain +PASSED", call("test", "--symlink_prefix=/", "//:fast_explain"))
    call("shutdown")
