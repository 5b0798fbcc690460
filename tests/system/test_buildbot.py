"""A real master with two real workers: pushes, a killed worker, forms, and programs that attack the page."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from mlir_matrix.buildbot.state import FAILURE, RETRY, SKIPPED, SUCCESS
from support.buildmaster import Build, Master
from support.downstream import Downstream, processes
from support.hostile import INNOCENT_MLIR
from support.link_kit import home_with
from support.machine import git
from support.workspace import REPOSITORY, Workspace, wait_until

CONFIG = """
from buildbot.plugins import schedulers, steps, util
from mlir_matrix.buildbot import JobFactory, MatrixFactory, configure
c = BuildmasterConfig = configure(
    repository={repository!r},
    program={program!r},
    workers={{
        "vector": "mlir/{{linalg-loops,tosa-loops}}/x86_64/{{doubled,other}} --catalog .",
        "plain": "mlir/{{linalg-fuse,linalg-to-loops}}/ir/* mlir/own/x86_64/{{first,second}} --catalog . --machine small --jobs 1",
    }},
    poll_s=1, www_port=WWW, worker_port=WORKER,
)
# A step of Buildbot's own, which takes long the first time.
factory = MatrixFactory("", repository={repository!r})
factory.steps.clear()
factory.addStep(steps.ShellCommand(command=["sh", "-c", "test -e {begun} || {{ touch {begun}; sleep 600; }}"]))
c["builders"].append(util.BuilderConfig("shell", workernames=["vector"], factory=factory))
pages = MatrixFactory(
    "mlir/linalg-loops/x86_64/none --catalog .", repository={repository!r}, program={program!r}, site="--out ../site"
)
c["builders"].append(util.BuilderConfig("pages", workernames=["plain"], factory=pages))
words = "fuzz mlir/{{broken,linalg-loops}}/x86_64 --catalog . --budget 1s --out ../fuzz --quiet"
fuzz = JobFactory(words, repository={repository!r}, program={program!r})
c["builders"].append(util.BuilderConfig("fuzz", workernames=["plain"], factory=fuzz))
c["schedulers"] += [schedulers.ForceScheduler(name, builderNames=[name]) for name in ("shell", "pages", "fuzz")]
"""
MACHINE = """\
description: A machine with little time.
has: {{cpu: {{architecture: x86_64}}, cores: 2, memory-gib: 2}}
wants: {{require: [mlir/own/x86_64/first], budget-minutes: {minutes}}}
"""
LOOPS = "convert-linalg-to-loops,lower-affine"
STEP = "description: Own.\nenvironment: mlir\naccepts: [bufferized]\ngives: loops\npasses: func.func({})\n"
PIPELINE = """\
description: The plain route, by a step of its own.
entry: {linalg: []}
steps: [linalg-fuse, bufferize, own-to-loops, loops-to-llvm]
"""
#: What a broken program may print before its events. It may also end its worker.
PROGRAM = """\
#!/bin/sh
if mv -f {burst} {burst}.read 2>/dev/null; then cat {burst}.read; sleep 1; kill -9 $PPID; exec sleep 60; fi
printf '%s\\n' '<script>alert(1)</script>' '{{"event":"planned","schema":"mlir-matrix/events/v9"}}' '{{"event":"finished"}}'
exec {launcher} "$@"
"""
TRIPLED = INNOCENT_MLIR.replace("arith.addf %e, %e", "arith.mulf %e, %e")
#: Slow enough: a worker sends what is printed every 5 s.
SLOW = "import time\n\ndef workload(x):\n    time.sleep(100)\n    return x + x\n"
HOSTILE = """
def workload(x):
    raise RuntimeError("<img src=x onerror=alert(1)>\\x1b[31m\\0" + "long " * 600_000)
"""


class Lab:
    """The master, and the repository that it polls."""

    def __init__(self, folder: Path, workspace: Workspace) -> None:
        self.catalog = Downstream(folder / "repository")
        self.catalog.workload("doubled", linalg=INNOCENT_MLIR)
        self.catalog.workload("other", linalg=INNOCENT_MLIR)
        self.catalog.write("recipes/pipelines/own.yaml", PIPELINE)
        for name in ("first", "second"):
            self.catalog.workload(name, linalg=INNOCENT_MLIR)
        self.step(LOOPS)
        self.catalog.write("recipes/pipelines/broken.yaml", PIPELINE.replace("own-to-loops", "broken-to-loops"))
        self.catalog.write("recipes/steps/broken-to-loops/step.yaml", STEP.format("no-such-pass"))
        self.budget(60)
        git(self.catalog.root, "init", "--quiet", "--initial-branch", "main")
        self.push("Begin")
        program = folder / "matrix"
        self.burst = folder / "burst"
        program.write_text(PROGRAM.format(launcher=REPOSITORY / "tools" / "matrix", burst=self.burst))
        program.chmod(0o755)
        #: Exists once the slow step of the builder ``shell`` has begun.
        self.begun = folder / "begun"
        config = CONFIG.format(repository=str(self.catalog.root), program=str(program), begun=self.begun)
        self.master = Master(folder, workspace, config, ["vector", "plain"])
        # Its first poll tells the poller where to begin.
        assert wait_until(lambda: "gitpoller: processing changes" in self.master.log(), 30)

    def step(self, passes: str) -> None:
        self.catalog.write("recipes/steps/own-to-loops/step.yaml", STEP.format(passes))

    def budget(self, minutes: float) -> None:
        self.catalog.write("matrix/machines/small.yaml", MACHINE.format(minutes=minutes))

    def push(self, message: str) -> None:
        git(self.catalog.root, "add", "--all")
        git(self.catalog.root, "commit", "--quiet", "--message", message)

    def runs(self, builder: str, count: int, cell: str) -> bool:
        """Return whether the build of this number has begun a cell."""
        builds = self.master.builds(builder)
        return len(builds) == count and cell in builds[-1].steps


@pytest.fixture(scope="module")
def lab(link_kit: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    made = Lab(folder, home_with(link_kit, folder / "home"))
    with made.master:
        yield made
        assert "Traceback (most recent call last)" not in made.master.log()


def lists(build: Build) -> tuple[list[str], ...]:
    """What a build says of tests: failing, new, fixed, and not run but failing before."""
    return tuple(build.properties[f"matrix_{name}"] for name in ("failing", "new", "fixed", "still_failing"))


def test_a_push_runs_the_cells_of_each_worker(lab: Lab) -> None:
    lab.catalog.workload("other", linalg=TRIPLED)
    lab.push("Break one")
    vector, plain = (lab.master.wait(name, 1) for name in ("vector", "plain"))
    assert (plain.results, set(list(plain.steps)[3:])) == (SUCCESS, {"IR tests of steps", "mlir/own/x86_64"})
    assert plain.properties["matrix_counts"] == {"pass": 5}

    cells = {name: (step["results"], step["state_string"]) for name, step in list(vector.steps.items())[3:]}
    assert cells == {
        "mlir/linalg-loops/x86_64": (FAILURE, "1 mismatch UNEXPECTED, 1 pass"),
        "mlir/tosa-loops/x86_64": (SKIPPED, "2 unsupported"),
    }
    run = vector.steps["matrix run"]
    assert (vector.results, run["results"]) == (FAILURE, FAILURE)
    assert run["state_string"] == "4 tests: 1 mismatch, 1 pass, 2 unsupported"
    assert "1 failing: mlir/linalg-loops/x86_64/other" in vector.text
    assert vector.logs("matrix run")["causes"].startswith("mismatch mlir/linalg-loops/x86_64/other\n")
    assert len(vector.properties["matrix_causes"]) == 1
    for step in vector.steps.values():
        assert run["started_at"] <= step["started_at"] <= step["complete_at"] or step["number"] < 2

    logs = vector.logs("mlir/linalg-loops/x86_64")
    assert logs["other"].startswith("mismatch mlir/linalg-loops/x86_64/other\n")
    for part in ("2 of 4 elements are wrong", "llvm 24.", "\nrepeat: ", "\nkept:   /"):
        assert part in logs["other"]
    assert '<iframe sandbox=""' in logs["other: error map"]
    assert "data:image/svg+xml;base64," in logs["other: error map"]
    with tarfile.open(fileobj=io.BytesIO(vector.data("files-1-other"))) as kept:
        assert {"./error-y.svg", "./repeat.sh"} <= {f"./{name.removeprefix('./')}" for name in kept.getnames()}
    document = json.loads(gzip.decompress(vector.data("results")))
    assert vector.properties["matrix_outcomes"] == document["summary"]["outcomes"]
    assert vector.properties["matrix_pins"]["llvm"].startswith("24.")
    assert vector.properties["matrix_new"] == [], "nothing is known of before"

    lab.catalog.workload("other", linalg=INNOCENT_MLIR)
    lab.catalog.workload("doubled", linalg=TRIPLED)
    lab.push("Repair it and break the other")
    found = lab.master.wait("vector", 2).properties
    names = {name: found[f"matrix_{name}"] for name in ("failing", "new", "fixed")}
    doubled, other = (f"mlir/linalg-loops/x86_64/{name}" for name in ("doubled", "other"))
    assert names == {"failing": [doubled], "new": [doubled], "fixed": [other]}


def test_pages_are_published_after_a_failure_too(lab: Lab) -> None:
    lab.master.force("pages", "pages")
    build = lab.master.wait("pages", 1)
    # The test does not exist, and a history without runs has pages, too.
    assert {name: step["results"] for name, step in list(build.steps.items())[-2:]} == {
        "matrix run": FAILURE,
        "publish": SUCCESS,
    }
    assert build.results == FAILURE
    assert "index.html: " in build.logs("publish")["stdio"]


def test_another_verb_shows_its_reports(lab: Lab) -> None:
    lab.master.force("fuzz", "fuzz")
    build = lab.master.wait("fuzz", 1)
    step = build.steps["matrix fuzz"]
    assert (build.results, step["state_string"]) == (FAILURE, "1 finding, 1 new")
    logs = build.logs("matrix fuzz")
    assert "no-such-pass" in logs["report.md"]
    assert '<iframe sandbox=""' in logs["report"]


def test_a_week_of_an_operator(lab: Lab) -> None:
    """A step breaks and is mended, most tests do not fit the budget, a worker is killed, and the master restarts."""
    first, second = "mlir/own/x86_64/first", "mlir/own/x86_64/second"
    count = len(lab.master.builds("plain"))

    lab.step("no-such-pass")
    lab.push("Break a step")
    broken = lab.master.wait("plain", count + 1)
    new = [first, second] if count else []
    assert (broken.results, lists(broken)) == (FAILURE, ([first, second], new, [], []))

    lab.step(LOOPS)
    lab.budget(0.0001)
    lab.push("Mend it; there is no time for the second test")
    mended = lab.master.wait("plain", count + 2)
    assert (mended.results, lists(mended)) == (FAILURE, ([], [], [first], [second]))
    assert f"1 still failing, not run this time: {second}" in mended.text
    assert {name: step["results"] for name, step in list(mended.steps.items())[2:]} == {
        "matrix run": FAILURE,
        "mlir/own/x86_64": SUCCESS,
    }

    lab.budget(60)
    lab.catalog.workload("second", linalg=TRIPLED)
    lab.push("There is time, but the second test is wrong")
    wrong = lab.master.wait("plain", count + 3)
    assert (wrong.results, lists(wrong)) == (FAILURE, ([second], [], [], []))

    lab.catalog.workload("second", linalg=INNOCENT_MLIR)
    lab.catalog.workload("slow", jax=SLOW)
    lab.push("Mend that, too")
    good = lab.master.wait("plain", count + 4)
    assert (good.results, lists(good)) == (SUCCESS, ([], [], [second], []))

    lab.master.force("run", "plain", tests="mlir/linalg-*/ir/* jax/linalg-loops/x86_64/slow")
    lab.master.until(lambda: lab.runs("plain", count + 5, "jax/linalg-loops/x86_64"))
    lab.master.workers["plain"].kill()
    killed = lab.master.wait("plain", count + 5)
    assert wait_until(lambda: not processes(command="jax/linalg-loops/x86_64/slow"), 50), "its run goes on"
    lab.master.start_worker("plain")
    lab.master.until(lambda: lab.runs("plain", count + 6, "jax/linalg-loops/x86_64"))
    lab.catalog.workload("slow", jax=SLOW.replace("100", "0"))
    lab.push("Take less time")
    lab.master.force("shell", "shell")
    lab.master.until(lab.begun.exists)
    lab.master.restart()
    restarted = lab.master.wait("plain", count + 6)
    last = lab.master.wait("plain", count + 7)
    assert (killed.results, restarted.results, last.results) == (RETRY, RETRY, SUCCESS)
    assert {killed.steps[name]["results"] for name in ("matrix run", "jax/linalg-loops/x86_64")} == {RETRY}
    assert restarted.steps["matrix run"]["results"] == RETRY
    assert all(step["complete"] for build in (killed, restarted) for step in build.steps.values())
    assert "matrix_counts" not in {**killed.properties, **restarted.properties}
    assert sorted(list(last.steps)[3:]) == ["IR tests of steps", "jax/linalg-loops/x86_64"]
    assert last.properties["matrix_counts"].keys() == {"pass"}
    assert [lab.master.wait("shell", number).results for number in (1, 2)] == [RETRY, SUCCESS]
    pushed = lab.master.wait("plain", count + 8)
    assert (pushed.results, lists(pushed)) == (SUCCESS, ([], [], [], []))


def test_a_worker_killed_while_its_lines_are_read(lab: Lab) -> None:
    """Cells that begin then end as well."""
    at = "2026-01-01T00:00:00.000Z"
    cells = [
        {"event": "cell", "time": at, "cell": f"a/b/c{number}", "state": "started", "tests": 1} for number in range(800)
    ]
    lab.burst.write_text("".join(f"{json.dumps(cell)}\n" for cell in cells))
    before = len(lab.master.builds("plain"))
    lab.master.force("run", "plain", tests="mlir/linalg-fuse/ir/*")
    build = lab.master.wait("plain", before + 1)
    ended = build.steps
    assert build.results == RETRY
    assert len(ended) > 5
    assert all(step["complete"] for step in ended.values())
    assert {step["results"] for name, step in ended.items() if name.startswith("a/b/c")} == {RETRY}
    lab.master.start_worker("plain")
    assert lab.master.wait("plain", before + 2).results == SUCCESS


def test_a_forced_bisection_ends_with_its_report(lab: Lab) -> None:
    test = "mlir/math-poly/x86_64/asin"
    lab.master.force("bisect", "plain-bisect", test=test, component="llvm", good="18", bad="19")
    build = lab.master.wait("plain-bisect", 1)
    assert build.results == SUCCESS, build.logs("matrix bisect")["stdio"]
    logs = build.logs("matrix bisect")
    assert logs["report.md"].splitlines()[0].endswith("broke in llvm 19.1.7")
    told = "wrong numbers after test-math-polynomial-approximation, y[1] is 1.43272 instead of 1.5708: broke in llvm 19.1.7"
    assert build.steps["matrix bisect"]["state_string"] == told
    assert '<iframe sandbox=""' in logs["report"]


@pytest.mark.parametrize(
    ("form", "values"),
    [
        ("run", {"tests": "smoke --executor=docker"}),
        ("run", {"pins": "llvm=/somebody/s/build"}),
        ("bisect", {"test": "--build=evil"}),
        ("bisect", {"test": "a/b/c/d", "good": "$(evil)"}),
    ],
)
def test_a_form_takes_no_options(lab: Lab, form: str, values: dict[str, str]) -> None:
    with pytest.raises(HTTPError, match="400"):
        lab.master.force(form, "plain" if form == "run" else "plain-bisect", **values)


def test_programs_and_lines_that_attack_the_page(lab: Lab) -> None:
    lab.catalog.workload("hostile", jax=HOSTILE)
    before = len(lab.master.builds("vector"))
    lab.push("Attack")
    lab.master.wait("vector", before + 1)
    lab.master.force("run", "vector", tests="jax/linalg-loops/x86_64/hostile")
    build = lab.master.wait("vector", before + 2)
    (log,) = build.logs("jax/linalg-loops/x86_64").values()
    assert build.results == FAILURE
    assert "RuntimeError: <img src=x onerror=alert(1)>" in log
    assert not {"\x1b", "\0"} & set(log)
    assert len(log) < 1_000_000
    stdio = build.logs("matrix run")["stdio"]
    for part in (
        "not an event (Expecting value",
        "<script>alert(1)",
        "expected mlir-matrix/events/v1",
        "is not complete",
    ):
        assert part in stdio
    lab.master.force("run", "vector", tests="no/such/cell/at-all")
    build = lab.master.wait("vector", before + 3)
    assert (build.results, list(build.steps)[3:]) == (FAILURE, [])
    assert "matrix: " in build.logs("matrix run")["stdio"]
