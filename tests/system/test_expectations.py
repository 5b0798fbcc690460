"""Expectations are strict: what is expected to fail is an ordinary result, and a surprise either way fails the run."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from support.workspace import Report, Workspace

FAILS = "jax/linalg-loops/x86_64/topk"
SUITE = """\
description: Expectations.
include: ["mlir/linalg-loops/x86_64/{mlp,topk,softmax}", "jax/linalg-loops/x86_64/topk"]
"""


@pytest.fixture
def suite(copied: Workspace) -> Callable[[str], Workspace]:
    """Write the suite ``wishes`` with these expectations."""

    def write(expectations: str) -> Workspace:
        assert copied.root is not None
        (copied.root / "matrix" / "suites" / "wishes.yaml").write_text(SUITE + expectations)
        return copied

    return write


def expect(tests: str, outcome: str, reason: str = "Somebody thinks so.") -> str:
    return f"expect:\n  - tests: ['{tests}']\n    outcome: {outcome}\n    reason: {reason}\n    link: https://example.org/7\n"


def test_an_expected_failure_is_cached_like_any_result(fresh: Callable[[str], Workspace]) -> None:
    workspace = fresh("home")
    first = workspace.run(FAILS)
    test = first.tests[FAILS]
    assert (test["outcome"], test["stage"], test["expected"]) == ("lower-failed", "lower", True)
    assert test["expectation"]["outcome"] == "lower-failed"
    assert test["expectation"]["position"].startswith("matrix/suites/smoke.yaml:")
    assert "stablehlo.sort" in test["diagnostics"]
    sort = "'stablehlo.sort' (dimension = 1, is_stable = true) on tensor<13x101xf32>, tensor<13x101xi32>, from 'chlo.top_k'"
    assert test["reason"] == f"stablehlo-to-linalg: no pattern converts {sort}"
    assert first.executed
    again = workspace.run(FAILS)
    assert again.executed == 0
    assert again.tests[FAILS]["cached"]
    assert {key: value for key, value in again.tests[FAILS].items() if key != "cached"} == {
        key: value for key, value in test.items() if key != "cached"
    }


def test_an_unexpected_failure_fails_the_run(suite: Callable[[str], Workspace]) -> None:
    report = suite("").run("wishes", code=1)
    assert report.surprises() == {FAILS}
    assert "expectation" not in report.tests[FAILS]


def test_the_right_expectation_mends_it(suite: Callable[[str], Workspace]) -> None:
    report = suite(expect(FAILS, "lower-failed")).run("wishes")
    assert report.surprises() == set()
    assert report.tests[FAILS]["expectation"] == {
        "outcome": "lower-failed", "reason": "Somebody thinks so.", "position": "matrix/suites/wishes.yaml:4:13",
        "link": "https://example.org/7",
    }  # fmt: skip


def test_another_failure_than_the_expected_one_fails_the_run(suite: Callable[[str], Workspace]) -> None:
    workspace = suite(expect(FAILS, "mismatch"))
    done = workspace("run", "wishes", "--quiet")
    assert done.code == 1
    assert f"lower-failed {FAILS}" in done.stdout
    assert "expected mismatch (matrix/suites/wishes.yaml:4:13): Somebody thinks so." in done.stdout


def test_a_pass_that_is_not_expected_fails_the_run(suite: Callable[[str], Workspace]) -> None:
    workspace = suite(expect("*/*/*/{softmax,topk}", "lower-failed"))
    done = workspace("run", "wishes", "--quiet")
    assert done.code == 1
    assert "pass mlir/linalg-loops/x86_64/softmax" in done.stdout
    assert "expected lower-failed (matrix/suites/wishes.yaml:4:13): Somebody thinks so." in done.stdout
    report = workspace.run("wishes", code=1)
    assert report.surprises() == {"mlir/linalg-loops/x86_64/softmax", "mlir/linalg-loops/x86_64/topk"}
    test = report.tests["mlir/linalg-loops/x86_64/softmax"]
    assert (test["outcome"], test["expectation"]["outcome"]) == ("pass", "lower-failed")


def test_junit_counts(suite: Callable[[str], Workspace]) -> None:
    """An unexpected pass and an unexpected failure are failures; what is expected to fail is skipped."""
    workspace = suite(
        expect("mlir/*/*/softmax", "mismatch") + "  - {tests: ['mlir/*/*/topk'], outcome: crashed, reason: No.}\n"
    )
    path = workspace.home / "junit.xml"
    assert workspace("run", "wishes", "--junit", path, "--quiet").code == 1
    root = ElementTree.parse(path).getroot()
    suites = {element.get("name"): element for element in root.iter("testsuite")}
    assert set(suites) == {"mlir/linalg-loops/x86_64", "jax/linalg-loops/x86_64"}
    mlir, jax = suites["mlir/linalg-loops/x86_64"], suites["jax/linalg-loops/x86_64"]
    counts = ("tests", "failures", "errors", "skipped")
    assert [mlir.get(name) for name in counts] == ["3", "2", "0", "0"]
    assert [jax.get(name) for name in counts] == ["1", "1", "0", "0"]
    failures = {case.get("name"): case.find("failure") for case in mlir.iter("testcase")}
    assert failures["mlp"] is None
    for name, wanted in (("softmax", "mismatch"), ("topk", "crashed")):
        failure = failures[name]
        assert failure is not None
        assert failure.get("message", "").startswith(f"expected {wanted}, got pass")
    (case,) = jax.iter("testcase")
    properties, failure = case
    assert [each.get("name") for each in properties] == ["cause", "cause-key", "cause-file"]
    assert failure.get("type") == "lower-failed"
    assert "stablehlo.sort" in (failure.text or "")


def test_junit_of_smoke(smoke: Report, warm: Workspace) -> None:
    path = warm.home / "smoke.xml"
    assert warm("run", "--junit", path, "--quiet").code == 0
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    assert len(cases) == len(smoke.tests)
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    quiet = [case for case in cases if len(case) == 0]
    assert len(quiet) == list(smoke.outcomes.values()).count("pass")
    assert all(child.tag == "skipped" and child.get("message") for case in cases for child in case)


def test_an_expected_mismatch_hides_no_missing_golden(suite: Callable[[str], Workspace]) -> None:
    """Nothing was compared: that is nobody's expected outcome."""
    workspace = suite(
        expect("mlir/linalg-loops/x86_64/softmax", "mismatch")
        + "  - tests: ['jax/**']\n    outcome: lower-failed\n    reason: x\n"
    )
    assert workspace.root is not None
    (workspace.root / "golden" / "softmax" / "y.npy").unlink()
    report = workspace.run("wishes", code=2)
    assert report.surprises() == {"mlir/linalg-loops/x86_64/softmax"}
    assert "the golden is missing" in report.tests["mlir/linalg-loops/x86_64/softmax"]["reason"]


def test_fail_fast_stops(suite: Callable[[str], Workspace], fresh: Callable[[str], Workspace]) -> None:
    wrong = suite(expect("mlir/**", "mismatch"))
    assert len(wrong.run("wishes", code=1).surprises()) == 4
    workspace = Workspace(fresh("home").home, root=wrong.root)
    done = workspace("run", "wishes", "--fail-fast", "--jobs", "1", "--format", "json", "--quiet")
    assert done.code == 1
    document = done.document
    assert sum(not test["expected"] for test in document["tests"]) == 1
    assert len(document["tests"]) == 4, "no test is left out"
    (surprise,) = [test["id"] for test in document["tests"] if not test["expected"]]
    left_out = [test for test in document["tests"] if test["id"] != surprise]
    assert {test["outcome"] for test in left_out} == {"skipped"}
    assert {test["reason"] for test in left_out} == {f"--fail-fast ended the run at {surprise}"}
    rest = workspace.run("wishes", code=1)
    assert rest.executed > 0, "what was not begun is left for the next run"
    assert len(rest.tests) == 4
