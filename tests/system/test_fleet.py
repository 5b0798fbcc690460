"""Machines and shards on the command line: what is selected, run and merged, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mlir_matrix.schema.export import adapter
from support.downstream import Downstream
from support.workspace import REPOSITORY, Workspace

#: IR tests need neither a framework nor the C library.
IR = "mlir/linalg-*/ir/*"
BOX = """\
description: d
has:
  cpu: {architecture: x86_64}
  cores: 1
  memory-gib: 1
wants:
  suites: [few]
  require: ["mlir/linalg-fuse/ir/*"]
  leave-out: [{match: ["mlir/linalg-to-loops/**"], reason: another machine has it}]
  budget-minutes: 1
  pins: {llvm: "24.0.0+torch-mlir.20261001"}
"""
LEFT, OVER, FIRST = "mlir/linalg-to-loops/ir/matmul", "mlir/linalg-raise-named/ir/names", "mlir/linalg-fuse/ir/chain"
DATE = "2026-03-01T00:00:00.000Z"


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    made = Downstream(tmp_path / "catalog")
    for name, text in (("suites/few", f'description: d\ninclude: ["{IR}"]\n'), ("machines/box", BOX)):
        file = made.root / "matrix" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return made.root


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """One test is as long as the budget; half of them have no records."""
    file = tmp_path / "history.json"
    seconds = {OVER: 60, FIRST: 2, "mlir/linalg-tile-vectorize/ir/matmul": 0.5, LEFT: 0.5, "mlir/mem/ir/a": 0.5}
    tests = {name: {"seconds": each, "last_run": "2026-02-01T00:00:00.000Z"} for name, each in seconds.items()}
    file.write_text(json.dumps({"schema": "mlir-matrix/durations/v1", "taken": DATE, "tests": tests}))
    return file


def ran_of(document: Any) -> list[str]:
    return [test["id"] for test in document["tests"] if test["outcome"] != "unsupported"]


def test_a_machine_runs_its_plan(workspace: Workspace, catalog: Path, records: Path) -> None:
    words = ("--catalog", catalog, "--machine", "box", "--history", records, "--date", "2026-03-01")
    done = workspace("plan", *words, "--format", "json")
    plan = done.document
    Draft202012Validator(json.loads((REPOSITORY / "docs/schemas/plan.json").read_text())).validate(plan)
    tests = {test["id"]: test for test in plan["tests"]}
    assert next(iter(tests)) == FIRST
    assert tests[LEFT]["reason"].startswith(f"left out by {catalog}/matrix/machines/box.yaml:9:15: another")
    assert "over the budget of 1 min" in tests[OVER]["reason"]
    assert "takes 1 min (last run 2026-02-01)" in tests[OVER]["reason"]
    chosen = [name for name, test in tests.items() if test["selected"]]
    selection = plan["selection"]
    assert (selection["machine"], selection["date"], selection["history"]["taken"]) == ("box", DATE, DATE)
    assert selection["pins"] == {"llvm": "24.0.0+torch-mlir.20261001"}
    assert selection["over_budget"] == [OVER]
    # A plan is a value: the same inputs give the same bytes.
    assert workspace("plan", *words, "--format", "json").stdout == done.stdout

    results = catalog / "results.json"
    ran = workspace("run", *words, "--results", results, "--quiet")
    assert ran.code == 0, ran.stderr
    document = json.loads(results.read_text())
    adapter("results").validate_python(document)
    assert ran_of(document) == chosen
    assert document["selection"] == selection
    assert f"machine box: {len(chosen)} tests, about 0.067 of 1 min; left out: 2 not wanted, 1 over the b" in ran.stdout
    assert f"\nover the budget: {OVER}\n" in ran.stdout
    # All are cached now, and kept: the run without a plan says the same.
    for _ in range(2):
        again = workspace("run", *words, "--format", "json", "--quiet").document
        assert again["selection"] == selection
        assert ran_of(again) == chosen
    # Other records are another run.
    other = json.loads(records.read_text())
    other["tests"][OVER]["seconds"] = 1
    records.write_text(json.dumps(other))
    changed = workspace("run", *words, "--format", "json", "--quiet").document
    assert OVER in {test["id"] for test in changed["tests"]}


def test_shards_are_merged_to_the_run(workspace: Workspace, tmp_path: Path, records: Path) -> None:
    files = [tmp_path / f"{number}.json" for number in (1, 2)]
    for number, file in enumerate(files, 1):
        done = workspace("run", IR, "--shard", f"{number}/2", "--durations", records, "--results", file, "--quiet")
        assert done.code == 0, done.stderr
        assert f"shard {number}/2: " in done.stdout
    # Of one test, a shard has nothing to run, which is no error; together they ran something.
    empty = [tmp_path / f"empty-{number}.json" for number in (1, 2)]
    few = [workspace("run", FIRST, "--shard", f"{number}/2", "--results", file) for number, file in enumerate(empty, 1)]
    assert [done.code for done in few] == [0, 0], few
    assert [len(json.loads(file.read_text())["tests"]) for file in empty] == [1, 0]
    assert workspace("merge", *empty).code == 0
    # The long test is alone.
    assert OVER in {test["id"] for test in json.loads(files[0].read_text())["tests"]}
    merged = workspace("merge", *files, "--format", "json")
    assert merged.code == 0, merged.stderr
    whole = workspace.run(IR).document
    assert merged.document["summary"]["outcomes"] == whole["summary"]["outcomes"]
    assert workspace("merge", files[0]).stderr == "matrix: of 2 shards, 1 are given; missing: 2/2\n"
    workspace("run", IR, "--shard", "2/2", "--results", files[1], "--quiet")
    refused = workspace("merge", *files)
    assert refused.code == 2
    assert "are shards of different durations" in refused.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shard", "4/3"), "--shard 4/3: expected I/N with I from 1 to N, e.g. 2/3"),
        (("--shard", "0/3"), "--shard 0/3: expected I/N"),
        (("--durations", "x.json"), "--durations requires --shard"),
        (("--date", "2026-01-31"), "--date requires --machine"),
        (("--machine", "small", "--date", "tomorrow"), "--date tomorrow: expected a date"),
        (("--shard", "1/2", "--durations", "BOX"), "box.yaml: not JSON; make it with: matrix history export"),
        (("--machine", "bx"), "there is no machine 'bx'; did you mean 'box'?"),
        (("--machine", ""), "--machine: the name of the machine is empty"),
        (("--machine", "./none.yaml"), "./none.yaml: cannot be read: No such file or directory"),
        (("--machine", "box", LEFT), "no test is selected: machine box: 0 tests"),
        (("--machine", "vax"), "vax.yaml:2:13: machine vax is vax, this one is x86_64; compare them: matrix machine check vax"),
        (("--machine", "gone"), "gone.yaml:3:19: this machine has no /dev/no-such; compare them"),
    ],
)  # fmt: skip
def test_what_cannot_be_selected_is_refused(
    workspace: Workspace, catalog: Path, words: tuple[str, ...], message: str
) -> None:
    box = catalog / "matrix/machines/box.yaml"
    (box.parent / "vax.yaml").write_text("description: d\nhas: {cpu: {architecture: vax}, cores: 1, memory-gib: 1}\n")
    has = "has: {cpu: {architecture: x86_64}, cores: 1, memory-gib: 1, devices: [/dev/no-such]}"
    (box.parent / "gone.yaml").write_text(f"description: d\n{has}\nwants: {{devices: [/dev/no-such]}}\n")
    given = [str(box) if word == "BOX" else word for word in words]
    tests = [] if LEFT in words else [IR]
    done = workspace("run", *tests, "--catalog", catalog, *given, "--quiet")
    assert done.code == 2, done.stdout
    assert message in done.stderr


def test_machines_are_probed_checked_and_compared(workspace: Workspace, catalog: Path, tmp_path: Path) -> None:
    probed = tmp_path / "here.yaml"
    done = workspace("machine", "probe")
    assert done.code == 0, done.stderr
    probed.write_text(done.stdout)
    checked = workspace("machine", "check", probed, "--format", "json").document
    assert checked["summary"] == {"machine": "here", "differences": 0}
    has = workspace("machine", "probe", "--format", "json").document["has"]
    assert has["cpu"]["architecture"] == os.uname().machine
    listed = workspace("machine", "list", "--catalog", catalog, "--format", "json").document["machines"]
    assert [each["name"] for each in listed] == ["aarch64-builder", "box", "x86-64-builder", "x86-64-nightly"]
    probed.write_text(done.stdout.replace("  cores: ", "  cores: 9999"))
    wrong = workspace("machine", "check", probed)
    assert wrong.code == 1
    # The lines above it name what the CPU has.
    line = done.stdout[: done.stdout.index("  cores: ")].count("\n") + 1
    assert f"{probed}:{line}:3: cores is 9999" in wrong.stdout
    assert workspace("machine", "check").stderr.startswith(
        "matrix: name a machine or a file; machines of the catalogs: "
    )

    fleet = workspace("machine", "fleet", "box", probed, "--catalog", catalog, "--format", "json").document
    assert [each["name"] for each in fleet["machines"]] == ["box", "here"]
    assert fleet["machines"][0]["left_out"] == {"not wanted": 2}
    twice = workspace("machine", "fleet", "box", "box", "--catalog", catalog)
    assert twice.stderr == "matrix: two machines have the name 'box'; rename one of their files\n"
