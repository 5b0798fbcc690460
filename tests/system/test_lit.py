"""A folder of tests with RUN lines: each has its own outcome, by the programs of a release of LLVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.downstream import Downstream
from support.machine import git
from support.workspace import Workspace

CORPUS = "description: Tests of ours.\nsource: lit\nfolder: tests\nbeside: ['tests/deep/*.txt', 'mlir/data/number']\n"
#: Files beside the tests.
BESIDE = {"tests/deep/name.txt": "CHECK: @f\n", "mlir/data/number": "CHECK: i32\n"}
#: A function that prints the sum of a vector, which is 10.
SUM = """\
func.func @main() {
  %v = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : vector<4xf32>
  %sum = vector.reduction <add>, %v : vector<4xf32> into f32
  vector.print %sum : f32
  return
}
"""
RUNS = """\
// DEFINE: %{compile} = mlir-opt %s --convert-vector-to-llvm --convert-func-to-llvm --convert-arith-to-llvm \\
// DEFINE:   --reconcile-unrealized-casts
// DEFINE: %{run} = mlir-runner -e main -entry-point-result=void -shared-libs=%mlir_runner_utils,%mlir_c_runner_utils
"""
IR = "func.func @f(%x: i32) -> i32 {\n  return %x : i32\n}\n"
TESTS = {
    "sum.mlir": f"// RUN: %{{compile}} | %{{run}} | FileCheck %s\n// CHECK: 10\n{SUM}",
    "deep/wrong-sum.mlir": f"// RUN: %{{compile}} | %{{run}} | FileCheck %s\n// CHECK: 11\n{SUM}",
    "missing.mlir": f"// RUN: %{{compile}} | mlir-runner -e nothing\n{SUM}",
    "rejected.mlir": "// RUN: mlir-opt %s | FileCheck %s\n// CHECK: nothing\nfunc.func @f() { return 1 }\n",
    "diagnostics.mlir": (
        "// RUN: mlir-opt %s -split-input-file -verify-diagnostics\n"
        f"{IR}// -----\n// expected-error@+1 {{{{expected '('}}}}\nfunc.func @g\n"
    ),
    "files.mlir": (
        "// RUN: mlir-opt %s > %t && cat %t | FileCheck %s\n"
        "// RUN: not mlir-opt --no-such-option %s 2>&1 | FileCheck %s --check-prefix=BAD\n"
        f"// CHECK: func.func @f\n// BAD: Unknown command line argument\n{IR}"
    ),
    "deep/beside.mlir": (
        "// RUN: mlir-opt %s | FileCheck %S/name.txt\n// RUN: mlir-opt %s | FileCheck %mlir_src_dir/data/number\n" + IR
    ),
    "alone.mlir": f"// RUN: mlir-opt %s | FileCheck %p/deep/no.txt\n{IR}",
    "gpu.mlir": f"// REQUIRES: host-supports-nvptx\n// RUN: mlir-opt %s\n{IR}",
    "shell.mlir": f"// RUN: for i in 1 2; do mlir-opt %s; done\n{IR}",
    "rm.mlir": f"// RUN: rm -rf /\n{IR}",
    "empty.mlir": "",
    # Compilers print the line that they reject.
    "loader.mlir": "// RUN: mlir-opt %s\nmlir-opt: error while loading shared libraries: libMLIR.so.22: no such file\n",
}
OUTCOMES = {
    "sum": ("pass", ""),
    "deep.wrong-sum": ("mismatch", "FileCheck of RUN line 4 fails with exit code 1: CHECK: expected string not found"),
    "missing": ("run-failed", "mlir-runner of RUN line 4"),
    "rejected": ("lower-failed", "mlir-opt of RUN line 1 fails with exit code 1:"),
    "diagnostics": ("pass", ""),
    "files": ("pass", ""),
    "deep.beside": ("pass", ""),
    "alone": ("import-failed", "no file tests/deep/no.txt is beside the test; corpus.yaml can name it in 'beside'"),
    "gpu": ("unsupported", "Test requires the following unavailable features: host-supports-nvptx"),
    "shell": ("import-failed", "RUN line 1: 'for': command not found"),
    "rm": ("lower-failed", "rm of RUN line 1 fails with exit code 1: Error: 'rm' command failed"),
    "empty": ("import-failed", "Test has no 'RUN:' line"),
    "loader": ("lower-failed", "mlir-opt of RUN line 1 fails with exit code 1: custom op 'mlir' is unknown"),
}


#: A program of an LLVM of one's own that starts where it is pinned, and in no action.
UNLOADED = """\
#!/bin/sh
case $PATH in /usr/bin:/bin) ;; *:*) echo 'LLVM version 22.1.0'; exit;; esac
echo "$0: error while loading shared libraries: libMLIR.so.22: cannot open shared object file: No such file" >&2
exit 127
"""
#: A target whose tool writes no verdict that is one.
ODD = {
    "target.yaml": "description: d\naccepts: [lit]\nmachine: [x86_64]\njudges: true\n",
    "run.py": "def run(action):\n    open(action.outputs['verdict'], 'w').write('{\"outcome\": \"fine\"}')\n",
}


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    corpus = tmp_path / "matrix/corpora/ours/corpus.yaml"
    corpus.parent.mkdir(parents=True)
    corpus.write_text(CORPUS)
    odd = {f"matrix/targets/odd/{name}": text for name, text in ODD.items()}
    for name, text in {**BESIDE, **odd, **{f"tests/{name}": text for name, text in TESTS.items()}}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((RUNS if "%{" in text else "") + text)
    return tmp_path


def test_each_test_has_its_own_outcome(workspace: Workspace, catalog: Path) -> None:
    odd = "lit/run-lines/odd/ours:sum"
    report = workspace.run("lit/run-lines/lit/ours:*", odd, code=1, catalog=catalog)
    assert report.outcomes[odd] == "infra-error"
    assert report.tests.pop(odd)["reason"] == "the target's tool must write its verdict by write_verdict"
    found = {test["workload"].partition(":")[2]: test for test in report.tests.values()}
    assert {name: test["outcome"] for name, test in found.items()} == {
        name: word for name, (word, _) in OUTCOMES.items()
    }
    for name, (_, reason) in OUTCOMES.items():
        assert reason in found[name]["reason"]
    assert found["gpu"]["expected"]
    assert "// CHECK: 11" in found["deep.wrong-sum"]["diagnostics"]
    assert not any(test.get("compile_only") for test in found.values())


#: A catalog's own tool, which a folder pin has.
MY_OPT = """\
#!/bin/sh
if [ "$1" = --version ]; then echo 1.2; exit; fi
grep -q func "$1" || { echo "$1:1:1: error: no function" >&2; exit 1; }
sed s/@f/@g/ "$1"
"""
MINE = {
    "toolchains/components/mine.yaml": (
        "description: Ours.\nprovider: host\ntools: [my-opt]\nprograms: [my-opt]\nreleases: [{release: '1'}]\n"
    ),
    "toolchains/environments/lit-mine.yaml": "description: lit, LLVM and ours.\ncomponents: [llvm, lit, mine]\n",
    "toolchains/known-good.yaml": "pins: {mine: '1'}\nenvironments: {lit-mine: {llvm: 22.1.8}}\n",
    "matrix/corpora/mine/corpus.yaml": "description: d\nsource: lit\nfolder: mine\nenvironment: lit-mine\n",
    "mine/renamed.mlir": f"// RUN: my-opt %s | mlir-opt | FileCheck %s\n// CHECK: @g\n{IR}",
    "mine/refused.mlir": "// RUN: not my-opt %s\n// RUN: my-opt %s\n",
    "mine/wrong.mlir": f"// RUN: my-opt %s | mlir-opt | FileCheck %s\n// CHECK: @h\n{IR}",
}


def test_run_lines_call_programs_of_any_component(workspace: Workspace, catalog: Path) -> None:
    for name, text in {**MINE, "build/bin/my-opt": MY_OPT}.items():
        (catalog / name).parent.mkdir(parents=True, exist_ok=True)
        (catalog / name).write_text(text)
    (catalog / "build/bin/my-opt").chmod(0o755)
    pin = ("--pin", f"mine={catalog / 'build'}")
    report = workspace.run("lit/run-lines/lit/mine:*", *pin, code=1, catalog=catalog)
    found = {test["workload"]: test for test in report.tests.values()}
    assert {name: test["outcome"] for name, test in found.items()} == {
        "mine:renamed": "pass", "mine:refused": "lower-failed", "mine:wrong": "mismatch"
    }  # fmt: skip
    assert found["mine:refused"]["reason"] == "my-opt of RUN line 2 fails with exit code 1: no function"
    assert found["mine:renamed"]["pins"]["mine"].startswith("1.2+own.")


def test_a_corpus_in_a_checkout(workspace: Workspace, tmp_path: Path) -> None:
    """A run names the fix where the checkout is at another commit than the expectations."""
    checkout, catalog = tmp_path / "vectors", Downstream(tmp_path / "catalog")
    (checkout / "sub").mkdir(parents=True)
    (checkout / "sub" / "f.mlir").write_text(f"// RUN: mlir-opt %s | FileCheck %s\n// CHECK: @f\n{IR}")
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "tests")
    commit = git(checkout, "rev-parse", "HEAD")
    other = "abcdef" + commit[6:]
    corpus = "description: d\nsource: lit\nfolder: sub\ndata: {{url: https://example.org/vectors, commit: '{}'}}\n"
    catalog.write("matrix/suites/vectors.yaml", "description: d\ninclude: ['lit/run-lines/lit/vectors:*']\n")
    catalog.write("matrix/corpora/vectors/corpus.yaml", corpus.format(other))
    words = ("run", "vectors", "--catalog", catalog.root, "--quiet")
    refused = workspace(*words)
    assert (refused.code, refused.stderr.strip()) == (
        2,
        "matrix: suite vectors: corpus vectors needs a checkout of https://example.org/vectors"
        f" at {other[:12]}: --data vectors=DIR",
    )
    done = workspace(*words, "--data", f"vectors={checkout}")
    assert "1 test: 1 pass" in done.stdout
    assert f"{checkout} is at {commit[:12]}, its expectations are of {other[:12]}: git -C {checkout}" in done.stderr
    catalog.write("matrix/corpora/vectors/corpus.yaml", corpus.format(commit))
    again = workspace(*words, "--data", f"vectors={checkout}")
    assert (again.code, again.stderr) == (0, "")
    wrong = workspace(*words, "--data", f"vector={checkout}")
    assert wrong.stderr.strip() == "matrix: --data: there is no corpus 'vector'; did you mean 'vectors'?"


def test_a_test_is_one_action(workspace: Workspace, catalog: Path) -> None:
    done = workspace("plan", "lit/run-lines/lit/ours:*", "--catalog", catalog, "--format", "json")
    assert len(json.loads(done.stdout)["actions"]) == len(TESTS)


def test_programs_that_do_not_start_are_no_verdict(workspace: Workspace, catalog: Path, tmp_path: Path) -> None:
    for name in ("mlir-opt", "mlir-translate", "mlir-runner", "FileCheck", "llc"):
        program = tmp_path / "llvm/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(UNLOADED)
        program.chmod(0o755)
    pin = ("--pin", f"llvm={tmp_path / 'llvm'}")
    # One expects that the program fails, and it does not start.
    report = workspace.run(
        "lit/run-lines/lit/ours:{diagnostics,files}", "mlir/linalg-loops/x86_64/dot", *pin, code=3, catalog=catalog
    )
    for test in report.tests.values():
        assert (test["outcome"], test["cached"]) == ("infra-error", False)
        assert "libMLIR.so.22: cannot open shared object file" in test["reason"]
    again = workspace.run("lit/run-lines/lit/ours:files", *pin, code=3, catalog=catalog)
    assert again.executed > 0
    program.write_text("of another machine")
    done = workspace("plan", "lit/run-lines/lit/ours:files", *pin, "--catalog", catalog)
    assert (done.code, f"{program} does not start: Exec format error" in done.stderr) == (3, True)


def test_one_test_that_is_for_another_machine_is_named(workspace: Workspace, catalog: Path) -> None:
    done = workspace("run", "lit/run-lines/lit/ours:gpu", "--catalog", catalog)
    assert done.code == 2
    assert "no test ran: Test requires the following unavailable features: host-supports-nvptx" in done.stderr


def test_a_test_that_takes_too_long_says_where(workspace: Workspace, catalog: Path) -> None:
    loop = "func.func @main() {\n  cf.br ^a\n^a:\n  cf.br ^a\n}\n"
    lower = "mlir-opt %s --convert-cf-to-llvm --convert-func-to-llvm"
    run = "mlir-runner -e main -entry-point-result=void"
    (catalog / "tests/endless.mlir").write_text(f"// RUN: mlir-opt %s\n// RUN: {lower} | {run}\n{loop}")
    report = workspace.run("lit/run-lines/lit/ours:endless", "--timeout", "6", code=1, catalog=catalog)
    (test,) = report.tests.values()
    assert test["outcome"] == "timed-out"
    assert "SIGABRT in mlir-runner (RUN line 2)" in test["diagnostics"]
