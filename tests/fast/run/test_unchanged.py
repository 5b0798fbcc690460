"""Kept results: they are used again only while everything that they depend on is as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base import fingerprint
from mlir_matrix.execute.use_log import read_uses
from mlir_matrix.plan.graph import File, Graph
from mlir_matrix.plan.request import ExecutorOptions, Limits, Request
from mlir_matrix.results.results import Run, TestResult
from mlir_matrix.run.unchanged import KeptRun, UnchangedRuns

TOOLS = Path(fingerprint.__file__).parents[2]
_NAMES = {"framework": "jax", "pipeline": "p", "target": "t"}
PASS = TestResult(
    id="jax/p/t/a", **_NAMES, workload="a", outcome="pass", stage="judge", expected=True, reason="", cached=True,
    duration_s=1 / 3, pins={"llvm": "19"}, metrics={"max_ulp": 0.1}, verdict={"large": 1}, weak={"y": ["all zeros"]},
    repeat="tools/matrix run jax/p/t/a",
)  # fmt: skip
MISMATCH = replace(
    PASS, id="jax/p/t/b", outcome="mismatch", verdict={"outputs": [{"error": float("inf")}]}, weak={},
    step={"name": "judge/b", "action": "judge/b-1"}, signal="SIGSEGV", frame="f()",
)  # fmt: skip
UNSUPPORTED = replace(PASS, id="jax/p/t/c", outcome="unsupported", cached=False, verdict=None)
REQUEST = Request(
    tests=("smoke",), catalogs=(), cache_dir=None, swaps={}, pins=(),
    executor=ExecutorOptions(), limits=Limits(jobs=1), keep_going=True,
)  # fmt: skip


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog, a cache and code of ours, on a file system with a perfect clock."""
    root = tmp_path / "root"
    for name in ("matrix/suites/smoke.yaml", "golden/a/y.npy", "tools/driver/main.c", "recipes/kinds/x.yaml", "README"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("0123")
    (tmp_path / "home" / "actions" / "blobs").mkdir(parents=True)
    for name in ("blob", "blobs/entry"):
        (tmp_path / "home" / "actions" / name).write_text("0123")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "module.py").write_text("x = 1")
    monkeypatch.setenv("MATRIX_ROOT", str(root))
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(fingerprint, "_PACKAGE", str(tmp_path / "code"))
    monkeypatch.setattr(fingerprint, "_TICK_NS", -1 << 40)
    return root


def report(tmp_path: Path, *results: TestResult, **more: Any) -> KeptRun:
    actions = tmp_path / "home" / "actions"
    relied = [str(actions / name) for name in ("blob", "blobs/entry")]
    run = Run(results=list(results or (PASS, MISMATCH, UNSUPPORTED)), **{"relied": relied, **more})
    return KeptRun(run=run, pins={"llvm": "19"})


def keep(tmp_path: Path, request: Request = REQUEST) -> None:
    UnchangedRuns(request).keep(report(tmp_path), Graph())
    assert UnchangedRuns(request).find() is not None


def test_the_same_results_come_back(tmp_path: Path) -> None:
    assert UnchangedRuns(REQUEST).find() is None
    given = report(tmp_path)
    UnchangedRuns(REQUEST).keep(given, Graph())
    found = UnchangedRuns(REQUEST).find()
    assert found is not None
    assert [each.to_json() for each in found.run.results] == [each.to_json() for each in given.run.results]
    assert found.run.results == [replace(PASS, verdict=None), MISMATCH, UNSUPPORTED]
    assert (found.pins, found.run.executed, found.run.interrupted) == (given.pins, 0, False)


def same_size_and_time(path: Path) -> None:
    """An edit within one second that leaves no trace but the change time."""
    status = path.stat()
    path.write_text("0124")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def exchange(path: Path) -> None:
    """Another file of the same size and times in its place."""
    other = path.with_name("other")
    shutil.copy2(path, other)
    other.replace(path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda root: same_size_and_time(root / "matrix/suites/smoke.yaml"),
    "exchanged": lambda root: exchange(root / "golden/a/y.npy"),
    "driver": lambda root: same_size_and_time(root / "tools/driver/main.c"),
    "removed": lambda root: (root / "golden/a/y.npy").unlink(),
    "renamed": lambda root: (root / "golden/a/y.npy").rename(root / "golden/a/z.npy"),
    "new file": lambda root: (root / "matrix/suites/other.yaml").touch(),
    "new folder": lambda root: (root / "golden/b").mkdir(),
    "new catalog folder": lambda root: (root / "toolchains").mkdir(),
    "misspelt catalog folder": lambda root: (root / "toolchain").mkdir(),
    "mode": lambda root: (root / "matrix/suites/smoke.yaml").chmod(0o600),
    "link": lambda root: (root / "golden/link").symlink_to("a"),
    "catalog folder is a link": lambda root: (root / "golden").rename(root / "g") and (root / "golden").symlink_to("g"),
    "no catalog": lambda root: root.rename(root.with_name("moved")),
    "code": lambda root: same_size_and_time(root.parent / "code/module.py"),
    "blob edited": lambda root: same_size_and_time(root.parent / "home/actions/blobs/entry"),
    "blob gone": lambda root: (root.parent / "home/actions/blob").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_unchanged_run_notices_any_change(change: Callable[[Path], object], root: Path, tmp_path: Path) -> None:
    keep(tmp_path)
    (root / "README").write_text("not of the catalog")
    assert UnchangedRuns(REQUEST).find() is not None
    change(root)
    assert UnchangedRuns(REQUEST).find() is None


@pytest.mark.parametrize("name", ["cpu_digest", "sys.version", "os.geteuid"])
def test_another_machine_or_interpreter_is_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path)
    other = "3.12" if name == "sys.version" else lambda: "other"
    monkeypatch.setattr(f"mlir_matrix.base.fingerprint.{name}", other)
    assert UnchangedRuns(REQUEST).find() is None


def test_an_installed_package_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(packages)
    keep(tmp_path)
    (packages / "pydantic").mkdir()
    assert UnchangedRuns(REQUEST).find() is None


def test_a_python_on_path_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would run what the locked interpreter has run; other programs would not."""
    monkeypatch.setenv("PATH", str(tmp_path))
    keep(tmp_path)
    for name, found in (("cmake", True), ("python3.13", False)):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
        assert (UnchangedRuns(REQUEST).find() is not None) == found


@pytest.mark.parametrize(
    "other",
    [
        {"tests": ("other",)},
        {"tests": ()},
        {"swaps": {"mlir": "other"}},
        {"pins": ("llvm=19",)},
        {"limits": Limits(jobs=1, memory_mb=64)},
        {"limits": Limits(jobs=1, timeout_s=1)},
        {"executor": ExecutorOptions(devices=("/dev/null",))},
        {"executor": ExecutorOptions(executor="docker")},
        {"executor": ExecutorOptions(executor="bazel")},
        {"keep_going": False},
    ],
)
def test_another_command_line_has_results_of_its_own(other: dict[str, Any], tmp_path: Path) -> None:
    keep(tmp_path)
    assert UnchangedRuns(replace(REQUEST, **other)).find() is None
    assert UnchangedRuns(replace(REQUEST, limits=Limits(jobs=7))).find() is not None


def test_unchanged_run_depends_on_every_catalog(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "matrix").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    request = replace(REQUEST, catalogs=(Path("mine"),))
    keep(tmp_path, request)
    assert UnchangedRuns(replace(REQUEST, catalogs=(tmp_path / "mine",))).find() is None, "positions are shown as given"
    (tmp_path / "mine" / "matrix" / "suites").mkdir()
    assert UnchangedRuns(request).find() is None


@pytest.mark.parametrize(
    ("results", "more"),
    [
        ((), {"executed_actions": ["a"]}),
        ((), {"interruption": KeyboardInterrupt()}),
        ((), {"relied": None}),
        ((replace(PASS, cached=False),), {}),
        ((PASS, replace(PASS, expected=False)), {}),
        ((PASS, replace(UNSUPPORTED, outcome="skipped")), {}),
        ((PASS, replace(UNSUPPORTED, outcome="infra-error")), {}),
        ((replace(PASS, metrics={"a": ("no", "JSON")}),), {}),
    ],
)
def test_what_may_differ_the_next_time_is_not_kept(results: Any, more: dict[str, Any], tmp_path: Path) -> None:
    UnchangedRuns(REQUEST).keep(report(tmp_path, *results, **more), Graph())
    assert UnchangedRuns(REQUEST).find() is None


def test_what_this_cpu_cannot_run_is_kept(tmp_path: Path) -> None:
    """The CPU is part of the fingerprint. A machine without AVX-512 has such tests in every suite."""
    UnchangedRuns(REQUEST).keep(report(tmp_path, PASS, replace(UNSUPPORTED, outcome="skipped", stage="")), Graph())
    assert UnchangedRuns(REQUEST).find() is not None


def test_an_action_that_reads_elsewhere(tmp_path: Path) -> None:
    graph = Graph()
    graph.add(
        "a", tool="t", stage="run", environment="e", params={}, inputs={"x": File(0, "matrixes/x")}, outputs={}
    )  # fmt: skip
    UnchangedRuns(REQUEST).keep(report(tmp_path), graph)
    assert UnchangedRuns(REQUEST).find() is None


def test_what_changed_a_moment_ago_may_change_again_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two changes within one tick of the file system's clock have the same times."""
    monkeypatch.setattr(fingerprint, "_TICK_NS", 2_500_000_000)
    UnchangedRuns(REQUEST).keep(report(tmp_path), Graph())
    assert UnchangedRuns(REQUEST).find() is None
    for path in (tmp_path / "root", tmp_path / "code", tmp_path / "home"):
        for file in path.rglob("*"):
            os.utime(file, ns=(0, 0))
    UnchangedRuns(REQUEST).keep(report(tmp_path), Graph())
    assert UnchangedRuns(REQUEST).find() is None, "the change times are still new"


@pytest.mark.parametrize(
    ("kind", "kept"), [("nfs4", False), ("fuse.sshfs", False), ("vboxsf", False), ("squashfs", False), ("ext4", True)]
)
def test_a_file_system_that_tells_nothing_of_changes(
    kind: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 {os.major(device)}:{os.minor(device)} / / rw shared:1 - {kind} there rw\n")
    monkeypatch.setattr(fingerprint, "_MOUNTS", str(mounts))
    UnchangedRuns(REQUEST).keep(report(tmp_path), Graph())
    assert (UnchangedRuns(REQUEST).find() is not None) == kept
    mounts.unlink()
    UnchangedRuns(replace(REQUEST, pins=("llvm=1",))).keep(report(tmp_path), Graph())
    assert UnchangedRuns(replace(REQUEST, pins=("llvm=1",))).find() is None


def test_a_change_while_the_run_goes_on(root: Path, tmp_path: Path) -> None:
    """What the run has read is what counts, not what is there when it ends."""
    runs = UnchangedRuns(REQUEST)
    same_size_and_time(root / "matrix/suites/smoke.yaml")
    runs.keep(report(tmp_path), Graph())
    assert UnchangedRuns(REQUEST).find() is None


COMES_AND_GOES: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "file": (lambda root: (root / "golden/a/x").touch(), lambda root: (root / "golden/a/x").unlink()),
    "folder": (lambda root: (root / "golden/b").mkdir(), lambda root: (root / "golden/b").rmdir()),
    "folder that was there": (
        lambda root: (root / "golden/a").rename(root / "a"),
        lambda root: (root / "a").rename(root / "golden/a"),
    ),
    "catalog folder": (lambda root: (root / "toolchains").mkdir(), lambda root: (root / "toolchains").rmdir()),
}


@pytest.mark.parametrize(
    ("change", "gone"),
    # The root itself is not watched: reports of a run may go there.
    [(name, gone) for name in COMES_AND_GOES for gone in (True, False) if (name, gone) != ("catalog folder", True)],
)
def test_what_came_while_a_run_went_on_does_not_count(change: str, gone: bool, root: Path, tmp_path: Path) -> None:
    """The run may have read it, although all is as it was once it is ``gone``: before the run ends, or later."""
    come, go = COMES_AND_GOES[change]
    runs = UnchangedRuns(REQUEST)
    come(root)
    if gone:
        go(root)
    runs.keep(report(tmp_path), Graph())
    if not gone:
        go(root)
    assert UnchangedRuns(REQUEST).find() is None


@pytest.mark.parametrize("name", ["tests", "pins", "catalogs"])
def test_words_that_are_not_utf8(name: str, tmp_path: Path) -> None:
    word = os.fsdecode(b"\xff")
    (tmp_path / word).mkdir()
    given: dict[str, Any] = {name: (tmp_path / word if name == "catalogs" else word,)}
    keep(tmp_path, replace(REQUEST, **given))


def test_another_home_has_results_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same cache: what a run needs is noted in the home, or ``toolchain gc`` would remove it."""
    request = replace(REQUEST, cache_dir=tmp_path / "home" / "actions")
    keep(tmp_path, request)
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path / "other"))
    assert UnchangedRuns(request).find() is None


@pytest.mark.parametrize("damage", [b"", b"{}", b"{}\n", b"\0\xff", b"null\n", None])
def test_a_damaged_file_is_written_again(damage: bytes | None, tmp_path: Path) -> None:
    keep(tmp_path)
    (file,) = (tmp_path / "home" / "actions" / "unchanged").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"mismatch", b"pass") if damage is None else damage)
    assert UnchangedRuns(REQUEST).find() is None
    file.write_bytes(whole[:-100])
    assert UnchangedRuns(REQUEST).find() is None
    keep(tmp_path)
    assert file.read_bytes() == whole


def test_the_file_of_another_command_line_does_not_count(tmp_path: Path) -> None:
    keep(tmp_path)
    (mine,) = (tmp_path / "home" / "actions" / "unchanged").iterdir()
    other = replace(REQUEST, tests=("other",))
    keep(tmp_path, other)
    (its,) = set((tmp_path / "home" / "actions" / "unchanged").iterdir()) - {mine}
    shutil.copyfile(mine, its)
    assert UnchangedRuns(other).find() is None


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home" / "actions" / "unchanged").write_text("in the way")
    UnchangedRuns(REQUEST).keep(report(tmp_path), Graph())
    assert UnchangedRuns(REQUEST).find() is None


def test_unchanged_keeps_the_last_32_command_lines(tmp_path: Path) -> None:
    for number in range(36):
        keep(tmp_path, replace(REQUEST, tests=(str(number),)))
    assert len(list((tmp_path / "home" / "actions" / "unchanged").iterdir())) == 32
    assert UnchangedRuns(replace(REQUEST, tests=("35",))).find() is not None
    assert UnchangedRuns(replace(REQUEST, tests=("0",))).find() is None


def test_an_unchanged_run_imports_little() -> None:
    """What the verb and its summary need: no models, no planner, no library that is slow to import."""
    modules = "mlir_matrix.run.commands, mlir_matrix.run.unchanged, mlir_matrix.results.report.summary"
    ours = "'mlir_matrix.environments.session', 'mlir_matrix.plan.graph', 'mlir_matrix.execute.scheduler'"
    heavy = f"{{'pydantic', 'yaml', 'numpy', {ours}}}"
    code = f"import sys, {modules}; sys.exit(str(found) if (found := {heavy} & set(sys.modules)) else 0)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(TOOLS)})


def test_uses_are_recorded_once_a_day_without_a_touch(tmp_path: Path) -> None:
    """Results that only unchanged runs use must not count as unused, and a record must not void them."""
    actions = tmp_path / "home" / "actions"
    key = "ab" * 32
    (actions / "results-v2" / "ab").mkdir(parents=True)
    (actions / "results-v2" / "ab" / key).write_text("0123")
    relied = [str(actions / "blob"), str(actions / "results-v2" / "ab" / key)]
    UnchangedRuns(REQUEST).keep(report(tmp_path, relied=relied), Graph())
    (file,) = (actions / "unchanged").iterdir()
    (actions / "uses").mkdir()
    assert UnchangedRuns(REQUEST).find() is not None
    assert read_uses(str(actions / "uses")).last == {}, "the run that kept the results has recorded them"
    os.utime(file, (0, 0))
    for _ in range(2):
        assert UnchangedRuns(REQUEST).find() is not None
        (day,) = (actions / "uses").iterdir()
        assert day.read_text().split() == [key[:16]]
        os.utime(day, (0, 0))
    assert day.stat().st_mtime == 0, "once a day"
