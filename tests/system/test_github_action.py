"""``action.yml``: what its steps with shell do for the inputs of a downstream. No runner is here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import yaml

from support.workspace import REPOSITORY, Workspace

ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())


def step_of(folder: Path, workspace: Workspace, **inputs: str) -> tuple[int, str, dict[str, str]]:
    """The exit code and the log of the step that runs the tests, and its outputs."""
    assert set(inputs) <= set(ACTION["inputs"])
    given = {f"${{{{ inputs.{name} }}}}": inputs.get(name, each["default"]) for name, each in ACTION["inputs"].items()}
    (step,) = (each for each in ACTION["runs"]["steps"] if each.get("id") == "run")
    assert "${{" not in step["run"], "a value of an input would become code"
    files = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    env = {**os.environ, **workspace.env, **files, **{name: given[value] for name, value in step["env"].items()}}
    env |= {"RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": str(REPOSITORY), "GITHUB_WORKSPACE": str(folder)}
    # As GitHub starts `shell: bash`.
    (folder / "step.sh").write_text(step["run"])
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"], cwd=folder, env=env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    outputs = dict(line.split("=", 1) for line in (folder / "GITHUB_OUTPUT").read_text().splitlines())
    assert set(outputs) == set(ACTION["outputs"])
    return done.returncode, done.stdout, outputs


def test_the_step_runs_what_the_inputs_name(tmp_path: Path, workspace: Workspace) -> None:
    shutil.copytree(REPOSITORY / "tools/template", tmp_path / "my catalog")
    code, log, outputs = step_of(
        tmp_path, workspace, tests="mlir/linalg-{loops,named}/x86_64/axpy\nmlir/linalg-loops/x86_64/dot",
        catalog="my catalog\n", pins="zig=0.17.0\n\n",
    )  # fmt: skip
    assert code == 2, log
    assert "there is no component 'zig'; did you mean 'ziglang'?" in log
    code, log, outputs = step_of(
        tmp_path, workspace, tests="mlir/linalg-{loops,named}/x86_64/axpy\nmlir/linalg-loops/x86_64/dot",
        catalog="my catalog\n", pins="ziglang=0.17.0\n\n", machine="none",
    )  # fmt: skip
    assert code == 0, log
    results = json.loads(Path(outputs["results"]).read_text())
    assert {test["workload"] for test in results["tests"]} == {"axpy", "dot"}
    assert Path(outputs["junit"]).stat().st_size > 0
    assert "3 tests: 3 pass" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    (caches,) = (each["with"] for each in ACTION["runs"]["steps"] if "actions/cache" in each.get("uses", ""))
    assert caches["path"] == "~/.cache/mlir-matrix"
