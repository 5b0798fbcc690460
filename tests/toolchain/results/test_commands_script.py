"""``commands.sh`` repeats a test without this program: by the programs that ran, or by those of the nearest release."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, plan_tests, select_tests
from mlir_matrix.results.failure_folder import KeptTests
from mlir_matrix.results.run_folder import RunFolder
from mlir_matrix.results.run_plan import run_plan
from support.workspace import REPOSITORY

TEST = "mlir/linalg-loops/x86_64/softmax"


@pytest.fixture
def kept(tmp_path: Path, environments: Any) -> Any:
    """A function that runs a test with some pins and returns its folder."""

    def run(*pins: str, test: str = TEST, catalogs: Sequence[Path] = ()) -> Path:
        for pin in pins or ("",):
            environments.require("mlir" + (f"@{pin}" if pin else ""))
        session = open_session(cache_dir=tmp_path / "cache", pins=pins, catalogs=catalogs)
        plan = plan_tests(session, select_tests(session, [test]))
        folders = KeptTests(RunFolder(tmp_path / "failures", {}), lambda name: f"matrix run {name}", {test})
        found = run_plan(session, plan, limits=Limits(jobs=2), fail_fast=False, annotate=folders.annotate)
        assert [result.outcome for result in found.results] == ["pass"]
        assert folders.keep(found, plan, session) == ""
        return Path(found.results[0].kept)

    return run


def programs(script: Path) -> list[str]:
    return re.findall(r"^[a-z./]\S*", script.read_text(), re.MULTILINE)


def test_commands_of_programs_give_the_right_numbers(kept: Any) -> None:
    script = kept("llvm=22.1.8") / "commands.sh"
    ran = subprocess.run([script], cwd="/", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "0 of 4773 elements are wrong" in ran.stdout
    assert programs(script)[3:] == [*["mlir-opt"] * 5, "mlir-translate", "opt", "llc", "objcopy", "cc", "./main"]


def test_bindings_are_replaced_by_the_nearest_programs(kept: Any) -> None:
    text = (kept() / "commands.sh").read_text()
    assert "\n# llvm 24.0.0+deb." in text
    assert "mlir-opt ../02-import-mlir-softmax-linalg.mlir '--pass-pipeline=builtin.module(func.func(" in text
    # That pass is only in torch-mlir's build.
    assert "tm-tensor" not in text
    assert "{major}" not in text
    assert re.search(r"^llc .* -filetype=obj optimised\.ll -o \d\d-kernel\.o$", text, re.MULTILINE)


def test_a_step_with_patterns_is_left_out(kept: Any, tmp_path: Path) -> None:
    catalog = tmp_path / "catalog"
    step, pipelines = catalog / "recipes/steps/patterned", catalog / "recipes/pipelines"
    step.mkdir(parents=True)
    pipelines.mkdir()
    (step / "step.yaml").write_text(
        "description: Patterns that match nothing.\nenvironment: mlir\naccepts: [linalg]\ngives: linalg\n"
        "patterns: patterns.mlir\npasses: canonicalize\n"
    )
    (step / "patterns.mlir").write_text(
        'pdl.pattern @none : benefit(1) {\n  %op = operation "test.none"\n  rewrite %op {\n    erase %op\n  }\n}\n'
    )
    own = (REPOSITORY / "recipes/pipelines/linalg-loops.yaml").read_text()
    (pipelines / "patterned.yaml").write_text(own.replace("  - linalg-fuse\n", "  - linalg-fuse\n  - patterned\n"))
    text = (kept(test="mlir/patterned/x86_64/softmax", catalogs=[catalog]) / "commands.sh").read_text()
    assert "\n# patterned: no program does this; what follows reads its kept result.\n" in text
    assert re.search(r"^mlir-opt \.\./\d\d-patterned-linalg\.mlir .*one-shot-bufferize", text, re.MULTILINE)
    assert re.search(r"^mlir-opt .*linalg-fuse-elementwise-ops", text, re.MULTILINE)
