"""Somebody's Bazel workspace: a module that depends on this one, with a catalog of any size whose tests really run and pass."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from _synthetic import write

from support.downstream import Downstream
from support.hostile import INNOCENT_MLIR

ROOT = Path(__file__).resolve().parent.parent
#: Tests of a workload.
EACH = 10
_TICKS = os.sysconf("SC_CLK_TCK")
_MODULE = f"""\
module(name = "somebody")
bazel_dep(name = "mlir_matrix")
local_path_override(module_name = "mlir_matrix", path = "{ROOT}")

matrix = use_extension("@mlir_matrix//toolchains/bazel:extensions.bzl", "matrix")
matrix.suite(name = "ours", catalogs = ["."], tests = ["ours"])
use_repo(matrix, "ours")
register_toolchains("@ours//_toolchains:all")
register_execution_platforms("@ours//_platforms:all")
"""
_SUITE = """\
description: d
blocks:
  - product:
      framework: [mlir]
      pipeline: [linalg-loops, linalg-named, linalg-vectorized, math-expand, math-poly]
      target: [x86_64, aarch64]
      workload: ['case-*']
"""
_EXCLUDED = "exclude:\n  - {tests: ['**/%s'], reason: r}\n"


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of Bazel: what a person waits for, and what its server did for it."""

    wall_s: float
    #: CPU seconds of the server, and of the processes that it started and that have ended.
    cpu_s: float
    #: Microseconds of what a profile names, by name.
    profile: Counter[str]

    def seconds(self, name: str) -> float:
        """Wall time of all that the profile calls so."""
        return self.profile[name] / 1e6


class Workspace:
    """A folder of its own with the workspace, a catalog and all that Bazel keeps. ``shared``: results of actions that are kept."""

    def __init__(self, folder: Path, bazel: tuple[str, ...], tests: int, shared: Path) -> None:
        self.folder = folder / "workspace"
        self.tests = tests
        self._command = [*bazel, f"--output_user_root={folder / 'root'}"]
        self._profile = folder / "profile.gz"
        self._shared = shared
        catalog = Downstream(self.folder)
        for number in range(tests // EACH):
            catalog.workload(f"case-{number:05}", linalg=INNOCENT_MLIR)
        write(self.folder / "MODULE.bazel", _MODULE)
        write(self.folder / "BUILD.bazel", "")
        self.leave_out(None)

    def leave_out(self, number: int | None) -> None:
        """Change the suite: without the tests of one workload, or with all."""
        excluded = _EXCLUDED % f"case-{number:05}" if number is not None else ""
        write(self.folder / "matrix/suites/ours.yaml", _SUITE + excluded)

    def __call__(self, verb: str, *words: str) -> Call:
        """Call Bazel, which must succeed."""
        settings = [
            "--noenable_workspace",
            "--lockfile_mode=off",
            "--color=no",
            "--curses=no",
            f"--profile={self._profile}",
        ]
        if verb in ("build", "test"):
            settings += [f"--disk_cache={self._shared}", "--strategy=MatrixAction=worker,sandboxed"]
            settings += ["--sandbox_default_allow_network=false", "--noincompatible_sandbox_hermetic_tmp"]
        before, begin = self._cpu(), time.perf_counter()
        self._call(verb, *settings, *words)
        wall = time.perf_counter() - begin
        return Call(wall_s=wall, cpu_s=self._cpu() - before, profile=_read(self._profile))

    def shutdown(self) -> None:
        """End the server, as after a night."""
        self._call("shutdown")

    def close(self) -> None:
        """End the server and have it remove what only it may."""
        self._call("clean", "--expunge")

    def _call(self, *words: str) -> None:
        done = subprocess.run([*self._command, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bazel {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")

    def _cpu(self) -> float:
        """Of a server that does not run it is nothing."""
        for file in self.folder.parent.glob("root/*/server/server.pid.txt"):
            stat = Path("/proc", file.read_text(encoding="utf-8").strip(), "stat")
            if stat.exists():
                fields = stat.read_text(encoding="utf-8").rpartition(") ")[2].split()
                return sum(map(int, fields[11:15])) / _TICKS
        return 0.0


def _read(file: Path) -> Counter[str]:
    """Of a profile how long each thing took, all of its occurrences."""
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        events = json.load(stream)["traceEvents"]
    spent: Counter[str] = Counter()
    for event in events:
        if event.get("ph") == "X":
            spent[event["name"]] += event["dur"]
    return spent


if __name__ == "__main__":
    sys.exit("this is a part of benchmarks/bazel.py")
