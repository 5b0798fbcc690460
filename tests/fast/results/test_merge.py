"""Shards of one run are joined; whatever would lose tests is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.fleet.shards import identifiers_digest
from mlir_matrix.plan.documents import Selection
from mlir_matrix.results.cause_changes import named_by_changes
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.documents import ChangedSince, FinishedRun
from mlir_matrix.results.merge import merge, read_results
from mlir_matrix.results.results import Run, TestResult, exit_code, to_document

ABOUT: FinishedRun = {
    "version": "1", "command": "matrix run", "host": "a", "catalogs": [{"folder": "/x", "commit": "0123", "dirty": False}],
    "started": "2026-01-31T12:00:00.000Z", "ended": "2026-01-31T12:00:01.000Z",
}  # fmt: skip
IDS = [f"jax/p/t/w{number}" for number in range(5)]


def result(name: str, outcome: Any = "pass") -> TestResult:
    framework, pipeline, target, workload = name.split("/")
    return TestResult(
        id=name, framework=framework, pipeline=pipeline, target=target, workload=workload, outcome=outcome, stage="judge",
        expected=outcome == "pass", reason="", tested_property="scaling", pins={"llvm": "19"}, duration_s=0.5,
        step=None if outcome == "pass" else {"name": "lower", "action": "lower-1"}, repeats={"pass": 2},
        quarantine=None if outcome == "pass" else {"owner": "me", "until": "2026-02-01", "reason": "r", "position": "f:1:1"},
    )  # fmt: skip


def write(folder: Path, index: int, names: list[str], **changes: Any) -> Path:
    """Write the results of a shard; ``changes``: of the keys of its selection, of ``about`` and of outcomes."""
    selection: Selection = {
        "pins": changes.get("pins", {}),
        "shard": {
            "index": index, "count": changes.get("count", 2), "durations": changes.get("durations", "0" * 64),
            "tests": changes.get("tests", identifiers_digest(IDS)),
        },
    }  # fmt: skip
    run = Run(
        results=[result(name, changes.get("outcome", "pass")) for name in names],
        interruption=KeyboardInterrupt() if changes.get("interrupted") else None,
    )
    document = to_document(run, {**ABOUT, **changes.get("about", {})}, selection)
    file = folder / changes.get("name", f"{index}.json")
    file.write_text(json.dumps(document))
    return file


def merged(*files: Path) -> Any:
    return merge({file: read_results(file) for file in files})


def refused(*files: Path) -> str:
    with pytest.raises(UsageError) as caught:
        merged(*files)
    return str(caught.value)


def test_the_union_is_the_run(tmp_path: Path) -> None:
    one = write(tmp_path, 1, IDS[::2])
    two = write(tmp_path, 2, IDS[1::2], outcome="mismatch", about={"host": "b", "ended": "2026-01-31T13:00:00.000Z"})
    run, about, selection = merged(two, one)
    assert [each.id for each in run.results] == IDS
    assert run.results == [result(name, "mismatch" if number % 2 else "pass") for number, name in enumerate(IDS)]
    assert exit_code(run.results) == 0
    assert exit_code([replace(each, quarantine=None) for each in run.results]) == 1
    assert (about["started"], about["ended"], about["host"]) == (ABOUT["started"], "2026-01-31T13:00:00.000Z", "b, a")
    document = to_document(run, about, selection)
    assert document["summary"]["by_outcome"] == {"mismatch": 2, "pass": 3}
    assert "shard" not in document["selection"]


def test_an_interrupted_shard_stays_interrupted(tmp_path: Path) -> None:
    run, _, _ = merged(write(tmp_path, 1, IDS[:2]), write(tmp_path, 2, IDS[2:], interrupted=True))
    assert run.interrupted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"durations": "1" * 64}, "are shards of different durations: 000000000000 and 111111111111"),
        ({"durations": None}, "are shards of different durations: 000000000000 and None"),
        ({"tests": "1" * 64}, "are shards of different plans"),
        ({"count": 3}, "are shards of different counts: 2 and 3"),
        ({"pins": {"llvm": "22.1.8"}}, "are shards of different pins"),
        ({"about": {"catalogs": [{"folder": "/x", "commit": "4567"}]}}, "are shards of different commits"),
    ],
)
def test_shards_of_different_runs_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert message in refused(write(tmp_path, 1, IDS[:2]), write(tmp_path, 2, IDS[2:], **changes))


def test_missing_and_doubled_shards_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path, 1, IDS[:2])
    assert refused(one) == "of 2 shards, 1 are given; missing: 2/2"
    again = write(tmp_path, 1, IDS[:2], name="again.json")
    assert refused(one, again).endswith("again.json are both shard 1/2")
    assert "1000000 shards, 1 are given; missing: 2/1000000, 3/" in refused(write(tmp_path, 1, IDS, count=1_000_000))


def test_lost_and_doubled_tests_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path, 1, IDS[:2])
    for names in (IDS[3:], IDS[1:]):
        assert "which are not those of the plan" in refused(one, write(tmp_path, 2, names))


def test_files_that_are_no_results_are_refused(tmp_path: Path) -> None:
    whole = write(tmp_path, 1, IDS).read_text()
    document = json.loads(whole)
    wrong = tmp_path / "wrong.json"
    del document["selection"]["shard"]
    for text, message in (
        (whole[:-99], "wrong.json: not JSON; make it with: matrix run --results FILE"),
        ("[" * 100_000, "wrong.json: not JSON"),
        (
            whole.replace("results/v1", "results/v9"),
            "wrong.json: schema: mlir-matrix/results/v9; expected mlir-matrix/results/v1; upgrade",
        ),
        (whole.replace('"pass"', '"\\u001b[31m"', 1), "outcome: \\x1b[31m: Input should be"),
        (json.dumps(document), "not the results of a shard; make them with: matrix run --shard I/N --results FILE"),
    ):
        wrong.write_text(text)
        found = refused(wrong)
        assert message in found
        assert found.isprintable()
    assert "gone.json: cannot be read: No such file" in refused(tmp_path / "gone.json")


def test_causes_of_all_shards_are_one(tmp_path: Path) -> None:
    """What changed is what any shard knows."""
    changed: ChangedSince = {
        "run": "1", "ended": "2026-01-31T12:00:00.000Z", "dirty": False, "files": ["recipes/steps/lower/step.yaml"],
        "other_files": 0, "pins": {}, "environments": [],
    }  # fmt: skip
    files = {}
    for index, names in ((1, IDS[:2]), (2, IDS[2:])):
        file = write(tmp_path, index, names)
        document = read_results(file)
        failing = [replace(result(name, "lower-failed"), quarantine=None, reason="lower: odd") for name in names]
        document["tests"] = [each.to_json() for each in failing]
        causes = causes_of(failing)
        document["causes"] = named_by_changes(failing, causes, {causes[0]["key"]: changed})
        files[file] = document
    run, _, _ = merge(files)
    (cause,) = run.causes
    assert (cause["tests"], cause["name"], cause["changed"]) == (IDS, "lower", changed)
