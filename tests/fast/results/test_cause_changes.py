"""What changed since tests passed names their cause, and joins those of one file."""

from __future__ import annotations

from typing import Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.results.cause_changes import named_by_changes
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.documents import ChangedSince
from mlir_matrix.results.results import TestResult


def wrong(workload: str, framework: str = "jax", **more: Any) -> TestResult:
    names = {"framework": framework, "pipeline": "p", "target": "t", "workload": workload}
    fields = {"outcome": Outcome.MISMATCH, "stage": "judge", "expected": False, "reason": "y: wrong", **more}
    return TestResult(id=f"{framework}/p/t/{workload}", **names, **fields)


def changed(*files: str, **more: Any) -> ChangedSince:
    found: Any = {
        "run": "1", "ended": "2026-01-31T12:00:00.000Z", "dirty": False, "files": list(files), "other_files": 0, "pins": {},
        "environments": [],
    }  # fmt: skip
    return found | more


RESULTS = [wrong("a"), wrong("b", "onnx")]


def named(*changes: ChangedSince) -> list[Any]:
    causes = causes_of(RESULTS)
    by_key = {
        cause["key"]: each
        for cause, each in zip(sorted(causes, key=lambda cause: cause["name"]), changes, strict=False)
    }
    return named_by_changes(RESULTS, causes, by_key)


def test_causes_of_one_changed_file_are_one() -> None:
    (cause,) = named(*[changed("golden/tolerances.yaml")] * 2)
    assert cause["file"] == "golden/tolerances.yaml"
    assert cause["title"].startswith("golden/tolerances.yaml changed: ")
    assert len(cause["tests"]) == 2
    assert cause["example"] == cause["tests"][0]
    assert cause["globs"] == ["jax/p/t/a", "onnx/p/t/b"]


def test_two_changed_files_are_two_causes() -> None:
    files = {cause["file"] for cause in named(changed("golden/a/tolerances.yaml"), changed("golden/b/y.npy"))}
    assert files == {"golden/a/tolerances.yaml", "golden/b/y.npy"}


def test_causes_of_a_changed_release_are_not_joined() -> None:
    causes = named(*[changed("toolchains/known-good.yaml", pins={"llvm": ["23", "24"]}, environments=["mlir"])] * 2)
    assert len(causes) == 2
    assert all(cause["title"].startswith("llvm 23 → 24 changed: ") for cause in causes)


def test_nothing_is_named_if_other_files_may_have_changed() -> None:
    causes = named(changed("golden/a/y.npy", unknown=["/catalog"]))
    assert "golden/a/y.npy" not in [cause.get("file") for cause in causes]
    assert not any(cause["title"].startswith("golden/a/y.npy") for cause in causes)


def test_nothing_is_named_if_several_things_changed() -> None:
    first, second = sorted(
        named(changed("matrix/frameworks/jax/importer.py", "golden/a/y.npy"), changed("x.yaml", version=["1", "2"])),
        key=lambda cause: str(cause["name"]),
    )
    assert (first["title"], second["title"]) == ("a: y: wrong", "b: y: wrong")
    assert first["file"] == "matrix/workloads/a/workload.yaml"
    assert first["changed"]["files"] == ["matrix/frameworks/jax/importer.py", "golden/a/y.npy"]


def test_the_file_of_the_suspect_is_not_named_twice() -> None:
    first, second = sorted(named(changed("matrix/workloads/a/reference.py")), key=lambda cause: str(cause["name"]))
    assert (first["title"], first["file"]) == ("a: y: wrong", "matrix/workloads/a/reference.py")
    assert "changed" not in second


def test_a_failure_of_the_infrastructure_joins_no_cause() -> None:
    results = [wrong("a"), wrong("b", outcome=Outcome.INFRA_ERROR, stage="run", reason="disk full")]
    causes = causes_of(results)
    found = named_by_changes(results, causes, {cause["key"]: changed("golden/tolerances.yaml") for cause in causes})
    assert sorted(cause["kind"] for cause in found) == ["infrastructure", "workload"]
