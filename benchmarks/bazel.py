"""`bazel test` of 1,000 unchanged tests, and how long Bazel takes to load 5,000, 10,000 and 20,000.

    benchmarks/run bazel

The tests are real: generated workloads of four elements through five pipelines on two targets, in a workspace of somebody else
that depends on this module; five actions a test. The thousand are run once before, which takes minutes, and is not measured.

Ours of an unchanged call is all that comes before execution, `bazel build --nobuild`: whether files changed, the extension,
loading, analysis. The rest of `bazel test` is Bazel's, which asks of each output of an action whether it is still there.

Loading ends where Bazel knows all targets (`bazel query`): with a cold server, which evaluates the extension anew and has the
repository of the tests from before, and with a warm one after the suite has changed, which makes the plan and the repository
anew. What analysis takes, for those who then build all of it, is told beside it. How times grow is told by CPU time, of the
server and of what it starts: a call has a fixed part (a JVM that starts and compiles itself), so that a ratio is below 1.

Found on two cores, nothing else running; medians of 9 for the unchanged tests (others worked on the machine) and of 2 for loading:

- 1,000 tests unchanged: `bazel test` 1.4 s, of which ours 0.5 s, half of that for looking whether files of environments changed.
- Loading 5,000, 10,000, 20,000 tests, cold: 6.0, 8.8, 12.3 s (10.5, 15.2, 21.2 CPU s); changed: 5.3, 8.2, 15.3 s (8.4, 12.2, 24.4
  CPU s). A cold server compiles itself for 5 CPU s.
- Of 8.2 s for 10,000 that changed: 1.1 s the extension, which asks for environments and watches each file of a catalog; 4.5 s the
  repository of the tests (1.9 s the plan, the rest its reading and writing in Starlark); 2.6 s reading 50,000 actions as packages.
- Analysis, for a build of all of it: 20 s for 10,000 (40 CPU s), little of which is Starlark; it is about 1 ms a target.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from _matrix import matrix
from _timing import medians, verdict
from _workspace import Call, Workspace

from mlir_matrix.bazel.locate import locate
from mlir_matrix.plan.session import open_session

UNCHANGED = 1_000
SIZES = (UNCHANGED, 5_000, 10_000, 20_000)
TARGETS = "@ours//..."
#: What Bazel's profiles call what is ours.
EXTENSION = "_matrix_impl"
CHANGES = "handleDiffs"
REPOSITORY = "_hub_impl"


def unchanged(workspace: Workspace, runs: int) -> bool:
    """A suite that is tested again with nothing changed."""
    first = workspace("test", TARGETS)
    print(f"     {workspace.tests:,} tests, run for the first time: {first.wall_s:.0f} s")
    calls: dict[str, list[Call]] = {"test": [], "ours": []}
    for _ in range(runs):
        calls["test"].append(workspace("test", TARGETS))
        calls["ours"].append(workspace("build", "--nobuild", TARGETS))
    times = {name: statistics.median(call.wall_s for call in each) for name, each in calls.items()}
    files = statistics.median(call.seconds(CHANGES) for call in calls["ours"])
    print(
        f"     unchanged: bazel test {times['test']:.2f} s, of which ours {times['ours']:.2f} s, of which looking for changed "
        f"files {files:.2f} s (medians of {runs})"
    )
    return verdict("unchanged suite of 1,000 tests, our part / 2 s", times["ours"] / 2, 1, at_most=True)


def loading(workspace: Workspace, runs: int) -> dict[str, float]:
    """The medians of what loading takes, cold and changed, and its parts; printed."""
    workspace("build", "--nobuild", TARGETS)  # brings environments
    words = ("plan", "ours", "--catalog", str(workspace.folder), "--sealed", "--format", "json")
    planning = medians({"plan": lambda: matrix(*words)}, runs)["plan"]
    changed, analysed, cold = [], [], []
    for number in range(runs):
        workspace.leave_out(number)
        changed.append(workspace("query", TARGETS))
        analysed.append(workspace("build", "--nobuild", TARGETS))
        workspace.shutdown()
        cold.append(workspace("query", TARGETS))
    found = {
        "plan": planning,
        "changed": statistics.median([call.wall_s for call in changed]),
        "extension": statistics.median([call.seconds(EXTENSION) for call in changed]),
        "repository": statistics.median([call.seconds(REPOSITORY) for call in changed]),
        "cold": statistics.median([call.wall_s for call in cold]),
        "cold CPU": statistics.median([call.cpu_s for call in cold]),
        "changed CPU": statistics.median([call.cpu_s for call in changed]),
        "analysis": statistics.median([call.wall_s for call in analysed]),
        "analysis CPU": statistics.median([call.cpu_s for call in analysed]),
    }
    found["packages"] = found["changed"] - found["extension"] - found["repository"]
    print(f"     {workspace.tests:,} tests, medians of {runs}:")
    for title, names in (
        ("cold server", ("cold", "cold CPU")),
        ("changed", ("changed", "changed CPU", "extension", "repository", "plan", "packages")),
        ("analysis", ("analysis", "analysis CPU")),
    ):
        print(f"       {title}: " + ", ".join(f"{name} {found[name]:.2f} s" for name in names))
    return found


def main() -> int:
    """Print the times; exit code 1 where one is too long."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    arguments = parser.parse_args()
    session = open_session()
    bazel = locate(session).command
    shared = session.home.cache / "bazel" / "results"
    holds, found = [], {}
    with tempfile.TemporaryDirectory(dir=session.home.cache) as name:
        for tests in arguments.sizes:
            workspace = Workspace(Path(name) / str(tests), bazel, tests, shared)
            try:
                if tests == UNCHANGED:
                    holds.append(unchanged(workspace, arguments.runs))
                else:
                    found[tests] = loading(workspace, arguments.runs)
            finally:
                workspace.close()
    for kind in ("cold", "changed"):
        if 10_000 in found:
            holds.append(verdict(f"loading 10,000 tests, {kind}, / 10 s", found[10_000][kind] / 10, 1, at_most=True))
        if len(found) > 1:
            few, many = min(found), max(found)
            ratio = (found[many][f"{kind} CPU"] / many) / (found[few][f"{kind} CPU"] / few)
            holds.append(verdict(f"CPU time a test, {kind}, of {many:,} / of {few:,}", ratio, 1.2, at_most=True))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
