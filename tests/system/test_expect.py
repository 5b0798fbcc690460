"""``matrix expect`` and ``matrix inputs`` on a catalog of somebody else's: from the first failure to the mended program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.downstream import WORKLOAD, Downstream
from support.workspace import Workspace

GOOD = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %y = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
BAD = GOOD.replace("linalg.add", "linalg.addd")
CELL = "mlir/linalg-loops/x86_64"
FILE = "matrix/expectations/ours.yaml"


@pytest.fixture
def ours(tmp_path: Path) -> Downstream:
    """Two programs, one of which does not parse, and a suite of them."""
    made = Downstream(tmp_path / "ours")
    made.workload("good", linalg=GOOD)
    made.workload("bad", linalg=BAD)
    made.write("matrix/suites/ours.yaml", f'description: Ours.\ninclude: ["{CELL}/{{good,bad}}"]\n')
    return made


def test_from_a_failure_to_the_mended_program(ours: Downstream, workspace: Workspace, tmp_path: Path) -> None:
    catalog = ("--catalog", ours.root)
    proposed = workspace("expect", "ours", *catalog, "--format", "json", "--quiet")
    assert (proposed.code, proposed.document["written"]) == (1, False)
    assert proposed.document["summary"] == {"new": 1, "changed": 0, "gone": 0, "left": 0}
    (change,) = proposed.document["expectations"]["changes"]
    assert (change["cell"], change["outcome"], change["tests"]) == (CELL, "import-failed", ["bad"])
    assert not (ours.root / FILE).exists()
    written = workspace("expect", "ours", *catalog, "--write", "--quiet")
    assert (written.code, "+      - bad" in written.stdout) == (0, True)

    results = tmp_path / "results.json"
    assert workspace("run", "ours", *catalog, "--quiet", "--results", results).code == 0
    again = workspace("expect", "ours", *catalog, "--results", results)
    assert (again.code, again.stdout) == (0, "1 test expected to fail, 0 left\n")
    explained = workspace("explain", f"{CELL}/bad", "--suite", "ours", *catalog)
    assert f"{ours.root}/{FILE}:8:9: expect: {CELL}/bad · expects import-failed" in explained.stdout

    ours.workload("bad", linalg=GOOD)
    report = workspace.run("ours", catalog=ours.root, code=1)
    assert report.surprises() == {f"{CELL}/bad"}
    assert workspace("expect", "ours", *catalog, "--write", "--quiet").code == 0
    assert (ours.root / FILE).read_text().endswith("\nexpect: []\n")
    assert workspace.run("ours", catalog=ours.root).surprises() == set()


def test_a_test_that_is_gone_is_taken_out(ours: Downstream, workspace: Workspace) -> None:
    """A rule for a test that does not exist is an error, which ``matrix expect`` mends."""
    ours.workload("bad", linalg=GOOD)
    rule = f"  - {{outcome: lower-failed, reason: gone, cell: {CELL}, tests: [bäd]}}\n"
    ours.write(FILE, f"expect:\n{rule}")
    done = workspace("plan", "ours", "--catalog", ours.root)
    assert done.code == 2
    assert f"{FILE}:2:83: {CELL}/bäd is no test of suite ours; `matrix expect ours --write` takes it out" in done.stderr
    assert workspace("expect", "ours", "--catalog", ours.root, "--write", "--quiet").code == 0
    assert workspace("plan", "ours", "--catalog", ours.root).code == 0


def test_a_wrong_file_of_expectations(ours: Downstream, workspace: Workspace) -> None:
    wrong = "expekt: []\nexpect:\n- {outcome: crashed, reason: r, cell: mlir/x86_64, tests: ['b*']}\n"
    ours.write(FILE, wrong)
    done = workspace("expect", "ours", "--catalog", ours.root)
    assert (done.code, done.stderr.count(f"{ours.root}/{FILE}:")) == (2, 3), done.stderr
    for message in (":1:1: unknown key 'expekt'", "a cell: framework/pipeline/target", "not a workload"):
        assert message in done.stderr
    ours.write(FILE, f"expect:\n- {{outcome: pass, reason: r, cell: {CELL}, tests: [bad]}}\n")
    assert f"{FILE}:2:4: pass cannot be expected" in workspace("expect", "ours", "--catalog", ours.root).stderr


def test_results_that_do_not_fit(ours: Downstream, workspace: Workspace, tmp_path: Path) -> None:
    ours.workload("bad", linalg=GOOD)
    results = tmp_path / "results.json"
    workspace("run", f"{CELL}/good", "--catalog", ours.root, "--quiet", "--results", results)
    document = json.loads(results.read_text())
    (entry,) = document["tests"]
    unknown = {**entry, "id": f"{CELL}/nobody", "workload": "nobody", "outcome": "lower-failed"}
    words = ("expect", "ours", "--catalog", ours.root, "--results", results)
    for change, code, message in (
        ({"tests": [entry, unknown]}, 0, "is not a test of the suite that can run"),
        ({"tests": [unknown]}, 2, "holds no test of suite ours"),
        ({"run": {**document["run"], "version": "0.0.1"}}, 2, "made by version 0.0.1"),
        ({"tests": [{**entry, "pins": {"llvm": "17.0.6"}}]}, 2, "made with llvm 17.0.6"),
    ):
        results.write_text(json.dumps(document | change))
        done = workspace(*words)
        assert (done.code, message in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
    assert workspace("expect", "nobody").code == 2
    assert (
        "'smoke' is another suite; choose tests of ours"
        in workspace("expect", "ours", "smoke", "--catalog", ours.root).stderr
    )


MEMBERS = """\
from pathlib import Path

import numpy as np

from mlir_matrix.actions import api


def members(action):
    Path(action.outputs["members"]).write_text("first\\nsécond name\\n")


def run(action):
    Path(action.outputs["program"]).write_text(PROGRAM)
    spec = {"shape": [4], "dtype": "f32", "dynamic": []}
    Path(action.outputs["interface"]).write_text(
        '{"inputs": [{"name": "x", "shape": [4], "dtype": "f32", "dynamic": []}], '
        '"outputs": [{"name": "y", "shape": [4], "dtype": "f32", "dynamic": []}]}'
    )
    np.save("x.npy", np.arange(4, dtype=np.float32) + action.params["draw"])
    np.save("y.npy", 2 * np.load("x.npy").astype(np.float64))
    api.pack(action.outputs["arguments"], {"x": "x.npy"})
    api.pack(action.outputs["expected"], {"expected-y": "y.npy"})
"""


def test_the_members_and_the_inputs_of_a_corpus(ours: Downstream, workspace: Workspace, tmp_path: Path) -> None:
    """The list of members is written from what the source says; then each of them has inputs and a program."""
    ours.write(
        "matrix/sources/twice/source.yaml",
        "description: Doubles.\ngives: linalg.mlir\nmembers: ['*.none']\nenvironment: numpy\n",
    )
    words = ("expect", "doubles", "--catalog", ours.root, "--quiet")
    ours.write("matrix/corpora/doubles/corpus.yaml", "description: Doubles.\nsource: twicee\n")
    assert "did you mean 'twice'?" in workspace(*words).stderr
    ours.write("matrix/sources/twice/prepare.py", MEMBERS.replace("PROGRAM", repr(GOOD)))
    ours.write("matrix/corpora/doubles/corpus.yaml", "description: Doubles.\nsource: twice\n")
    ours.write("matrix/suites/doubles.yaml", "description: D.\ninclude: ['mlir/linalg-loops/x86_64/doubles:*']\n")
    shown = workspace(*words)
    assert (shown.code, shown.stdout.splitlines()[:2]) == (1, ["added    first", "added    sécond name"]), shown.stderr
    written = workspace(*words, "--write", "--format", "json")
    assert written.code == 0, written.stderr
    assert written.document["members"]["added"] == ["first", "sécond name"]
    assert written.document["expectations"]["changes"] == []
    assert workspace(*words).code == 0
    out = tmp_path / "out"
    done = workspace(
        "inputs", "doubles:s_cond_name", "--draw", "3", "--out", out, "--catalog", ours.root, "--format", "json"
    )
    assert done.code == 0, done.stderr
    assert json.loads((out / "inputs.json").read_text()) == done.document
    assert np.load(out / "x.npy").tolist() == [3, 4, 5, 6]
    assert (out / "linalg.mlir").read_text() == GOOD
    ours.write("matrix/sources/twice/prepare.py", MEMBERS.replace("first", "fi\\x1brst"))
    odd = workspace(*words)
    assert (odd.code, "'fi\\x1brst' is not a name of a member: it has a control character" in odd.stderr) == (2, True)
    ours.write("matrix/sources/twice/prepare.py", "def members(action): raise action_failed\n")
    assert (
        "members of corpus doubles: infra-error: the tool matrix/sources/twice/prepare.py raised"
        in workspace(*words).stderr
    )
    ours.write("matrix/sources/twice/prepare.py", MEMBERS.replace("PROGRAM", repr(GOOD)).replace('"x"', '"../x"'))
    hostile = workspace("inputs", "doubles:first", "--out", tmp_path / "other", "--catalog", ours.root)
    assert (hostile.code, "'../x' is not a name" in hostile.stderr) == (2, True)
    assert not (tmp_path / "other").exists()


def test_the_inputs_of_a_workload(ours: Downstream, workspace: Workspace, tmp_path: Path) -> None:
    ours.workload("half", document=WORKLOAD.replace("dtype: f32", "dtype: bf16"), linalg=GOOD)
    out = tmp_path / "out"
    words = ("inputs", "half", "--out", out, "--catalog", ours.root)
    assert workspace(*words).stdout == f"{out}/x.npy  bf16  4\n"
    assert json.loads((out / "inputs.json").read_text())["inputs"] == [
        {"name": "x", "file": "x.npy", "shape": [4], "dtype": "bf16", "stored": "<u2"}
    ]
    stored = np.load(out / "x.npy").astype(np.uint32) << 16
    assert stored.view(np.float32).tolist() == [0, 1, 2, 3]
    again = workspace(*words)
    assert (again.code, "exists and is no empty folder; nothing was written" in again.stderr) == (2, True)
    assert "did you mean 'half'?" in workspace("inputs", "halve", "--out", out, "--catalog", ours.root).stderr
