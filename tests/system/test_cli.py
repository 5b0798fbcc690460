"""The command line to the letter: formats, exit codes, and what is said to who asks for something that is not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.workspace import REPOSITORY, Report, Workspace

POSITION = re.compile(r"(?:matrix|recipes|golden|toolchains)/[\w./-]+\.yaml:\d+:\d+")
PASSES = "pytorch/linalg-vectorized/x86_64/mlp"
UNSUPPORTED = "jax/tosa-loops/x86_64/mlp"
EXPECTED = "jax/linalg-loops/x86_64/topk"
IR_TEST = "mlir/linalg-to-loops/ir/scatter"


def positions_lead_somewhere(root: Path, text: str) -> int:
    """Check that every FILE:LINE:COLUMN in a text is a place in a file; returns how many there are."""
    found = set(POSITION.findall(text))
    for position in found:
        file, line, column = position.rsplit(":", 2)
        lines = (root / file).read_text().splitlines()
        assert 1 <= int(line) <= len(lines), position
        assert 1 <= int(column) <= len(lines[int(line) - 1]) + 1, position
    return len(found)


def test_plan_forms_agree(workspace: Workspace) -> None:
    ids = workspace("plan", "--format", "ids").stdout.splitlines()
    assert len(ids) == len(set(ids)) > 400
    document = workspace("plan", "--format", "json").document
    assert [test["id"] for test in document["tests"] if test["selected"] or "outcome" in test] == ids
    table = workspace("plan")
    assert table.code == 0
    assert "jax emits stablehlo; tosa-loops takes tosa, torch or torch-onnx" in " ".join(table.stdout.split())
    for name in ("pytorch", "linalg-vectorized"):
        assert name in table.stdout


def test_plan_names_what_is_left_out(copied: Workspace) -> None:
    assert copied.root is not None
    suite = copied.root / "matrix" / "suites" / "smoke.yaml"
    text = suite.read_text()
    assert "\nexclude:\n" in text
    more = "\nexclude:\n  - tests: ['jax/**/{mlp,softmax}']\n    reason: Too long.\n"
    suite.write_text(text.replace("\nexclude:\n", more))
    left_out = [test for test in copied.plan()["tests"] if "Too long" in test["reason"]]
    assert not any(test["selected"] or "outcome" in test for test in left_out)
    assert {test["workload"] for test in left_out} == {"mlp", "softmax"}
    assert {test["framework"] for test in left_out} == {"jax"}
    for test in left_out:
        assert re.fullmatch(r"left out by matrix/suites/smoke\.yaml:\d+:\d+: Too long\.", test["reason"])
    assert (
        f"jax/linalg-loops/x86_64/mlp is not run: {left_out[0]['reason']}"
        in copied("run", "smoke", "jax/linalg-loops/x86_64/mlp").stderr
    )
    text = copied("explain", "jax/linalg-loops/x86_64/mlp").stdout
    assert text.startswith("jax/linalg-loops/x86_64/mlp: left out\n")
    assert "Too long." in text
    assert positions_lead_somewhere(copied.root, text) >= 4


@pytest.fixture(scope="module")
def explained(workspace: Workspace) -> Callable[[str], Any]:
    """What ``matrix explain`` says of a test, as JSON."""

    @cache
    def explain(test: str) -> Any:
        return workspace("explain", test, "--format", "json").document

    return explain


@pytest.mark.parametrize(
    ("test", "state"),
    [(PASSES, "selected"), (UNSUPPORTED, "unsupported"), (EXPECTED, "selected"), (IR_TEST, "selected")],
)
def test_explain(workspace: Workspace, explained: Callable[[str], Any], test: str, state: str) -> None:
    text = workspace("explain", test)
    assert text.code == 0
    assert text.stdout.startswith(f"{test}: {state}\n")
    assert positions_lead_somewhere(REPOSITORY, text.stdout) >= 2
    document = explained(test)
    assert document["id"] == test
    assert document["selected"] == (state == "selected")
    assert document["rules"]
    assert all(POSITION.fullmatch(rule["position"]) for rule in document["rules"])
    assert all(POSITION.fullmatch(definition["position"]) for definition in document["definitions"])
    assert positions_lead_somewhere(REPOSITORY, json.dumps(document)) >= 2


def test_explain_takes_patterns(workspace: Workspace) -> None:
    documents = workspace("explain", "{jax,mlir}/tosa-loops/x86_64/mlp", "--format", "json").document
    found = {document["id"].split("/")[0]: document["outcome"] for document in documents}
    assert found == {"jax": "unsupported", "mlir": "unsupported"}
    left_out = workspace("explain", "mlir/linalg-loops/*/dot", "--suite", "smoke").stdout
    assert left_out.startswith("mlir/linalg-loops/x86_64/dot: left out\n")


def test_explain_says_what_runs(workspace: Workspace, explained: Callable[[str], Any]) -> None:
    document = explained(PASSES)
    plan = workspace.plan(PASSES)
    assert {action["id"] for action in document["actions"]} == {action["id"] for action in plan["actions"]}
    assert {environment["name"] for environment in document["environments"]} >= {
        "torch",
        "mlir",
        "zig",
        "numpy",
        "python",
    }
    steps = {step["step"]: step for step in document["route"]["steps"]}
    values = {parameter["name"]: parameter for parameter in steps["linalg-tile-vectorize"]["parameters"]}
    assert values["rows"]["value"] == 8
    assert values["rows"]["position"].startswith("recipes/pipelines/linalg-vectorized.yaml:")
    winner = document["tolerances"][-1]
    assert winner["why"] == "wins"
    assert winner["layer"].startswith("golden/mlp/tolerances.yaml:")
    assert any(row["layer"].startswith("golden/tolerances.yaml:") for row in document["tolerances"])


def test_explain_shows_the_expectation(workspace: Workspace, explained: Callable[[str], Any]) -> None:
    document = explained(EXPECTED)
    assert document["expectation"]["outcome"] == "lower-failed"
    assert POSITION.fullmatch(document["expectation"]["position"])
    assert "expects lower-failed" in workspace("explain", EXPECTED).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", UNSUPPORTED), f"{UNSUPPORTED} is unsupported: jax emits stablehlo; tosa-loops takes"),
        (("run", "smok"), "there is no suite 'smok'; did you mean 'smoke'?"),
        (("run", "pytorch/linalg-lops/x86_64/mlp"), "'linalg-loops'"),
        (("run", "pytorch/*/x86_64/softmx"), "'softmax'"),
        (("run", "mlp"), "select its tests by '*/*/*/mlp'"),
        (("run", "jax/tosa-loops/**"), "no test can run: jax emits stablehlo"),
        (("run", "--environment", "mlir"), "expected NAME=OTHER"),
        (("run", "--environment", "mlir=mlr"), "there is no environment 'mlr'"),
        (("run", "--catalog", "/nowhere/at/all"), "/nowhere/at/all: there is no such folder"),
        (("run", "--jobs", "0"), "--jobs"),
        (("run", "a b/c/d/e"), "a b"),
        (("run", "../../etc/passwd"), ".."),
        (("explain", "pytorch/linalg-loops/x86_64/mpl"), "'mlp'"),
        (("explain", "mlp"), "framework/pipeline/target/workload"),
        (("plan", "nothing/**"), "matches no test"),
        (("schema", "workloads"), "did you mean 'workload'?"),
        (("golden", "update", "mlpp"), "did you mean 'mlp'?"),
        (("rnu",), "did you mean 'run'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_not_there_is_an_error_of_usage(workspace: Workspace, arguments: tuple[str, ...], words: str) -> None:
    done = workspace(*arguments)
    assert done.code == 2, done.stderr
    assert words in done.stderr
    assert done.stdout == ""


def test_errors_go_to_stderr_also_for_json(workspace: Workspace) -> None:
    done = workspace("run", UNSUPPORTED, "--format", "json")
    assert (done.code, done.stdout) == (2, "")


def test_github_obeys_commands_again_after_an_error(workspace: Workspace) -> None:
    done = workspace("run", "jax/none/x86_64/matmul", "--format", "github")
    assert done.code == 2
    stopped, going_on = done.stdout.splitlines()
    assert going_on == f"::{stopped.removeprefix('::stop-commands::')}::"


@pytest.mark.parametrize("verb", ["plan", "explain"])
def test_an_environment_that_stands_in_shows_before_it_runs(workspace: Workspace, verb: str) -> None:
    done = workspace(verb, "mlir/linalg-loops/x86_64/mlp", "--environment", "mlir=mlir-upstream")
    assert done.code == 0, done.stderr
    assert "llvm 23.0.0+mlir-python-bindings" in done.stdout
    assert "matrix toolchain lock mlir-upstream" in done.stdout


def test_a_skipped_test_alone_is_an_error(workspace: Workspace) -> None:
    """The environment that stands in keeps to its own releases, and this repository has no lock of that one."""
    done = workspace("run", "mlir/linalg-loops/x86_64/mlp", "--environment", "mlir=mlir-upstream", "--quiet")
    assert done.code == 2
    assert "no test ran: unavailable on this machine: " in done.stderr
    assert "environment mlir-upstream (mlir-python-bindings 23.0.0 numpy" in done.stderr


@pytest.mark.parametrize("command", ["run --format json --quiet", "plan --format json", "plan --format ids"])
def test_a_reader_that_has_enough(warm: Workspace, command: str) -> None:
    words = " ".join(f"'{word}'" for word in warm.command())
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{words} {command} | head -c 10"],
        cwd=REPOSITORY, env={**os.environ, **warm.env}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert len(done.stdout) == 10
    assert done.stderr == ""
    assert done.returncode == 0


def test_no_colour_where_nobody_looks(warm: Workspace) -> None:
    for more in ({}, {"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm-256color"}):
        workspace = Workspace(warm.home, more=more)
        done = workspace("run", "smoke", "mlir/linalg-*/{x86_64,ir}/*", "jax/linalg-loops/x86_64/*")
        colours = re.findall(r"\x1b\[[\d;]*3\d", done.stdout + done.stderr)
        assert done.code == 0
        assert colours == [], more


def test_progress_goes_to_stderr(fresh: Callable[[str], Workspace]) -> None:
    """For logs: a line for each verdict that was not known before."""
    workspace = fresh("home")
    tests = "mlir/linalg-loops/x86_64/{mlp,topk,softmax}"
    done = workspace("run", tests, "--format", "json")
    assert done.document["summary"]["by_outcome"] == {"pass": 3}
    lines = [line.split()[-1] for line in done.stderr.splitlines() if re.match(r"\[[123]/3\] pass ", line)]
    assert sorted(lines) == sorted(Report(done).outcomes)
    assert workspace("run", tests, "--format", "json").stderr == ""


def test_a_suite_and_a_glob_narrow_and_lists_unite(warm: Workspace) -> None:
    both = warm.run("mlir/linalg-loops/x86_64/mlp", "mlir/linalg-named/x86_64/{mlp,topk}", "mlir/linalg-l*s/x86_64/mlp")
    assert list(both.outcomes) == [
        "mlir/linalg-loops/x86_64/mlp", "mlir/linalg-named/x86_64/mlp", "mlir/linalg-named/x86_64/topk",
    ]  # fmt: skip
    narrowed = warm.run("smoke", "jax/*/x86_64/topk")
    assert narrowed.outcomes.items() >= {EXPECTED: "lower-failed"}.items()
    assert "unsupported" in narrowed.outcomes.values(), "a glob takes along what is unsupported, with its reason"


def test_the_launcher_is_the_same(warm: Workspace, tmp_path: Path) -> None:
    """``tools/matrix`` from any folder, with the program's own environment."""
    done = subprocess.run(
        [REPOSITORY / "tools" / "matrix", "run", "--format", "json", "--quiet"],
        cwd=tmp_path, env={**os.environ, **warm.env}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: Any = json.loads(done.stdout)
    assert document["executed"] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("entry", ["mlir_matrix", "mlir_matrix/__main__.py"])
def test_python_runs_a_checkout(fresh: Callable[[str], Workspace], entry: str) -> None:
    """Without the launcher and its options; modules of ours must not stand for the standard library's."""
    workspace = fresh("home")
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "tools" / entry), "run", IR_TEST, "--quiet", "--format", "json"],
        cwd=REPOSITORY, env={**os.environ, **workspace.env}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [test["outcome"] for test in json.loads(done.stdout)["tests"]] == ["pass"]


def test_timeout_is_an_outcome_that_is_not_kept(copied: Workspace) -> None:
    """A verdict about the moment: the same test may do better the next time."""
    assert copied.root is not None
    source = copied.root / "matrix" / "workloads" / "mlp" / "jax.py"
    source.write_text("import time\n\ntime.sleep(3600)\n")
    test = "jax/linalg-loops/x86_64/mlp"
    for _ in range(2):
        done = copied("run", test, "mlir/linalg-loops/x86_64/mlp", "--timeout", "8", "--format", "json", "--quiet")
        assert done.code == 1
        tests = {entry["id"]: entry for entry in done.document["tests"]}
        assert (tests[test]["outcome"], tests[test]["stage"]) == ("timed-out", "import")
        assert tests["mlir/linalg-loops/x86_64/mlp"]["outcome"] == "pass"
        assert done.document["executed"] == 1
