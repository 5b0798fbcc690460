"""The JSON Schemas: current, complete, and in agreement with what the loader accepts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.models import base, costs, machines, project, suites, toolchains
from mlir_matrix.schema import export

REPOSITORY = Path(__file__).parents[3]
CHECKED_IN = REPOSITORY / "docs" / "schemas"


@pytest.mark.parametrize("name", export.NAMES)
def test_the_files_in_docs_are_current(name: str) -> None:
    text = (CHECKED_IN / f"{name}.json").read_text(encoding="utf-8")
    assert text == export.text(name), "run: python -m mlir_matrix.schema.export --write docs/schemas"


def test_docs_have_no_other_schemas() -> None:
    assert {path.name for path in CHECKED_IN.iterdir()} == {f"{name}.json" for name in export.NAMES}


def test_every_top_level_model_has_a_schema() -> None:
    inner = {
        "TensorInput", "Output", "Parameter", "StepUse", "SuiteBlock", "Exclusion", "Expectation", "Match", "Layer",
        "Requirement", "Conditions", "Tool", "Build", "Release", "Passed", "Property", "Scaling", "Permutation", "Batch",
        "Agreement", "SameIr", "Conflict", "Cpu", "Has", "LeaveOut", "Mode", "Quarantined", "Wants", "ExpectedTests",
        "ProjectLimits", "Operations", "Types", "CostMatch", "CostLayer", "Peaks", "CorpusData",
    }  # fmt: skip
    modules = tuple(each.__name__ for each in (base, costs, machines, project, suites, toolchains))
    models = [*base.Document.__subclasses__(), *base.Tool.__subclasses__()]
    found = {model.__name__ for model in models if model.__module__ in modules}
    assert inner < found
    assert {name.lower() for name in found - inner} == {name.replace("-", "") for name in export.FILES}
    documents = {
        "audit", "best", "bisect", "bisect-steps", "builds", "cache-gc", "calibration", "comparison", "conflicts",
        "container-images", "cost-audit", "cost-comparison", "cost-update", "costs", "doctor", "durations", "entry",
        "events", "expect", "explanation", "fetched", "fleet", "fuzz", "gc", "golden-explanation", "golden-update", "history",
        "history-diff", "history-error-growing", "history-first-bad", "history-flaky", "history-runs",
        "history-slower", "history-today", "inputs", "integration", "listing", "locked", "machine-check", "machines", "oracles",
        "plan", "probe", "reduce", "results", "roll", "support", "toolchain", "verified-containers",
        "verified-toolchain",
    }  # fmt: skip
    assert set(export.DOCUMENTS) == documents
    assert set(export.NAMES) == {*export.FILES, *documents}


def test_every_document_that_the_program_writes_has_a_schema() -> None:
    """Logs of bisections, files of the spool and data of pages are read by the version that wrote them alone."""
    sources = (REPOSITORY / "tools" / "mlir_matrix").rglob("*.py")
    tags = {
        tag for path in sources for tag in re.findall(r"mlir-matrix/([a-z-]+)/v\d", path.read_text(encoding="utf-8"))
    }
    assert tags == {*export.DOCUMENTS, "bisect-log", "history-run", "site"}
    for name in {*export.DOCUMENTS} - {"events"}:
        assert export.schema(name)["properties"]["schema"]["const"] == f"mlir-matrix/{name}/v1"


@pytest.mark.parametrize("name", export.NAMES)
def test_form(name: str) -> None:
    schema = export.schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "$id" not in schema
    # The lines of events are one of several objects.
    for each in (schema["$defs"][name] for name in ("Planned", "Ended")) if name == "events" else (schema,):
        assert each["additionalProperties"] is False
        assert each["description"]
    assert "title" not in schema
    json.dumps(schema)


@pytest.mark.parametrize("name", sorted({*export.DOCUMENTS} - {"events"}))
def test_documents_have_a_summary(name: str) -> None:
    assert "summary" in export.schema(name)["required"]


def test_comments_describe_keys() -> None:
    schema = export.schema("pipeline")
    assert schema["properties"]["steps"]["description"].startswith("The steps that all routes share.")
    assert schema["$defs"]["StepUse"]["description"] == "A step in a pipeline, with values for its parameters."
    assert set(schema["$defs"]["StepUse"]["properties"]) == {"step", "with"}
    assert export.schema("suite")["$defs"]["SuiteBlock"]["properties"]["pins"]["description"].startswith(
        "Releases by component"
    )
    release = export.schema("component")["$defs"]["Release"]
    assert release["description"] == "One version of a component, and its provider."
    assert release["properties"]["durability"]["description"].startswith("`rolling`: its source replaces it")
    assert export.schema("known-good")["$defs"].keys() == {"Passed"}
    assert "`exact`" in export.schema("workload")["$defs"]["Output"]["properties"]["compare"]["description"]


def test_comments_describe_keys_of_documents() -> None:
    schema = export.schema("results")
    assert schema["properties"]["executed_actions"]["description"] == "Their identifiers, as in the plan."
    assert schema["properties"]["schema"]["const"] == "mlir-matrix/results/v1"
    assert schema["$defs"]["Element"]["properties"]["abs"]["description"] == "Absolute error."


def test_keys_are_those_of_the_files() -> None:
    assert set(export.schema("workload")["properties"]) == {
        "description", "source", "program", "with", "dims", "sizes", "flops", "dynamic", "inputs", "outputs", "golden", "sources",
        "absent", "requires", "numerics", "environment",
    }  # fmt: skip
    assert export.schema("workload")["required"] == ["description"]


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match=r"there is no schema 'workloads'; did you mean 'workload'\?"):
        export.schema("workloads")


def test_it_runs_as_a_module_and_writes_what_is_checked_in(tmp_path: Path) -> None:
    command = [sys.executable, "-B", "-m", "mlir_matrix.schema.export", "--write", str(tmp_path / "new")]
    subprocess.run(command, cwd=REPOSITORY / "tools", timeout=120, check=True)
    assert sorted(path.stem for path in (tmp_path / "new").iterdir()) == sorted(export.NAMES)
    for name in export.NAMES:
        assert (tmp_path / "new" / f"{name}.json").read_bytes() == (CHECKED_IN / f"{name}.json").read_bytes()


def _yaml_files() -> list[Any]:
    folders = {
        "kind": "recipes/kinds/*.yaml", "step": "recipes/steps/*/step.yaml", "pipeline": "recipes/pipelines/*.yaml",
        "framework": "matrix/frameworks/*/framework.yaml", "workload": "matrix/workloads/*/workload.yaml",
        "target": "matrix/targets/*/target.yaml", "suite": "matrix/suites/*.yaml",
        "expectations": "matrix/expectations/*.yaml", "tolerances": "golden/**/tolerances.yaml",
        "cost-goldens": "golden/**/costs.yaml",
        "environment": "toolchains/environments/*.yaml", "component": "toolchains/components/*.yaml",
        "known-good": "toolchains/known-good.yaml",
    }  # fmt: skip
    return [
        pytest.param(name, path, id=str(path.relative_to(REPOSITORY)))
        for name, pattern in folders.items()
        for path in sorted(REPOSITORY.glob(pattern))
    ]


@pytest.mark.parametrize(("name", "path"), _yaml_files())
def test_each_file_tells_editors_its_schema(name: str, path: Path) -> None:
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    up = "../" * (len(path.relative_to(REPOSITORY).parts) - 1)
    assert first == f"# yaml-language-server: $schema={up}docs/schemas/{name}.json"
