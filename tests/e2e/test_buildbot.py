"""A real master with two real workers: pushes, a killed worker, forms, and programs that attack the page."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from mlir_matrix.buildbot.state import FAILURE, RETRY, SKIPPED, SUCCESS
from support.buildmaster import Master
from support.downstream import Downstream
from support.hostile import INNOCENT_MLIR
from support.house import REPOSITORY, House, new_home, wait_until

CONFIG = """
from mlir_matrix.buildbot import configure
c = BuildmasterConfig = configure(
    repository={repository!r},
    program={program!r},
    workers={{
        "vector": "mlir/{{linalg-loops,tosa-loops}}/x86_64/{{doubled,other}} --catalog .",
        "plain": "mlir/{{linalg-fuse,linalg-to-loops}}/ir/* --catalog . --jobs 1",
    }},
    poll_s=1, www_port=WWW, worker_port=WORKER,
)
"""
#: What a broken program may print before its events.
PROGRAM = """\
#!/bin/sh
printf '%s\\n' '<script>alert(1)</script>' '{{"event":"planned","schema":"mlir-matrix/events/v9"}}' '{{"event":"finished"}}'
exec {launcher} "$@"
"""
TRIPLED = INNOCENT_MLIR.replace("arith.addf %e, %e", "arith.mulf %e, %e")
#: Slow enough: a worker sends what is printed every 5 s.
SLOW = "import time\n\ndef workload(x):\n    time.sleep(10)\n    return x + x\n"
HOSTILE = """
def workload(x):
    raise RuntimeError("<img src=x onerror=alert(1)>\\x1b[31m\\0" + "long " * 600_000)
"""


class Lab:
    """The master, and the repository that it polls."""

    def __init__(self, folder: Path, house: House) -> None:
        self.catalog = Downstream(folder / "repository")
        self.catalog.workload("doubled", linalg=INNOCENT_MLIR)
        self.catalog.workload("other", linalg=INNOCENT_MLIR)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.push("Begin")
        program = folder / "matrix"
        program.write_text(PROGRAM.format(launcher=REPOSITORY / "tools" / "matrix"))
        program.chmod(0o755)
        config = CONFIG.format(repository=str(self.catalog.root), program=str(program))
        self.master = Master(folder, house, config, ["vector", "plain"])
        # Its first poll tells the poller where to begin.
        assert wait_until(lambda: "gitpoller: processing changes" in self.master.log(), 30)

    def git(self, *words: str) -> None:
        identity = ("-c", "user.name=me", "-c", "user.email=me@example.com")
        subprocess.run(["git", *identity, *words], cwd=self.catalog.root, check=True, capture_output=True)

    def push(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)


@pytest.fixture(scope="module")
def lab(c_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    made = Lab(folder, House(new_home(folder / "home")))
    with made.master:
        yield made
        assert "Traceback (most recent call last)" not in made.master.log()


def test_a_push_runs_the_cells_of_each_worker(lab: Lab) -> None:
    lab.catalog.workload("other", linalg=TRIPLED)
    lab.push("Break one")
    vector, plain = (lab.master.wait(name, 1) for name in ("vector", "plain"))
    assert (plain.results, list(plain.steps)[3:]) == (SUCCESS, ["IR tests of steps"])
    assert plain.properties["matrix_counts"] == {"pass": 3}

    cells = {name: (step["results"], step["state_string"]) for name, step in list(vector.steps.items())[3:]}
    assert cells == {
        "mlir/linalg-loops/x86_64": (FAILURE, "1 mismatch UNEXPECTED, 1 pass"),
        "mlir/tosa-loops/x86_64": (SKIPPED, "2 unsupported"),
    }
    run = vector.steps["matrix run"]
    assert (vector.results, run["results"]) == (FAILURE, FAILURE)
    assert run["state_string"] == "4 tests: 1 mismatch, 1 pass, 2 unsupported"
    assert "1 failing: mlir/linalg-loops/x86_64/other" in vector.text
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


def test_a_build_whose_worker_is_killed_is_repeated(lab: Lab) -> None:
    """Its cells end there, and are shown once in the next build."""
    lab.catalog.workload("slow", jax=SLOW)
    lab.push("Take time")
    lab.master.wait("plain", before := len(lab.master.builds("plain")) + 1)
    lab.master.force("run", "plain", tests="mlir/linalg-*/ir/* jax/linalg-loops/x86_64/slow")
    lab.master.until(lambda: any(len(build.steps) > 4 for build in lab.master.builds("plain")[before:]))
    lab.master.workers["plain"].kill()
    first = lab.master.wait("plain", before + 1)
    lab.master.start_worker("plain")
    second = lab.master.wait("plain", before + 2)
    assert (first.results, second.results) == (RETRY, SUCCESS)
    assert {first.steps[name]["results"] for name in ("matrix run", "jax/linalg-loops/x86_64")} == {RETRY}
    assert all(step["complete"] for step in first.steps.values())
    assert "matrix_counts" not in first.properties
    assert sorted(list(second.steps)[3:]) == ["IR tests of steps", "jax/linalg-loops/x86_64"]
    assert second.properties["matrix_counts"].keys() == {"pass"}


def test_a_forced_bisection_ends_with_its_report(lab: Lab) -> None:
    test = "mlir/math-poly/x86_64/asin"
    lab.master.force("bisect", "plain-bisect", test=test, component="llvm", good="18", bad="19")
    build = lab.master.wait("plain-bisect", 1)
    assert build.results == SUCCESS, build.logs("matrix bisect")["stdio"]
    logs = build.logs("matrix bisect")
    assert logs["report.md"].splitlines()[0].endswith("broke in llvm 19.1.7")
    assert build.steps["matrix bisect"]["state_string"] == f"{test}: broke in llvm 19.1.7"
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
    for part in ("no event (Expecting value", "<script>alert(1)", "expected mlir-matrix/events/v1", "is not complete"):
        assert part in stdio
    lab.master.force("run", "vector", tests="no/such/cell/at-all")
    build = lab.master.wait("vector", before + 3)
    assert (build.results, list(build.steps)[3:]) == (FAILURE, [])
    assert "matrix: " in build.logs("matrix run")["stdio"]
