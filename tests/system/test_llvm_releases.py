"""LLVM's releases side by side: their known regressions, what they share, and that nothing of the machine takes part in it."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.bisect.difference import first_difference
from mlir_matrix.bisect.prober import with_listings
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests, session_of
from support.downstream import Downstream
from support.reports import reproduce
from support.workspace import REPOSITORY, Report, Workspace, new_home

#: The suite, but for plain linear algebra: some programs by all releases, the others by the oldest ones and the newest.
SUITE = (
    "llvm-releases",
    "mlir/math-*/**",
    "mlir/linalg-loops/x86_64/*@llvm={15,16,24}",
    "mlir/linalg-loops/x86_64/{dot,exp,matmul,mlp_dynamic,softmax,transpose}@*",
    "mlir/linalg-loops/x86_64-jit/{exp,matmul}@*",
)
RELEASES = ("15", "16", "17", "18", "19", "21", "22", "23", "24")
#: Cell and workload, the releases that are wrong there, and the number that gives it away.
WRONG = {
    ("math-poly", "asin"): ("19", "1.43272", 5),
    ("math-poly", "atan"): ("15 16", "0.785184", 9),
    ("math-poly", "cbrt"): ("17 18 19 21 22 23 24", "nan", 2),
    ("math-expand", "ceil"): ("17 18 19 21", "9.22337", 3),
    ("math-expand", "floor"): ("17 18 19", "9.22337", 4),
    # From 21 on (-2)^2 as well.
    ("math-expand", "powf"): (
        "17 18 19 21 22 23 24",
        "nan",
        {"17": 2, "18": 2, "19": 2, "21": 3, "22": 3, "23": 3, "24": 3},
    ),
}
#: It has no object: MLIR's runner compiles it.
IN_MEMORY = "mlir/math-poly/x86_64-jit/cbrt"
#: Cells whose objects, or at least whose results, are the same in several releases.
SHARED = ("linalg-loops/x86_64/matmul", "linalg-loops/x86_64/dot", "linalg-loops/x86_64/transpose")


def major(test: dict[str, Any]) -> str:
    return str(test["id"]).partition("@llvm=")[2]


@pytest.fixture(scope="module")
def suite(workspace: Workspace) -> Report:
    """Most of the suite, run."""
    return workspace.run(*SUITE)


def test_every_release_has_its_verdicts(suite: Report) -> None:
    assert suite.surprises() == set()
    verdicts = defaultdict(set)
    for test in suite.tests.values():
        verdicts[major(test)].add(test["outcome"])
    assert set(verdicts) == set(RELEASES)
    assert all("pass" in outcomes for outcomes in verdicts.values())
    assert {outcome for outcomes in verdicts.values() for outcome in outcomes} == {"pass", "mismatch", "unsupported"}


def test_the_known_regressions_and_no_others(suite: Report) -> None:
    """Each is found where it is, with its number."""
    wrong = {name: test for name, test in suite.tests.items() if test["outcome"] == "mismatch"}
    expected = {
        f"mlir/{pipeline}/x86_64/{workload}@llvm={release}": (
            number,
            count if isinstance(count, int) else count[release],
        )
        for (pipeline, workload), (releases, number, count) in WRONG.items()
        for release in releases.split()
    }
    assert set(wrong) == set(expected)
    for name, (number, count) in expected.items():
        # 0.785184 may be written with more digits than that.
        (actual,) = re.findall(r"actual ([-+.\w]+)", wrong[name]["reason"])
        assert actual == "nan" if number == "nan" else f"{float(actual):.6}".startswith(number), wrong[name]
        # Whatever else were wrong would hide behind what is expected.
        assert [output["wrong"] for output in wrong[name]["verdict"]["outputs"]] == [count], name


def test_bisect_finds_them_without_being_told_where(workspace: Workspace, suite: Report, tmp_path: Path) -> None:
    """Every change of every workload, the step that made it, and commands that another person can run."""
    assert suite.tests
    names = [f"mlir/{pipeline}/x86_64/{workload}" for pipeline, workload in WRONG]
    done = workspace("bisect", *names, IN_MEMORY, "--format", "json", "--quiet")
    assert done.code == 0, done.stderr
    found = {test["id"]: test for test in done.document["tests"]}
    reports = {name: Path(test["report"]) for name, test in found.items()}
    in_memory = found.pop(IN_MEMORY)
    changes = {
        name.rpartition("/")[2]: [(each["kind"], each["after"].split(".")[0]) for each in test["changes"]]
        for name, test in found.items()
    }
    assert [(each["kind"], each["after"]) for each in in_memory["changes"]] == [("broke", "17.0.6")]
    assert changes == {
        "asin": [("broke", "19"), ("fixed", "21")],
        "atan": [("fixed", "17")],
        "cbrt": [("broke", "17")],
        "ceil": [("broke", "17"), ("fixed", "22")],
        "floor": [("broke", "17"), ("fixed", "21")],
        # The third wrong element of 21 is another number of wrong elements: --by wrong finds it.
        "powf": [("broke", "17")],
    }
    steps = {name.rpartition("/")[2]: [each["step"] for each in test["changes"]] for name, test in found.items()}
    # LLVM 22 expands ceil as before; it is the code generator that keeps infinity.
    assert steps["ceil"] == ["math-expand", "object (llc)"]
    assert steps["asin"] == ["math-polynomial", "math-polynomial"]
    assert "+      % = math.sqrt % : f32" in found[names[0]]["changes"][1]["difference"]
    assert "compare/llvmorg-18.1.8...llvmorg-19.1.7" in reports[names[0]].read_text()
    reports_fail_as_told(reports, workspace, tmp_path)


def reports_fail_as_told(reports: Mapping[str, Path], workspace: Workspace, folder: Path) -> None:
    """The commands of reports, run without this program, show the wrong numbers, and with the nearest good release none."""
    good = {"asin": "18", "atan": "17", "cbrt": "16", "ceil": "22", "floor": "21", "powf": "16"}
    for name, report in reports.items():
        _, pipeline, _, workload = name.split("/")
        releases, number, _ = WRONG[pipeline, workload]
        title = report.read_text().partition("\n")[0].replace("\\", "")
        assert re.match(rf"# wrong numbers after \S+, y\S* is {number}\S* instead of ", title), title
        assert workload not in title
        failed = reproduce(report, workspace, [f"mlir-opt@{releases.split()[-1]}"], folder / f"{name}-bad")
        assert failed.returncode == 1, failed.stderr
        assert re.search(rf"^y\[\d+\]: expected \S+, actual -?{number}", failed.stdout, re.MULTILINE), failed.stdout
        is_same = workload in ("asin", "floor")
        how = "all of these commands succeed" if is_same else "these succeed"
        assert re.search(rf"(?m)^With llvm {good[workload]}\.\S+ {how}", report.read_text())
        programs = [f"mlir-opt@{good[workload]}"]
        passed = reproduce(report, workspace, programs, folder / f"{name}-good", script=0 if is_same else 1)
        assert (passed.returncode, passed.stdout) == (0, "0 of 12 elements are wrong\n"), passed.stderr


#: One attribute in 30,000 others: the parser recurses until its stack ends.
DEEP = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {{a = {"[" * 30_000}{"]" * 30_000}}} {{
  return %x : tensor<4xf32>
}}
"""
#: LLVM 18 brought the operation.
NEWER = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %same = arith.maximumf %x, %x : tensor<4xf32>
  %y = arith.addf %x, %same : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def test_bisect_claims_nothing_that_no_release_said(workspace: Workspace, tmp_path: Path) -> None:
    """15 and 16 crash without symbols, and 17 with; a release that cannot read a program has not got it wrong."""
    catalog = Downstream(tmp_path / "catalog")
    for name, text in (("deep", DEEP), ("newer", NEWER)):
        catalog.workload(name, linalg=text)

    def bisect(*tests: str, releases: set[str], more: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        skipped = [
            word for release in ("13", "14", *RELEASES) if release not in releases for word in ("--skip", release)
        ]
        words = ("--component", "llvm", "--catalog", catalog.root, "--format", "json", "--quiet", *skipped, *more)
        done = workspace("bisect", *(test.replace(" ", "/linalg-loops/x86_64/") for test in tests), *words)
        assert done.code == 0, done.stderr
        return list(done.document["tests"])

    (deep,) = bisect("mlir deep", releases={"15", "16", "17"})
    crashes = [each["description"] for each in deep["behaviours"]]
    # In which function of the parser the stack ends depends on where it begins.
    assert [" in mlir::" in each for each in crashes] == [False, True], crashes
    assert deep["changes"] == []
    # The second one is handed over by torch-mlir, whose MLIR is newer.
    for test in bisect("mlir newer", "pytorch argmax", releases={"16", "17", "18", "19"}):
        assert test["changes"] == [], test["id"]
        unread = {each["release"]: each["reason"] for each in test["points"] if each["behaviour"] is None}
        assert list(unread) == ["16.0.6", "17.0.6"]
        assert all("does not parse: custom op 'arith.maximumf' is unknown" in reason for reason in unread.values())
    # Whoever asks when a release began to take a program is told.
    (asked,) = bisect("mlir newer", releases={"17", "18"}, more=("--by", "outcome"))
    assert [each["after"] for each in asked["changes"]] == ["18.1.8"]
    assert asked["behaviours"][0]["outcome"] == "import-failed"


def test_how_releases_print_ir_is_no_difference(workspace: Workspace) -> None:
    """LLVM 24 writes memref.alloc in another way. What it makes first is additions with nsw; asin's IR is the same up to llc."""
    tests = ("mlir/linalg-loops/x86_64/mlp", "mlir/math-poly/x86_64/asin")
    ends = ("--good", "23", "--bad", "24", "--scan", "--format", "json", "--quiet")
    done = workspace("bisect", *tests, *ends, "--by", "ir:object")
    assert done.code == 0, done.stderr
    found = {test["id"]: test["changes"] for test in done.document["tests"]}
    assert [[each["step"] for each in found[test]] for test in tests] == [["loops-to-llvm"], ["object (llc)"]]
    spelt = workspace("bisect", tests[0], *ends, "--by", "ir:bufferize").document["tests"][0]
    assert (spelt["changes"], spelt["problem"]) == ([], "the IR is the same: releases only spell it differently")


#: A step that prints IR as its release does, and then does what a patch of the release would.
PATCHED = """
from pathlib import Path
from mlir_matrix.actions.api import Action, read_text, run_program

def run(action: Action) -> None:
    said = run_program("mlir-opt", ["--version"])
    run_program("mlir-opt", [action.inputs["ir"], "-o", "printed.mlir"])
    text, is_new = read_text("printed.mlir", "the IR"), "LLVM version 24" in said
    {patch}
    Path(action.outputs["out"]).write_text(text)
"""
EXTRA = "func.func private @extra()"
PATCHES = {
    "mark": f"text = text.replace('func.func @main', '{EXTRA} func.func @main') if is_new else text",
    "unmark": f"text = text.replace('{EXTRA}', '')",
    "subtract": "text = text.replace('arith.addf', 'arith.subf', 1) if is_new else text",
}
PIPELINE = """description: A compiler with a regression.
entry: {linalg: []}
steps: [linalg-fuse, bufferize, linalg-to-loops, mark, unmark, copy, subtract, loops-to-llvm]
codegen: {opt-level: 2}
numerics: {contraction: "off", fast-math: "off", math: libm, vectorized: false}
"""


def test_what_a_later_step_undoes_is_not_accused(workspace: Workspace, tmp_path: Path) -> None:
    """LLVM 24 prints memref.alloc in another way, also by a command; and two steps change something and change it back."""
    catalog = Downstream(tmp_path / "catalog")
    document = "description: x\nenvironment: mlir\naccepts: [loops]\ngives: loops\n"
    for name, patch in PATCHES.items():
        catalog.write(f"recipes/steps/{name}/step.yaml", document)
        catalog.write(f"recipes/steps/{name}/tool.py", PATCHED.format(patch=patch))
    command = 'command: [mlir-opt, "${ir}", -o, "${out}"]\n'
    catalog.write("recipes/steps/copy/step.yaml", document + command)
    catalog.write("recipes/pipelines/patched.yaml", PIPELINE)
    ends = ("--good", "23", "--bad", "24", "--catalog", catalog.root, "--format", "json", "--quiet")
    done = workspace("bisect", "mlir/patched/x86_64/mlp", *ends)
    assert done.code == 0, done.stderr
    (change,) = done.document["tests"][0]["changes"]
    assert (change["kind"], change["step"]) == ("broke", "subtract")
    changed = [(line[0], line.split()[3]) for line in change["difference"] if line[0] in "+-"]
    assert changed == [("-", "arith.addf"), ("+", "arith.subf")]


def test_an_option_that_a_release_lacks_is_not_given(workspace: Workspace) -> None:
    """LLVM 24 has no -fp-contract; a compiler that is told to use it would be blamed."""
    tests = ("mlir/linalg-openmp/x86_64-openmp/mlp@llvm=24", "mlir/linalg-gpu/nvptx-sm80/mlp@llvm=24")
    assert workspace.run(*tests).outcomes == dict.fromkeys(tests, "pass")


def test_which_program_of_a_step_changed(workspace: Workspace, suite: Report) -> None:
    """LLVM 22 translates and optimises ceil as before; llc no longer converts to an integer, which has no infinity."""
    tests = [f"mlir/math-expand/x86_64/ceil@llvm={release}" for release in ("21", "22")]
    assert [suite.tests[test]["outcome"] for test in tests] == ["mismatch", "pass"]
    session = session_of([REPOSITORY], workspace.folders)
    plan, done = with_listings(session, plan_tests(session, select_tests(session, tests)), tests, Limits(jobs=2))
    found = first_difference(plan, done, (tests[0], tests[1]), ActionCache(workspace.actions).read_blob)
    assert found is not None
    assert found.step == "object (llc)"
    changed = {line.split()[0] + line.split()[1] for line in found.lines if line[0] in "+-"}
    assert {"-cvttss2si", "-cvtsi2ss", "+roundss"} <= changed


def test_results_say_what_they_are_of(suite: Report) -> None:
    for name, test in suite.tests.items():
        if test["outcome"] == "unsupported":
            continue
        assert test["pins"]["llvm"].split(".")[0] == major(test), name
        (own,) = (reference for reference in test["environments"] if reference.startswith("mlir@llvm="))
        assert own == f"mlir@llvm={test['pins']['llvm']}"
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in test["environments"].values())
    digests = {
        test["environments"][f"mlir@llvm={test['pins']['llvm']}"]
        for test in suite.tests.values()
        if test["outcome"] != "unsupported"
    }
    assert len(digests) == len(RELEASES)


def test_the_same_bytes_are_gone_on_with_once(fresh: Callable[[str], Workspace]) -> None:
    """Releases that make the same object share linking and running; those that compute the same share the verdict."""
    tests = [f"mlir/{cell}@llvm={release}" for cell in SHARED for release in ("18", "21", "22", "23")]
    workspace = fresh("home")
    cold = workspace.run(*tests)
    assert set(cold.outcomes) == set(tests)
    for kind in ("link", "run/", "judge/"):
        assert 0 < sum(action.startswith(kind) for action in cold.actions) < len(tests), kind
    shared = defaultdict(set)
    for test in workspace.plan(*tests)["tests"]:
        shared[test["pipeline"], test["workload"]].add(test["verdict"])
    assert all(0 < len(verdicts & cold.actions) < len(verdicts) == 4 for verdicts in shared.values())


DECOYS = (
    "mlir-opt", "mlir-translate", "mlir-runner", "mlir-cpu-runner", "opt", "llc", "FileCheck", "zig", "qemu-aarch64", "python3",
    "cmake", "ninja", "clang", "g++", "cc", "ld", "ld.lld",
)  # fmt: skip


def test_nothing_of_the_machine_takes_part(tmp_path: Path) -> None:
    """Programs of the same names, first on PATH, are not run: not even to see what they are."""
    folder, markers = tmp_path / "decoys", tmp_path / "markers"
    folder.mkdir()
    markers.mkdir()
    for name in DECOYS:
        (folder / name).write_text(f"#!/bin/sh\n: > '{markers}/{name}'\nexit 1\n")
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    workspace = Workspace(new_home(tmp_path / "home"), cache=tmp_path / "empty", more={"PATH": path})
    report = workspace.run("mlir/linalg-loops/{x86_64,aarch64}/matmul", "mlir/linalg-fuse/ir/*", code=None)
    assert set(report.outcomes.values()) == {"pass"}, report.told()
    assert {test["target"] for test in report.tests.values()} >= {"x86_64", "aarch64"}
    assert report.executed > 10
    for test, release in (("math-poly/x86_64/tanh", "19"), ("linalg-loops/x86_64-jit/exp", "22")):
        programs = workspace.run(f"mlir/{test}", "--pin", f"llvm={release}", "--pin", "triton=3.8")
        assert "--pin triton=3.8.0: no selected test uses triton 3.8.0" in programs.finished.stderr
        assert list(programs.outcomes.values()) == ["pass"], programs.told()
        assert programs.executed > 3
    assert os.listdir(markers) == []
    assert subprocess.run([folder / "llc"], check=False).returncode == 1
    assert os.listdir(markers) == ["llc"]


def test_why_a_release_is_lowered_as_it_is(workspace: Workspace) -> None:
    """The variant of each step, by its line."""
    done = workspace("explain", "mlir/math-poly/x86_64/asin@llvm=19")
    assert done.code == 0, done.stderr
    found = dict(
        re.findall(r"variant recipes/steps/([\w-]+)/step\.yaml:(\d+):\d+, because llvm is 19\.1\.7", done.stdout)
    )
    assert set(found) == {"bufferize", "linalg-to-loops", "math-polynomial", "loops-to-llvm"}
    for step, line in found.items():
        lines = (REPOSITORY / "recipes" / "steps" / step / "step.yaml").read_text().splitlines()
        assert lines[int(line) - 1].startswith("  - when: {llvm:"), f"{step}:{line}"
    assert "Rules of suite llvm-releases\n  matrix/suites/llvm-releases.yaml:" in done.stdout
    assert "asin(1) is 1.43272" in done.stdout


@pytest.mark.parametrize("release", ["13", "14"])
def test_a_release_that_no_step_knows(workspace: Workspace, tmp_path: Path, release: str) -> None:
    """Is unsupported, and the step is named, before anything is fetched or executed."""
    test, pin = "mlir/linalg-loops/x86_64/matmul", ("--pin", f"llvm={release}")
    explained = workspace("explain", test, *pin)
    assert explained.stdout.startswith(f"{test}: unsupported\n")
    reason = explained.stdout.splitlines()[1].strip()
    assert re.match(rf"step bufferize has no variant for llvm {release}\.0\.\d; it has variants for llvm ", reason)
    # Other tests execute actions in the shared cache at the same time.
    alone = Workspace(workspace.home, cache=tmp_path / "cache")
    done = alone("run", test, *pin)
    assert (done.code, done.stdout) == (2, "")
    assert reason in done.stderr
    assert alone.count() == 0
