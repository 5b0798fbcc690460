"""Fetching one LLVM against a plain client and ``dpkg -x``; fetching again; the suite llvm-releases against its tools alone.

    benchmarks/run toolchain

Plain: curl, with as many connections at a time as serve it best, then ``dpkg -x`` of every package on all cores, as a
person with a list of addresses would do it. Ours is the whole command, from an empty home. The tools' own times are those
of the processes of the releases' programs and of the kernels, and of the few actions that are Python themselves, as each
action measured them in the very run that they are compared with.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

from _baseline import cores
from _matrix import LAUNCHER
from _timing import verdict
from cold import added, kit_template, once, results

from mlir_matrix.environments.fetch.apt_sources import find_mirrors
from mlir_matrix.environments.lockfiles.debian import (
    DebianRelease,
    debian_lock_file,
    read_debian_lock,
)
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.session import open_session

RELEASE = "19.1.7"
FETCHES = 3
AGAIN = 9
CLIENTS = (8, 16)


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def plain(lock: DebianRelease, folder: Path, connections: int) -> None:
    """Download by curl, then unpack by dpkg on all cores."""
    base = find_mirrors().bases[0].rstrip("/")
    lines = [
        f'url = "{base}/{urllib.parse.quote(package.path, safe="/+~")}"\noutput = "{folder}/{number}.deb"\n'
        for number, package in enumerate(sorted(lock.packages, key=lambda package: -package.size))
    ]
    (folder / "list").write_text("".join(lines), encoding="utf-8")
    command = ["curl", "--silent", "--fail", "--parallel", "--parallel-max", str(connections)]
    subprocess.run([*command, "--config", str(folder / "list")], check=True)
    archives = "\0".join(str(path) for path in folder.glob("*.deb"))
    unpack = ["xargs", "-0", "-P", str(cores()), "-n", "1", "sh", "-c", 'dpkg -x "$1" "$0"', str(folder / "root")]
    subprocess.run(unpack, input=archives.encode(), check=True)


def ours(home: Path, session: Session) -> list[str]:
    """Fetch the release into a home that has nothing but the program's own environment."""
    home.mkdir(exist_ok=True)
    if not (home / "tool").exists():
        (home / "tool").symlink_to(session.home.cache / "tool")
    command = [LAUNCHER, "toolchain", "fetch", f"llvm@{RELEASE}", "--quiet"]
    environment = {**os.environ, "MATRIX_HOME": str(home)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def fetching(session: Session) -> bool:
    """Compare fetching; prints and returns whether both numbers hold."""
    lock = read_debian_lock(debian_lock_file(session.lock_folders[0], "llvm", RELEASE))
    spent: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=session.home.cache) as name:
        for run in range(FETCHES + 1):
            contenders: dict[str, Callable[[Path], object]] = {
                **{f"curl, {count} connections": lambda path, n=count: plain(lock, path, n) for count in CLIENTS},  # type: ignore[misc]
                "matrix": lambda path: ours(path, session),
            }
            for label, contender in contenders.items():
                folder = Path(name, f"{run}-{label[:7].strip(',')}")
                folder.mkdir(exist_ok=True)
                seconds = timed(lambda c=contender, f=folder: c(f))  # type: ignore[misc]
                if run:
                    spent.setdefault(label, []).append(seconds)
                if run < FETCHES or label != "matrix":
                    shutil.rmtree(folder)
        home = Path(name, f"{FETCHES}-matrix")
        again = statistics.median(timed(lambda: ours(home, session)) for _ in range(AGAIN))
    medians = {label: statistics.median(seconds) for label, seconds in spent.items()}
    for label, seconds in medians.items():
        print(f"     llvm {RELEASE}, {lock.size / 1e6:.0f} MB: {label}: {seconds:.1f} s (median of {FETCHES})")
    best = min(seconds for label, seconds in medians.items() if label != "matrix")
    print(f"     fetched again: {again:.3f} s (median of {AGAIN})")
    return all(
        [
            verdict("fetch / fastest plain client and dpkg -x", medians["matrix"] / best, 1.2, at_most=True),
            verdict("seconds to fetch what is there", again, 0.2, at_most=True),
        ]
    )


def releases(session: Session) -> bool:
    """The suite llvm-releases from an empty action cache, but for the C library of the target."""
    with tempfile.TemporaryDirectory(dir=session.home.cache) as name:
        cache = Path(name, "actions")
        kit_template(session, "llvm-releases", cache)
        before = results(cache)
        wall, report = once(cache, "llvm-releases")
        tools = actions = 0.0
        for result in added(cache, before):
            spent = result.usage.get("wall_s", 0.0)
            actions += spent
            tools += result.metrics.get("programs_s", spent)
    total, executed = report.document["summary"]["total"], report.document["executed"]
    print(f"     llvm-releases: {total} tests, {executed} actions, cold: {wall:.1f} s")
    print(f"     actions {actions:.1f} s, of these the tools {tools:.1f} s, on {cores()} cores")
    print(f"     matrix itself: {report.own_s:.1f} s of CPU")
    return verdict("cold run / tools' own times on all cores", wall / (tools / cores()), 1.3, at_most=True)


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    subprocess.run([LAUNCHER, "toolchain", "fetch", "llvm-releases", "--quiet"], check=True)
    session = open_session()
    holds = [fetching(session), releases(session)]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
