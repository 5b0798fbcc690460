"""Tools of a catalog that is not ours: the one of docs/writing-a-tool.md on two executors, and a compiler that is made here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.pages import blocks
from support.workspace import REPOSITORY, Workspace

#: A compiler and what runs its code: the code is a factor, a run multiplies each element by it.
MINI = """\
#!/usr/bin/env python3
import importlib.util, os, struct, sys
word, *rest = sys.argv[1:]
if word == "--version":
    print("mini 1.0.0")
elif importlib.util.find_spec("pip"):
    sys.exit("it sees a package of the machine")
elif word == "compile":
    source, _, made = rest
    text = open(source).read().split()
    if text[0] == "crash":
        os.kill(os.getpid(), 11)
    if text[0] == "refuse":
        sys.exit(source + ":1:1: error: unknown word 'refuse'")
    if text[0] != "forget":
        open(made, "w").write(text[-1])
else:
    code, given, made = rest
    data = open(given.removeprefix("@"), "rb").read()
    head = 10 + struct.unpack("<H", data[8:10])[0]
    count = (len(data) - head) // 4
    scaled = [float(open(code).read()) * each for each in struct.unpack(f"<{count}f", data[head:])]
    open(made, "wb").write(data[:head] + struct.pack(f"<{count}f", *scaled))
"""
FILES = {
    "toolchains/components/mini.yaml": (
        "description: A compiler of factors.\nprovider: host\ntools: [mini]\nprograms: [mini]\nreleases: [{release: 1.0.0}]\n"
    ),
    "toolchains/environments/mini.yaml": "description: mini\ncomponents: [mini]\n",
    "recipes/kinds/factor.yaml": "description: A factor.\nfile: factor.txt\n",
    "recipes/kinds/mini-code.yaml": "description: Its code.\nfile: code.txt\n",
    "recipes/steps/mini/step.yaml": (
        "description: mini's compiler\nenvironment: mini\naccepts: [factor]\ngives: mini-code\nstage: codegen\n"
        'command: [mini, compile, "${ir}", -o, "${out}"]\n'
    ),
    "recipes/pipelines/mini.yaml": "description: mini\nentry: {factor: []}\nsteps: [mini]\n",
    "matrix/frameworks/factor/framework.yaml": (
        "description: The source as it is.\nenvironment: numpy\nemits: {factor: factor.txt}\n"
    ),
    "matrix/frameworks/factor/importer.py": (
        "import shutil\n\n\ndef run(action):\n    shutil.copyfile(action.inputs['source'], action.outputs['out'])\n"
    ),
    "matrix/targets/mini/target.yaml": (
        "description: mini's own runner\naccepts: [mini-code]\nmachine: [x86_64, aarch64]\nrunner_environment: mini\n"
        'command: [mini, run, "${artifact}", "@${inputs}", "${outputs}"]\n'
    ),
}
WORKLOAD = (
    'description: d\ninputs: {x: {shape: [9], dtype: f32, formula: "uniform(-1, 1)"}}\n'
    "outputs: {y: {shape: [9], dtype: f32}}\ngolden: computed\n"
)
SOURCES = {"right": "times 3", "wrong": "times 3.5", "refused": "refuse", "crashing": "crash", "forgetful": "forget"}


@pytest.fixture
def mini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog with the compiler, which is on PATH."""
    program = tmp_path / "bin/mini"
    program.parent.mkdir()
    program.write_text(MINI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    root = tmp_path / "catalog"
    for name, source in SOURCES.items():
        folder = f"matrix/workloads/{name}"
        FILES_OF = {
            f"{folder}/workload.yaml": WORKLOAD,
            f"{folder}/factor.txt": source,
            f"{folder}/reference.py": "def reference(x):\n    return 3 * x\n",
        }
        for path, text in {**FILES, **FILES_OF}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
    return root


def test_a_compiler_without_python(workspace: Workspace, mini: Path) -> None:
    report = workspace.run(*(f"factor/mini/mini/{name}" for name in SOURCES), catalog=mini, code=1)
    found = {identifier.rpartition("/")[2]: test for identifier, test in report.tests.items()}
    assert {name: (test["outcome"], test["stage"]) for name, test in found.items()} == {
        "right": ("pass", "judge"), "wrong": ("mismatch", "judge"), "refused": ("codegen-failed", "codegen"),
        "crashing": ("crashed", "codegen"), "forgetful": ("codegen-failed", "codegen"),
    }  # fmt: skip
    assert found["refused"]["reason"] == "mini: mini fails with exit code 1: unknown word 'refuse'"
    assert found["forgetful"]["reason"] == "mini: mini exits with 0 and does not write out"


def test_a_tool_that_is_wrong_judges_nobody(workspace: Workspace, mini: Path) -> None:
    importer = mini / "matrix/frameworks/factor/importer.py"
    importer.write_text(importer.read_text() + "    raise KeyError('format')\n")
    report = workspace.run("factor/mini/mini/right", catalog=mini, code=3)
    (test,) = report.tests.values()
    assert (test["outcome"], test["reason"]) == (
        "infra-error", "the tool matrix/frameworks/factor/importer.py raised KeyError: 'format' (line 6)",
    )  # fmt: skip


def test_what_the_loader_says(workspace: Workspace, mini: Path) -> None:
    step = mini / "recipes/steps/mini/step.yaml"
    step.write_text(step.read_text().replace("[mini, compile,", "[minni, compile, '${inn}',") + "tool: passes\n")
    (mini / "matrix/frameworks/factor/importer.py").rename(mini / "matrix/frameworks/factor/import.py")
    done = workspace("plan", "factor/**", "--catalog", mini)
    assert done.code == 2
    lines = [line.strip().removeprefix("matrix: ").removeprefix(f"{mini}/") for line in done.stderr.splitlines()]
    assert lines == [
        "matrix/frameworks/factor/framework.yaml:1:1: a framework needs the file importer.py beside it or the key 'command'; "
        "should 'import.py' be called 'importer.py'?",
        "matrix/frameworks/factor/import.py: is not read: 'files' does not name it; did you mean 'importer.py'?",
        "recipes/steps/mini/step.yaml:6:11: environment 'mini' has no program 'minni'; did you mean 'mini'?",
        "recipes/steps/mini/step.yaml:6:27: '${inn}' stands for nothing; known: ir, kind, out",
        "recipes/steps/mini/step.yaml:7:1: the tool 'passes' would never run: the step has a 'command'",
    ]


def test_a_build_of_ones_own(workspace: Workspace, environments: Any, tmp_path: Path) -> None:
    """Debian's LLVM 19 as if built here: its programs find their libraries by themselves."""
    llvm, patchelf = environments.require("mlir@llvm=19.1.7"), environments.require("patchelf")
    prefix = environments.packages / next(each.folder_for("") for each in llvm.prefixes)
    (tmp_path / "bin").mkdir()
    (tool,) = (path for site in patchelf.sites(environments.packages) for path in Path(site).glob("**/bin/patchelf"))
    libraries = ("usr/lib/llvm-19/lib", "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
    for name in ("mlir-opt", "mlir-translate", "llc", "opt"):
        made = tmp_path / "bin" / name
        shutil.copyfile(prefix / "usr/lib/llvm-19/bin" / name, made)
        made.chmod(0o755)
        path = ":".join(str(prefix / each) for each in libraries)
        subprocess.run([tool, "--force-rpath", "--set-rpath", path, made], check=True)
    done = workspace("run", "mlir/math-poly/x86_64/asin", "--pin", f"llvm={tmp_path}", "--format", "json", "--quiet")
    (test,) = done.document["tests"]
    # Asin is wrong in 19.
    assert (done.code, test["outcome"]) == (1, "mismatch"), done.stderr
    assert test["pins"]["llvm"].startswith("19.1.7+own.")


def test_executors_agree(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    """With a relative path of the catalog."""
    for block in blocks(REPOSITORY / "docs/writing-a-tool.md"):
        if title := block.option("title"):
            (tmp_path / title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / title).write_text(block.text)
    workspace, said = fresh("home"), []
    for executor in ("local", "bazel"):
        words = ("--catalog", "formulas", "--executor", executor, "--format", "json", "--quiet")
        done = workspace("run", "formula/stack/machine/line", *words, cwd=tmp_path)
        assert done.code == 0, done.stderr
        (test,) = json.loads(done.stdout)["tests"]
        said.append((test["outcome"], test["stage"], test["reason"]))
    assert said[0] == said[1]
