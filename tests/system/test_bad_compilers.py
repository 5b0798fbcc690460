"""Compilers of a catalog that misbehave: each has the right outcome and reason, and the test of a good one passes beside them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support.downstream import Downstream
from support.factors import COMPILER, compiler, factors
from support.workspace import Workspace

#: Programs that are compilers, by their first argument.
PROGRAM = f"""\
#!{os.path.realpath(sys.executable)} -I
import os, sys
word = sys.argv[1]
if word == "--version":
    print("misfit 1.0.0")
elif word == "crashes":
    os.kill(os.getpid(), 11)
elif word == "hangs":
    os.read(os.pipe()[0], 1)
elif word == "prints":
    for _ in range(100):
        os.write(2, b"warning: nothing to see here\\n" * 40_000)
    sys.exit("misfit: error: the last line of 100 megabytes")
elif word == "links":
    os.execv("/usr/bin/ld.lld", ["ld.lld"])
elif word == "escapes":
    open("/etc/misfit", "w")
"""
COMPONENT = "description: d\nprovider: host\ntools: [{0}]\nprograms: [{0}]\nreleases: [{{release: 1.0.0}}]\n"
LOST = (
    'import subprocess\n\n\ndef run(action):\n    subprocess.run(["ld.lld", "-o", action.outputs["out"]], check=True)\n'
)
#: Blanks behind a number do not change it: the digits of the clock, each as so many of them.
CLOCK = "import time\n" + COMPILER.format(more="").replace(
    "str(factor)", 'str(factor) + "\\t".join(" " * int(digit) for digit in str(time.time_ns()))'
)
#: A step that adds what LLVM makes an instruction of that no CPU has.
TRAP = """\
from pathlib import Path


def run(action):
    code = Path(action.inputs["ir"]).read_text()
    Path(action.outputs["out"]).write_text(code.replace("llvm.return", '"llvm.intr.trap"() : () -> ()\\n    llvm.return'))
"""
#: By compiler: outcome, stage, the step that decides and the reason.
CASES = {
    "crashes": ("crashed", "codegen", "crashes", "SIGSEGV while at stage codegen"),
    "hangs": ("timed-out", "codegen", "hangs", "no answer within 10 s (--timeout)"),
    "prints": ("codegen-failed", "codegen", "prints", "exit code 1: the last line of 100 megabytes"),
    "links": ("codegen-failed", "codegen", "links", "FileNotFoundError: [Errno 2] No such file or directory"),
    "escapes": ("codegen-failed", "codegen", "escapes", "Read-only file system: '/etc/misfit'"),
    "lost": ("infra-error", "codegen", "lost", "tool.py raised FileNotFoundError: [Errno 2] No such file or directory: 'ld.lld'"),
    "absent": ("skipped", "codegen", "absent", "no program 'nowhere' on PATH"),
}  # fmt: skip


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Downstream:
    folder = tmp_path_factory.mktemp("misfits")
    program = folder / "bin/misfit"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    made = factors(folder / "catalog", "doubled")
    for name, tool in (("misfit", "misfit"), ("absent", "nowhere")):
        made.write(f"toolchains/components/{name}.yaml", COMPONENT.format(tool))
        made.write(f"toolchains/environments/{name}.yaml", f"description: d\ncomponents: [{name}]\n")
    for name in ("crashes", "hangs", "prints", "links", "escapes"):
        compiler(made, name, f'environment: misfit\ncommand: [misfit, {name}, "${{ir}}", "${{out}}"]\n', files={})
    compiler(made, "absent", 'environment: absent\ncommand: [nowhere, "${ir}", "${out}"]\n', files={})
    compiler(made, "lost", files={"tool.py": LOST})
    compiler(made, "good")
    compiler(made, "clock", files={"tool.py": CLOCK})
    made.write("recipes/steps/trap/step.yaml", "description: d\nenvironment: numpy\naccepts: [llvm]\ngives: llvm\n")
    made.write("recipes/steps/trap/tool.py", TRAP)
    steps = "bufferize, linalg-to-loops, loops-to-llvm, trap"
    made.write("recipes/pipelines/trap.yaml", f"description: d\nentry: {{linalg: []}}\nsteps: [{steps}]\n")
    return made


@pytest.fixture(scope="module")
def found(workspace: Workspace, catalog: Downstream) -> dict[str, Any]:
    """The results by test."""
    path = f"{catalog.root.parent / 'bin'}:{os.environ['PATH']}"
    ended = ",".join([*(name for name in CASES if name != "hangs"), "good"])
    return Workspace(workspace.home, more={"PATH": path}).run_with_endless(
        [f"factor/{{{ended}}}/times/doubled", "mlir/{linalg-loops,trap}/x86_64/dot"],
        ["factor/hangs/times/doubled"],
        "--catalog",
        catalog.root,
    )


@pytest.mark.parametrize("name", CASES)
def test_a_compiler_that_misbehaves(found: dict[str, Any], name: str) -> None:
    test = found[f"factor/{name}/times/doubled"]
    outcome, stage, step, reason = CASES[name]
    assert (test["outcome"], test["stage"], test["step"]["name"]) == (outcome, stage, step)
    assert reason in test["reason"]
    assert len(test.get("diagnostics", "")) < 250_000


def test_code_for_another_cpu(found: dict[str, Any]) -> None:
    test = found["mlir/trap/x86_64/dot"]
    assert (test["outcome"], test["signal"], test["step"]["name"]) == ("crashed", "SIGILL", "run/dot")
    assert test["reason"].endswith("an instruction that this CPU lacks, or a trap; is the code for another CPU?")


def test_other_tests_pass_beside_them(found: dict[str, Any]) -> None:
    assert found["factor/good/times/doubled"]["outcome"] == "pass"
    assert found["mlir/linalg-loops/x86_64/dot"]["outcome"] == "pass"
    assert not Path("/etc/misfit").exists()


def test_code_that_changes_from_compile_to_compile(workspace: Workspace, catalog: Downstream) -> None:
    tests = "factor/{clock,good}/times/doubled"
    found = workspace.run(tests, "--repeat", "2", catalog=catalog.root).tests
    assert found["factor/clock/times/doubled"]["unstable"] == ["clock"]
    assert "unstable" not in found["factor/good/times/doubled"]
    text = workspace("run", tests, "--repeat", "2", "--catalog", catalog.root, "-q").stdout
    assert "steps that give different bytes for equal inputs: " in text
    assert "\n  factor/clock/times/doubled: clock\n" in text
