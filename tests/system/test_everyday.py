"""The commands of a working day, in a project. Each of them once failed a user."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from support.workspace import REPOSITORY, Workspace

WRONG = "matrix/workloads/wrong/linalg.mlir"
PIPELINES = "mlir/{linalg-loops,linalg-named}/x86_64/wrong"


@pytest.fixture(scope="module")
def acme(warm: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a workload whose kernel is wrong, and a step of its own."""
    folder = tmp_path_factory.mktemp("stops")
    assert warm("init", "acme", cwd=folder).code == 0
    project = folder / "acme"
    for words in (("workload", "wrong"), ("step", "my-fusion")):
        made = warm("new", *words, cwd=project)
        assert made.code == 0, made.stderr
    kernel = project / WRONG
    kernel.write_text(kernel.read_text().replace("arith.addf", "arith.subf"))
    (project / "deep").mkdir()
    return project


def test_a_project_is_found_from_a_folder_in_it(warm: Workspace, acme: Path) -> None:
    for words in ((), ("nightly",)):
        done = warm("run", *words, cwd=acme / "deep")
        assert (done.code, "2 tests: 2 pass" in done.stdout) == (0, True), done.stdout


def test_what_there_is_and_where_it_is_used(warm: Workspace, acme: Path) -> None:
    assert warm("help").stdout == warm("--help").stdout
    assert "my-fusion" in warm("list", "steps", "my-*", cwd=acme).stdout
    assert "recipes/pipelines/linalg-loops.yaml" in warm("show", "bufferize").stdout


def test_two_tests_with_one_wrong_output_share_their_description(warm: Workspace, acme: Path) -> None:
    """It ends with commands that work from anywhere, and with the kept folder."""
    done = warm("run", PIPELINES, cwd=acme)
    assert done.code == 1
    assert len(re.findall(r"^mismatch mlir/linalg-\w+/x86_64/wrong$", done.stdout, re.MULTILINE)) == 2
    assert done.stdout.count("the worst 5") == 1
    lines = {key: re.search(rf"^  {key}: +(.+)$", done.stdout, re.MULTILINE)[1] for key in ("kept", "repeat", "next")}  # type: ignore[index]
    again = warm(*shlex.split(lines["repeat"])[1:], cwd=Path("/"))
    assert (again.code, "1 mismatch" in again.stdout) == (1, True), again.stderr
    helped = warm(*shlex.split(lines["next"])[1:], cwd=Path("/"))
    assert helped.code == 0, helped.stderr
    assert {"commands.sh", "repeat.sh", "result.json", "error-y.svg"} <= {
        each.name for each in Path(lines["kept"]).iterdir()
    }


def test_failed_tests_run_again_and_any_is_kept(warm: Workspace, acme: Path) -> None:
    assert warm("run", PIPELINES, cwd=acme).code == 1
    again = warm("run", "--failed", cwd=acme)
    assert (again.code, "2 mismatch" in again.stdout) == (1, True)
    kept = warm("run", "--keep", "all", "mlir/my-fusion/ir/*", cwd=acme)
    folder = re.search(r"^files of 1 test as expected: (.+)$", kept.stdout, re.MULTILINE)
    assert folder is not None
    assert "mlir-opt" in (Path(folder[1]) / "commands.sh").read_text()


def test_passes_of_a_step_and_the_program_that_runs_them(warm: Workspace) -> None:
    test = "mlir/linalg-loops/x86_64/softmax"
    assert "    passes func.func(linalg-fuse-elementwise-ops),canonicalize,cse\n" in warm("explain", test).stdout
    found = warm("toolchain", "which", "mlir-opt", "--for", test, "--pin", "llvm=22")
    assert "llvm-22.1.8" in found.stdout, found.stderr


def test_a_pattern_says_little_about_what_is_unsupported(warm: Workspace) -> None:
    done = warm("run", "jax/*/x86_64/mlp")
    assert done.code == 0
    assert re.search(r"^\d+ more cells .* unsupported", done.stdout, re.MULTILINE)
    assert len(done.stdout.splitlines()) < 12


def test_a_failing_ir_test_is_marked_at_its_own_line(warm: Workspace, acme: Path) -> None:
    """By LLVM's FileCheck, which knows numbers, where the release has it; else by the Python port."""
    case = acme / "recipes/steps/my-fusion/tests/basic.mlir"
    text = case.read_text()
    case.write_text(f"// CHECK: no-such-operation\n{text}")
    for pins in ((), ("--pin", "llvm=22")):
        done = warm("run", "mlir/my-fusion/ir/basic", "--format", "github", *pins, cwd=acme)
        assert done.code == 1
        assert re.search(r"^::error file=\S*my-fusion/tests/basic\.mlir,line=1\b", done.stdout, re.MULTILINE), (
            done.stdout
        )
    case.write_text("// CHECK: %arg[[#N:]]: tensor\n// CHECK: %arg[[#N]]\n" + text)
    done = warm("run", "mlir/my-fusion/ir/basic", "--pin", "llvm=22", cwd=acme)
    assert "invalid" not in done.stdout
    case.write_text(text)


def test_a_missing_golden_is_made_for_its_workload_alone(warm: Workspace, acme: Path) -> None:
    golden = acme / "golden/axpy/z.npy"
    data = golden.read_bytes()
    golden.unlink()
    done = warm("run", "mlir/linalg-loops/x86_64/axpy", cwd=acme)
    command = re.search(r"matrix golden update --write axpy --catalog \S+", done.stdout)
    assert done.code == 2
    assert command is not None, done.stdout
    written = warm(*command[0].split()[1:], cwd=Path("/"))
    assert written.code == 0, written.stderr
    assert golden.read_bytes() == data


def test_the_index_of_questions_names_a_page_for_each() -> None:
    index = (REPOSITORY / "docs/README.md").read_text()
    for question in ("GPU", "CMake", "which pass", "my build for good", "failed last time", "PyTorch of my own"):
        assert question in index, question


def test_kept_commands_need_no_matrix(warm: Workspace, acme: Path) -> None:
    """The C program at their end prints the wrong elements."""
    done = warm("run", "mlir/linalg-loops/x86_64/wrong", "--pin", "llvm=22", cwd=acme)
    kept = re.search(r"^  kept: +(.+)$", done.stdout, re.MULTILINE)
    assert kept is not None
    ran = subprocess.run([f"{kept[1]}/commands.sh"], cwd="/", capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "1001 of 1001 elements are wrong" in ran.stdout, ran.stderr
