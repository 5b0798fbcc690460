"""Tools of frameworks, steps and targets: each wrong thing with its sentence and position."""

from __future__ import annotations

from typing import Any

import pytest

STEP = "recipes/steps/mine/step.yaml"
HEAD = "description: d\nenvironment: torch\naccepts: [linalg]\n"
TARGET = "matrix/targets/mine/target.yaml"
END = "description: d\naccepts: [linalg]\nmachine: [x86_64]\nrunner_environment: torch\n"


@pytest.fixture
def tooled(tree: Any) -> Any:
    """The small catalog, with programs in its environment."""
    tree.edit("toolchains/components/llvm.yaml", "provider: deb\n", "provider: deb\ntools: [mlir-opt, llc]\n")
    return tree


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("command: [mlir-opt, '${ir}', -o, '${out}']\n", []),
        ("command: [mlir-op, '${ir}']\n", ["4:11: environment 'torch' has no program 'mlir-op'; did you mean 'mlir-opt'?"]),
        ("command: [llc, '${ri}', '$out', '${ir']\n", [
            "4:16: '${ri}' stands for nothing; known: ir, kind, out",
            "4:25: '$' stands for nothing; write ${NAME}",
            "4:33: '${ir' stands for nothing; write ${NAME}",
        ]),
        ("command: [llc, '${inputs}']\n", ["4:16: '${inputs}' stands for nothing; known: ir, kind, out"]),
        ("command: []\n", ["4:1: 'command' must not be empty"]),
        ("command: [llc]\npasses: cse\nbackend: programs\n", [
            "5:1: a 'command' does not take 'passes'", "6:1: a 'command' does not take 'backend'",
        ]),
        ("command: [llc]\ntool: object\n", ["5:1: the tool 'object' would never run: the step has a 'command'"]),
        ("command: [llc]\npreload: [os]\n", [
            "5:1: 'preload' has no effect: the step has no file tool.py that imports anything",
        ]),
        ("command: [llc]\nparameters:\n  level: {description: d, default: 2}\n", [
            "6:3: the parameter 'level' is not used; write ${level} where it belongs",
        ]),
        ("command: [llc, '${ir}']\nparameters:\n  ir: {description: d, default: 2}\n", [
            "6:3: the parameter 'ir' has the name of an input, output or file; '${ir}' would be ambiguous",
        ]),
        ("command: [llc]\nfiles: [flags.txt]\n", ["5:9: there is no file 'flags.txt' in this folder"]),
        ("passes: cse\nfiles: []\npreload: [os]\n", [
            "6:1: 'preload' has no effect: the step has no file tool.py that imports anything",
        ]),
        ("command: [llc]\npreload: ['os.path:']\n", [
            "5:11: 'os.path:' is not a module such as 'jax.numpy', or a function such as 'jax:devices'",
        ]),
        ("variants:\n- {when: {llvm: '>=19'}, command: [llc]}\n- {when: {llvm: '18'}}\n", [
            "6:3: this variant has no 'command', nor has the file as a whole",
        ]),
        ("command: [llc]\nvariants:\n- {when: {llvm: '18'}, parameters: {level: 3}}\n", [
            "6:37: step 'mine' has no parameter 'level'; it has none",
        ]),
    ],
)  # fmt: skip
def test_steps(tooled: Any, text: str, errors: list[str]) -> None:
    tooled.write(STEP, HEAD + text)
    if not errors:
        assert tooled.load().steps["mine"].document.command[0] == "mlir-opt"
    else:
        found = [error.removeprefix(f"{STEP}:") for error in tooled.errors()]
        assert [any(each.startswith(want) for each in found) for want in errors] == [True] * len(errors), found


def test_a_file_and_a_command(tooled: Any) -> None:
    tooled.write(STEP, HEAD)
    tooled.write("recipes/steps/mine/tool.py", "")
    assert tooled.load().steps["mine"].document.tool_name(["tool.py"]) == "python_file"
    tooled.write("recipes/steps/mine/helper.py", "")
    assert tooled.errors() == ["recipes/steps/mine/helper.py: is not read: 'files' does not name it"]
    tooled.write(STEP, HEAD + "files: [helper.py]\n")
    assert tooled.load()
    tooled.write(STEP, HEAD + "files: [helper.py]\ncommand: [llc]\n")
    assert tooled.errors() == [f"{STEP}:5:1: 'command' and tool.py exclude each other; remove one of them"]
    tooled.write("recipes/steps/mine/out", "")
    tooled.write(STEP, HEAD + "files: [helper.py, out]\n")
    assert tooled.errors() == [f"{STEP}:4:20: 'out' is the name of an input or output; rename the file"]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("command: [llc, '${artifact}', '--in=${inputs}', '${outputs}']\n", []),
        ("command: [llc]\ntriple: x\n", ["6:1: 'triple' has no effect: this target links no kernels"]),
        ("command: [llc]\nrunner: [llc]\n", [
            "6:1: the tool 'command' takes no 'runner': the target's own tool runs artifacts",
        ]),
        ("tool: run\nlinker_environment: torch\n", ["1:1: the key 'triple' is missing; the tool 'run' needs it"]),
        ("tool: run_jit\nlinker_environment: torch\n", ["1:1: the key 'triple' is missing; the tool 'run_jit' needs it"]),
    ],
)  # fmt: skip
def test_targets(tooled: Any, text: str, errors: list[str]) -> None:
    tooled.write(TARGET, END + text)
    if not errors:
        assert tooled.load().targets["mine"].document.native
    else:
        assert [error.removeprefix(f"{TARGET}:") for error in tooled.errors()] == errors


def test_sources_by_release(tree: Any) -> None:
    workload = "matrix/workloads/mlp/workload.yaml"
    text = (tree.path / workload).read_text()
    tree.write("matrix/workloads/mlp/old.py", "")
    tree.write(workload, text + "sources: {pytorch.py: [{when: {llvm: '18'}, file: old.py}]}\n")
    assert tree.load().workloads["mlp"].document.sources["pytorch.py"][0].file == "old.py"
    tree.write(workload, text + "sources: {pytroch.py: [{when: {llvm: '18'}, file: old.py}]}\n")
    line = text.count("\n") + 1
    assert tree.errors() == [f"{workload}:{line}:11: there is no source 'pytroch.py'; did you mean 'pytorch.py'?"]
    tree.write(workload, text + "sources: {pytorch.py: [{when: {lvm: '18'}, file: odl.py}]}\n")
    assert tree.errors() == [
        "matrix/workloads/mlp/old.py: is not read: no framework has such a source; did you mean 'odl.py'?",
        f"{workload}:{line}:32: there is no component 'lvm'; did you mean 'llvm'?",
        f"{workload}:{line}:44: there is no file 'odl.py' in this folder; did you mean 'old.py'?",
    ]
