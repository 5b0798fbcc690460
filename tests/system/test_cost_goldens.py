"""Goldens of costs: written from a run, and the outcome of a test that costs more."""

from __future__ import annotations

from pathlib import Path

import yaml

from support.downstream import Downstream
from support.hostile import INNOCENT_MLIR
from support.workspace import Workspace

TEST = "mlir/linalg-loops/x86_64-v3/twice"
SUITE = """\
description: Costs of one program.
include: [mlir/linalg-loops/x86_64-v3/twice]
cost: fail
"""


def test_a_golden_is_written_and_a_test_that_costs_more_is_slower(workspace: Workspace, tmp_path: Path) -> None:
    catalog = Downstream(tmp_path / "mine")
    catalog.workload("twice", linalg=INNOCENT_MLIR)
    catalog.write("matrix/suites/costly.yaml", SUITE)
    update = ("golden", "update", "--cost", "costly", "--catalog", catalog.root)
    done = workspace(*update)
    assert done.code == 1, done.stderr
    assert f"{TEST}: new: " in done.stdout
    assert "nothing was written; matrix golden update --cost --write costly --catalog" in done.stderr
    file = catalog.root / "golden/twice/costs.yaml"
    assert not file.exists()
    assert workspace(*update, "--write").code == 0
    assert workspace(*update).stdout == f"{TEST}: unchanged\n"
    written = file.read_text()
    (layer,) = yaml.safe_load(written)["layers"]
    counted = layer["costs"]["instructions"]

    run = ("run", "costly", "--catalog", catalog.root, "--format", "json")
    done = workspace(*run)
    assert (done.code, done.document["tests"][0]["outcome"]) == (0, "pass"), done.stderr
    file.write_text(written.replace(f"instructions: {counted}", "instructions: 1"))
    done = workspace(*run)
    (entry,) = done.document["tests"]
    assert (done.code, entry["outcome"], entry["stage"]) == (1, "slower", "judge")
    assert entry["reason"].startswith(f"instructions {counted:,}, golden 1 (+")
    assert (
        f"golden/twice/costs.yaml:{written[: written.index('instructions')].count(chr(10)) + 1}:7)" in entry["reason"]
    )
    assert " bisect --by instructions " in entry["next"]

    catalog.write("matrix/suites/costly.yaml", SUITE.replace("fail", "note"))
    done = workspace("run", "costly", "--catalog", catalog.root)
    assert done.code == 0, done.stderr
    assert f"{TEST}: instructions {counted:,}, golden 1 (+" in done.stdout
    expecting = SUITE + f"expect: [{{tests: [{TEST}], outcome: slower, reason: known}}]\n"
    catalog.write("matrix/suites/costly.yaml", expecting)
    assert workspace(*run).code == 0
