"""``matrix ir`` and ``matrix step``: IR between the steps of tests, and one step on a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.workspace import Workspace

TEST = "jax/linalg-loops/x86_64/mlp"
#: Its IR cannot be lowered.
FAILING = "jax/linalg-loops/x86_64/topk"


def test_the_ir_after_and_before_a_step(warm: Workspace) -> None:
    after = warm("ir", TEST, "--after", "linalg-fuse")
    assert after.code == 0, after.stderr
    assert "linalg.generic" in after.stdout
    assert warm("ir", TEST, "--before", "bufferize").stdout == after.stdout
    assert "stablehlo.dot_general" in warm("ir", TEST, "--after", "import").stdout
    assert "llvm.func" in warm("ir", TEST).stdout


def test_all_levels_become_files_and_a_step_gives_the_next(warm: Workspace, tmp_path: Path) -> None:
    done = warm("ir", TEST, "--all", "--out", str(tmp_path / "ir"))
    assert done.stdout == f"7 files written to {tmp_path / 'ir'}\n"
    files = {path.name.split("-", 1)[1]: path for path in (tmp_path / "ir").iterdir()}
    (tmp_path / "next").mkdir()
    stepped = warm("step", "linalg-to-loops", str(files["bufferize-bufferized.mlir"]))
    assert stepped.code == 0, stepped.stderr
    assert stepped.stdout == files["linalg-to-loops-loops.mlir"].read_text()
    printed = warm("step", "linalg-to-loops", str(files["bufferize-bufferized.mlir"]), "--print-ir-after-all").stdout
    passes = re.findall(r"^// -----// IR Dump After \w+: ([\w-]+)", printed, re.MULTILINE)
    assert passes[-4:] == ["convert-linalg-to-loops", "lower-affine", "canonicalize", "cse"]
    again = warm("ir", TEST, "--all", "--out", str(tmp_path / "ir"))
    assert again.code == 2
    assert "expected a new or empty folder; nothing was written" in again.stderr
    assert warm("ir", TEST, "--all").stdout.count("// ----- ") == 7


def test_a_failing_test_shows_what_comes_before_and_the_reason(warm: Workspace) -> None:
    done = warm("ir", FAILING)
    assert done.code == 1
    assert "chlo.top_k" in done.stdout
    assert "stablehlo-to-linalg: lower-failed: no pattern converts 'stablehlo.sort'" in done.stderr


def test_a_step_takes_parameters_and_releases(warm: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "ir.mlir"
    file.write_text(warm("ir", TEST, "--after", "linalg-fuse").stdout)
    tiles = [warm("step", "linalg-tile-vectorize", str(file), "--with", f"rows={rows}").stdout for rows in (4, 8)]
    assert tiles[0] != tiles[1]
    assert warm("step", "linalg-tile-vectorize", str(file)).stdout == tiles[1]
    file.write_text("module { broken")
    broken = warm("step", "linalg-fuse", str(file))
    assert broken.code == 1
    assert "does not parse" in broken.stderr
    assert f"at {file}:1:10" in broken.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ir", TEST, "--after", "linalg-fus"), "the test has no step linalg-fus; did you mean 'linalg-fuse'?"),
        (("ir", TEST, "--before", "import"), "nothing comes before import, the first step"),
        (("ir", TEST, "--all", "--after", "import"), "--after, --before and --all exclude each other"),
        (("ir", "jax/*/x86_64/mlp"), "expected the identifier of one test"),
        (("step", "linalg-fus", "x"), "there is no step 'linalg-fus'; did you mean 'linalg-fuse'?"),
        (("step", "linalg-fuse", "absent.mlir"), "absent.mlir: there is no such file"),
        (("step", "linalg-fuse", "/dev/null"), "/dev/null: is no plain file"),
        (("step", "linalg-fuse", __file__, "--with", "x=1"), "expected NAME=VALUE with a parameter of the step"),
    ],
)
def test_what_there_is_not(warm: Workspace, words: tuple[str, ...], message: str) -> None:
    done = warm(*words)
    assert done.code == 2
    assert message in " ".join(done.stderr.split())
