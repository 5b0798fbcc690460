"""The suite smoke, as ``matrix run`` runs it where nothing else is said."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from support.workspace import REPOSITORY, Report, Workspace, wait_until

FRAMEWORKS = ("pytorch", "jax", "onnx", "mlir")
PIPELINES = ("linalg-loops", "linalg-vectorized", "linalg-named", "tosa-loops", "stablehlo-loops")
WORKLOADS = sorted(
    path.parent.name
    for path in REPOSITORY.glob("matrix/workloads/*/workload.yaml")
    if not path.parent.name.startswith("frontier_")
)


def passed(report: Report) -> list[Any]:
    """The tests that executed code and found it right."""
    return [test for test in report.tests.values() if test["outcome"] == "pass" and test["target"] != "ir"]


def test_everything_is_as_expected(smoke: Report) -> None:
    assert smoke.surprises() == set()
    assert smoke.document["summary"]["total"] == len(smoke.tests) == len(smoke.document["tests"])
    assert smoke.document["summary"]["by_outcome"] == dict(Counter(smoke.outcomes.values()))


def test_passes_over_frameworks_and_pipelines(smoke: Report) -> None:
    assert len(passed(smoke)) >= 120
    by_framework = Counter(test["framework"] for test in passed(smoke))
    by_pipeline = Counter(test["pipeline"] for test in passed(smoke))
    assert set(by_framework) == set(FRAMEWORKS)
    assert set(by_pipeline) == set(PIPELINES)
    assert min(by_framework.values()) >= 20
    assert min(by_pipeline.values()) >= 20


def test_every_workload_passes_in_pytorch(smoke: Report) -> None:
    in_pytorch = {name for name in WORKLOADS if (REPOSITORY / "matrix" / "workloads" / name / "pytorch.py").exists()}
    assert len(in_pytorch) >= 22
    assert {test["workload"] for test in passed(smoke) if test["framework"] == "pytorch"} == in_pytorch


def test_a_pass_is_worth_something(smoke: Report) -> None:
    for test in passed(smoke):
        assert test["metrics"]["elements"] > 0, test["id"]
        assert test["metrics"]["wrong"] == 0, test["id"]
        assert test["stage"] == "judge"
        assert test["pins"]["llvm"]


def test_what_is_not_run_has_a_reason(smoke: Report) -> None:
    for test in smoke.tests.values():
        if test["outcome"] == "unsupported":
            assert test["reason"]
            assert test["stage"] == ""
            assert not test["cached"]


def test_again_everything_is_cached(smoke: Report, warm: Workspace) -> None:
    again = warm.run()
    assert again.outcomes == smoke.outcomes
    assert again.executed == 0
    ran = [test for test in again.tests.values() if test["outcome"] != "unsupported"]
    assert all(test["cached"] for test in ran)
    assert again.document["summary"]["cached"] == len(ran)


def test_again_no_framework_is_needed(smoke: Report, warm: Workspace, tmp_path: Path) -> None:
    """With the action cache alone, no package installed and none to be had, there is nothing left to import."""
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_NO_INDEX": "1"}
    bare = Workspace(tmp_path / "home", cache=warm.actions, more=nowhere)
    again = bare.run()
    assert again.outcomes == smoke.outcomes
    assert again.executed == 0
    assert not (bare.home / "packages").exists()


@pytest.mark.parametrize(("name", "arguments"), [("results", ("run",)), ("plan", ("plan",))])
def test_documents_have_their_schema(warm: Workspace, name: str, arguments: tuple[str, ...]) -> None:
    schema = warm("schema", name).document
    Draft202012Validator.check_schema(schema)
    document = warm(*arguments, "--format", "json").document
    problems = [
        f"{error.json_path}: {error.message[:300]}" for error in Draft202012Validator(schema).iter_errors(document)
    ]
    assert problems == []
    document["tests"][0]["outcome"] = "maybe"
    assert not Draft202012Validator(schema).is_valid(document)


def test_the_plan_agrees_with_the_results(smoke: Report, warm: Workspace) -> None:
    plan = warm.plan()
    assert {test["id"] for test in plan["tests"] if test["selected"] or "outcome" in test} == set(smoke.tests)
    seen: set[str] = set()
    for action in plan["actions"]:
        assert {ref["action"] for ref in action["inputs"].values() if "action" in ref} <= seen
        seen.add(action["id"])
    assert str(REPOSITORY) not in str(plan["actions"])


def test_kept_results_are_those_of_the_cache(warm: Workspace, copied: Workspace) -> None:
    """Byte for byte, in every form, until anything changes; then the cache is asked again."""
    workspace = Workspace(copied.home, root=copied.root)
    kept, tests = (
        workspace.actions / "unchanged",
        ("mlir/{linalg-loops,tosa-loops}/x86_64/m*", "pytorch/linalg-loops/{x86_64,native-aarch64}/mlp"),
    )
    report, known = copied.root.parent / "junit.xml", set(kept.glob("*"))
    events = report.with_name("events")

    def told() -> list[object]:
        table = workspace("run", *tests, "--junit", report, "--events", events)
        document = workspace("run", *tests, "--format", "json").document
        # When actions and cells start differs between runs.
        timed = ("started", "cell")
        lines = [line for line in map(json.loads, events.read_text().splitlines()) if line["event"] not in timed]
        assert [line["event"] for line in lines] == ["planned", *["finished"] * len(document["tests"]), "ended"]
        found = {line["test"]["id"]: line["test"] for line in lines[1:-1]}
        assert [found[test["id"]] for test in document["tests"]] == document["tests"]
        # The times and the commit.
        del document["run"]
        return [table, document, report.read_bytes()]

    workspace("run", *tests)
    before = told()
    # A file that was changed a moment ago is not trusted.
    assert wait_until(lambda: set(kept.glob("*")) - known or not told())
    assert told() == before
    suite = copied.root / "matrix" / "suites" / "smoke.yaml"
    text = suite.read_text()
    suite.write_text(text.replace("description: ", "description; ", 1))
    assert workspace("run", *tests).code == 2
    suite.write_text(text)
    assert told() == before
    for file in set(kept.glob("*")) - known:
        file.write_bytes(file.read_bytes()[:-1])
    assert told() == before
