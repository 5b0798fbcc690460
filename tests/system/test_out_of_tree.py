"""A dialect out of LLVM's tree, whose build has a suite of the matrix: by Ninja, by CTest and by lit.

CMake and Ninja are the machine's; compiler, C library and MLIR come with the prefix of ``tests/system/source``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.machine import needs
from support.mlir_dev import CATALOG, definitions, fetch
from support.workspace import REPOSITORY, Workspace

pytestmark = needs("cmake", "ninja")

PROGRAM, RUN_LINES = "toy/toy-loops/x86_64/twice", "lit/run-lines/lit/toy-ir:twice"


@dataclass(frozen=True)
class Tree:
    """A source folder with its build folder, and the environment of the user."""

    source: Path
    build: Path
    env: dict[str, str]

    def call(self, *words: str | Path, code: int = 0) -> str:
        done = subprocess.run(
            words, cwd=self.build, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    def lit(self, *words: str, code: int = 0) -> str:
        """Call the lit of the environment that has run."""
        packages = next((Path(self.env["MATRIX_HOME"]) / "packages").glob("lit-*"))
        start = f"import sys; sys.path.append({str(packages)!r}); from lit.main import main; main()"
        return self.call(sys.executable, "-B", "-c", start, "-v", *words, "check-matrix", code=code)


def tree_in(folder: Path, workspace: Workspace) -> Tree:
    (folder / "build").mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CMAKE_", "CTEST_", "LIT_"))}
    return Tree(folder / "source", folder / "build", env | workspace.env)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, workspace: Workspace) -> Tree:
    """The project, configured and not built."""
    folder = tmp_path_factory.mktemp("toy")
    catalog = folder / "catalog"
    shutil.copytree(CATALOG, catalog)
    fetch(workspace, catalog)
    where = workspace("toolchain", "which", "mlir-tblgen@19.1.7", "--catalog", catalog).stdout.strip()
    root = Path(where).parents[2]
    made = tree_in(folder, workspace)
    made.env["GCC_EXEC_PREFIX"] = f"{root}/usr/lib/gcc/"
    shutil.copytree(Path(__file__).parent / "out_of_tree", made.source)
    llvm = root / "usr/lib/llvm-19"
    # Where this machine lacks a library of those programs, the catalog's release of LLVM takes their place.
    starts = subprocess.run([llvm / "bin/mlir-opt", "--version"], capture_output=True, check=False).returncode == 0
    own = [f"-DTOY_LLVM_DIR={llvm}/lib/cmake/llvm"] if starts else []
    module = subprocess.run(
        [REPOSITORY / "tools/matrix", "--cmakedir"], env=made.env, capture_output=True, text=True, check=True
    )
    made.call(
        "cmake", "-G", "Ninja", "-S", made.source, *definitions(root), *own, f"-DMlirMatrix_DIR={module.stdout.strip()}"
    )
    return made


def test_tests_of_tools_that_are_not_built_fail(tree: Tree) -> None:
    said = tree.call("ctest", "--output-on-failure", code=8)
    assert "Test #1: check-matrix ..." in said
    assert f"matrix: --pin toy-opt={tree.build}: none of toy-opt is in this folder or its bin/" in said


def test_one_command_builds_and_tests(tree: Tree) -> None:
    assert "2 tests: 2 pass" in tree.call("ninja", "check-matrix")
    cases = ElementTree.parse(tree.build / "check-matrix/junit.xml").getroot().iter("testcase")
    assert {case.get("name") for case in cases} == {"twice", "toy-ir:twice"}
    results = json.loads((tree.build / "check-matrix/results.json").read_text())
    assert {test["id"]: test["outcome"] for test in results["tests"]} == {PROGRAM: "pass", RUN_LINES: "pass"}
    (program,) = (test for test in results["tests"] if test["id"] == PROGRAM)
    assert "+own." in program["pins"]["toy-opt"]


def test_ctest_and_lit_list_and_run_the_tests(tree: Tree) -> None:
    """Also those of a catalog that has changed since the tree was configured."""
    listed = tree.call("ctest", "--show-only=json-v1")
    tests = {
        test["name"]: {each["name"]: each["value"] for each in test["properties"]}
        for test in json.loads(listed)["tests"]
    }
    assert set(tests) == {"check-matrix/toy/toy-loops/x86_64", "check-matrix/lit/run-lines/lit"}
    of_cell = tests["check-matrix/toy/toy-loops/x86_64"]
    assert (of_cell["LABELS"], of_cell["TIMEOUT"]) == (["matrix", "toy", "toy-loops", "x86_64"], 300)

    ours = tree.source / "test/twice.mlir"
    (tree.source / "test/thrice.mlir").write_text(ours.read_text().replace("arith.addf", "arith.mulf"))
    said = tree.call("ctest", "-L", "run-lines", "--output-on-failure", code=8)
    assert "1 mismatch" in said
    assert "0% tests passed, 1 tests failed out of 1" in said

    said = tree.lit("--filter-out", "toy-loops", code=1)
    assert f"PASS: check-matrix :: {RUN_LINES} " in said
    assert "FAIL: check-matrix :: lit/run-lines/lit/toy-ir:thrice " in said
    assert "mismatch: FileCheck of RUN line 1 fails with exit code 1: CHECK: expected string not found" in said
    assert f"repeat: {REPOSITORY}/tools/matrix run --catalog {tree.source} " in said
    assert "Excluded: 1" in said


def configured(folder: Path, workspace: Workspace, text: str, *words: str) -> str:
    """What CMake says of a project that it refuses, without the breaks of lines."""
    tree = tree_in(folder, workspace)
    tree.source.mkdir()
    module = f"-DMlirMatrix_DIR={REPOSITORY}/tools/cmake"
    (tree.source / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.20)\nproject(x NONE)\n{text}\n")
    said = tree.call("cmake", "-G", "Ninja", "-S", tree.source, module, *words, code=1)
    return " ".join(said.split())


FIND = "find_package(MlirMatrix REQUIRED CONFIG)\n"


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (f"set(CMAKE_VERSION 3.18.4)\n{FIND}", [], "needs CMake 3.20 or newer, as LLVM does, and this is CMake 3.18.4."),
        ("find_package(MlirMatrix 99 REQUIRED CONFIG)", [], "compatible with requested version \"99\""),
        (FIND, ["-DMlirMatrix_EXECUTABLE=/bin/true"], "/bin/true is not the program of "),
        (f"{FIND}mlir_matrix_add_suite(check)", [], "mlir_matrix_add_suite(check): TESTS names no suite and no test"),
        (f"{FIND}mlir_matrix_add_suite(check smoke)", [], "mlir_matrix_add_suite(check): unknown words: smoke;"),
        (f"{FIND}mlir_matrix_add_suite(check TESTS a TIMEOUT 1m)", [], "TIMEOUT 1m: expected a number of seconds"),
        (f"{FIND}mlir_matrix_add_suite(check TESTS a CATALOG no)", [], "/no: there is no such folder"),
        (f"{FIND}mlir_matrix_add_suite(check TESTS a TOOLS our=my-opt)", [], "TOOLS our=my-opt: there is no target my-opt;"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_project(
    tmp_path: Path, workspace: Workspace, text: str, words: list[str], message: str
) -> None:
    assert message in configured(tmp_path, workspace, text, *words)
