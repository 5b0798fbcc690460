"""``commands.sh`` repeats a test without this program: by the programs that ran, or by those of the nearest release."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, plan_tests, select_tests
from mlir_matrix.results.failure_folder import KeptTests
from mlir_matrix.results.run_folder import RunFolder
from mlir_matrix.results.run_plan import run_plan

TEST = "mlir/linalg-loops/x86_64/softmax"


@pytest.fixture
def kept(tmp_path: Path, environments: Any) -> Any:
    """A function that runs a test with some pins and returns its folder."""

    def run(*pins: str) -> Path:
        for pin in pins or ("",):
            environments.require("mlir" + (f"@{pin}" if pin else ""))
        session = open_session(cache_dir=tmp_path / "cache", pins=pins)
        plan = plan_tests(session, select_tests(session, [TEST]))
        folders = KeptTests(RunFolder(tmp_path / "failures", {}), lambda test: f"matrix run {test}", {TEST})
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
