"""``matrix fuzz``: a compiler that makes a mistake is found out, and one that makes none is not."""

from __future__ import annotations

import json
import shlex
import signal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.events import ignore
from mlir_matrix.environments.session import Session
from mlir_matrix.fuzz import resized_workloads, routes, session
from mlir_matrix.fuzz.compose import Composer, Coverage
from mlir_matrix.fuzz.findings import Findings
from mlir_matrix.fuzz.known import read_known
from mlir_matrix.fuzz.profiles import PROFILES
from mlir_matrix.fuzz.programs import write_programs
from mlir_matrix.fuzz.values import merged
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import session_of
from support import planted
from support.downstream import Downstream
from support.workspace import REPOSITORY, Finished, Workspace

#: A step whose output depends on the clock, in a comment.
CLOCK = """\
import time
from pathlib import Path

from mlir_matrix.actions.api import Action, read_text


def run(action: Action) -> None:
    text = read_text(action.inputs["ir"], "the IR")
    Path(action.outputs["out"]).write_text(f"{text}// {time.time_ns()}\\n")
"""
STEP = "description: Notes the time.\nenvironment: mlir\naccepts: [llvm]\ngives: llvm\n"
#: What is found in workloads and corpora is confirmed, and hardly reduced: that is the same for all findings.
REDUCE_S = 1
WRONG, RIGHT = "mlir/planted-swap-operands/x86_64", f"mlir/{planted.GOOD}/x86_64"


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with compilers that make mistakes."""
    folder = tmp_path_factory.mktemp("bad")
    planted.write_compilers(folder)
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where findings are written."""
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def interrupted(workspace: Workspace, bad: Path, out: Path) -> tuple[str, Finished]:
    """A session with one compiler that is wrong and one that is right, interrupted when it has told of a finding."""
    words = (WRONG, RIGHT, "--catalog", bad, "--out", out, "--budget", "1h", "--format", "json", "--quiet")
    with workspace.start("fuzz", *words) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    return told, Finished(process.returncode, stdout, stderr)


@pytest.fixture(scope="module")
def found(interrupted: tuple[str, Finished]) -> Any:
    """The document of the session."""
    return interrupted[1].document


def test_a_mistake_is_found_reduced_and_blamed(found: Any) -> None:
    (finding,) = found["findings"]
    assert finding["id"].startswith(f"{WRONG}/composed-r0b")
    assert (finding["outcome"], finding["step"]) == ("mismatch", "planted-swap-operands")
    assert finding["confirmed"]
    assert finding["operations"] <= 5
    # Of the releases that are installed, one has the mistake.
    assert list(finding["releases"].values()).count("mismatch") == 1
    assert set(finding["releases"].values()) <= {"pass", "mismatch"}
    report = Path(finding["folder"], "reduced/report.md").read_text()
    assert "planted-swap-operands" in report


def test_the_other_compiler_ran_as_often(found: Any) -> None:
    summary = found["summary"]
    assert summary["routes"] == sorted([RIGHT, WRONG])
    assert summary["judged"] == 2 * summary["programs"]
    assert sum(found["pairs"].values()) >= 2 * summary["programs"]


def test_an_interrupted_session_prints_what_it_has_found(interrupted: tuple[str, Finished], found: Any) -> None:
    told, done = interrupted
    assert done.code == 128 + signal.SIGINT, done.stderr
    assert found["summary"]["interrupted"]
    (finding,) = found["findings"]
    assert told == f"{finding['key']}: mismatch: {finding['id']}\n"


def test_a_known_finding_is_not_new(workspace: Workspace, bad: Path, out: Path, found: Any, tmp_path: Path) -> None:
    (finding,) = found["findings"]
    known = tmp_path / "known.yaml"
    entry = {"key": finding["key"], "link": "https://example.com/1", "reason": "Operands are swapped."}
    known.write_text(json.dumps({"findings": [entry]}))
    words = ("--catalog", bad, "--out", out, "--budget", "1s", "--known", known, "--seed", "1", "--quiet")
    done = workspace("fuzz", WRONG, *words)
    assert done.code == 0, done.stdout + done.stderr
    assert "known:    https://example.com/1" in done.stdout
    assert "0 new" in done.stdout


def test_a_seed_finds_nothing_new_on_our_own_routes(workspace: Workspace, tmp_path: Path) -> None:
    done = workspace("fuzz", "--out", tmp_path, "--budget", "1s", "--format", "json", "--quiet")
    assert done.code == 0, done.stdout + done.stderr
    summary = done.document["summary"]
    assert len(summary["routes"]) >= 10
    # How many rounds there are depends on the machine, and some have programs for few routes.
    assert summary["judged"] >= 4 * summary["programs"]
    assert summary["weak"] <= 0.1 * summary["outputs"]


def test_a_compiler_that_gives_other_code_each_time(workspace: Workspace, tmp_path: Path) -> None:
    catalog = Downstream(tmp_path / "acme")
    catalog.write("recipes/steps/clock/step.yaml", STEP)
    catalog.write("recipes/steps/clock/tool.py", CLOCK)
    pipeline = (REPOSITORY / "recipes/pipelines/linalg-loops.yaml").read_text()
    catalog.write("recipes/pipelines/clock.yaml", pipeline.replace("- loops-to-llvm", "- loops-to-llvm\n  - clock"))
    words = ("mlir/clock/x86_64", "--catalog", catalog.root, "--out", tmp_path / "out", "--budget", "1s", "--quiet")
    done = workspace("fuzz", *words, "--format", "json")
    assert done.code == 1, done.stderr
    (finding,) = done.document["findings"]
    assert (finding["outcome"], finding["step"]) == ("lower-failed", "clock")
    assert finding["reason"] == "clock: gives other bytes for the same input"
    # The command that it names compiles it.
    command = shlex.split(finding["trouble"].rpartition(" once more: matrix ")[2])
    report = workspace(*command, "--format", "json", "--quiet").document
    assert "clock" in " ".join(report["executed_actions"])


def test_sizes_and_conditions_that_are_known_only_at_run_time(workspace: Workspace, tmp_path: Path) -> None:
    profile = next(profile for profile in PROFILES if profile.dynamic)
    programs = islice(Composer("1", profile, Coverage()).programs((2, 6)), 12)
    write_programs(tmp_path, {"composed-12": merged(programs)}, profile.sources)
    test = "mlir/linalg-loops/x86_64/composed-12"
    (result,) = workspace("run", test, "--catalog", tmp_path, "--format", "json", "--quiet").document["tests"]
    # Some of the outputs of any programs would pass without them.
    assert result["outcome"] == "pass" or result["reason"].startswith("weak: "), result["reason"]


#: A step that is wrong for programs with one size.
ODD_STEP = """\
description: Subtracts instead of adding, in programs with 17 of something.
environment: mlir
accepts: [loops]
gives: loops
"""
ODD_TOOL = """\
from pathlib import Path

from mlir_matrix.actions.api import Action, read_text


def run(action: Action) -> None:
    text = read_text(action.inputs["ir"], "the IR")
    if "17x" in text:
        text = text.replace("arith.addf", "arith.subf")
    Path(action.outputs["out"]).write_text(text)
"""


def test_workloads_of_the_catalog_in_other_sizes(
    current: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ROUNDS", [session.WORKLOADS])
    monkeypatch.setattr(resized_workloads, "SIZES", [17])
    monkeypatch.setattr(resized_workloads, "_is_resizable", lambda entry: entry.name in ("matmul", "transpose"))
    catalog = Downstream(tmp_path / "catalog")
    catalog.write("recipes/steps/odd/step.yaml", ODD_STEP)
    catalog.write("recipes/steps/odd/tool.py", ODD_TOOL)
    loops = (REPOSITORY / "recipes/pipelines/linalg-loops.yaml").read_text()
    catalog.write("recipes/pipelines/odd.yaml", loops.replace("- linalg-to-loops\n", "- linalg-to-loops\n  - odd\n"))
    opened = session_of([*current.catalog.roots, catalog.root], current.home)
    limits, out = Limits(jobs=2), tmp_path / "out"
    fuzzer = session.Fuzzer(opened, session.WantedRoutes(["pytorch/odd/x86_64"]), out, 0, limits, ignore)
    failures = list(fuzzer.failures(lambda: fuzzer.counts.rounds > 0))
    assert fuzzer.counts.judged == 2
    (failure,) = failures
    assert (failure.origin, failure.result.outcome) == ("matmul", "mismatch")
    found = Findings(fuzzer, out, limits, REDUCE_S, ignore, read_known(opened, None)).add(failure)
    assert found is not None
    assert found.confirmed, found.trouble
    assert found.entry()["step"] == "odd"


#: A member of a corpus.
MODEL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return {}


def get_inputs():
    return [torch.randn(4, 5), torch.randn(4, 5)]


def get_init_inputs():
    return []
"""


def test_members_of_corpora_on_composed_routes(
    current: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first round has no programs for this route.
    monkeypatch.setattr(session, "ROUNDS", [PROFILES[-1], session.CORPORA])
    # Without other sizes, the step is wrong wherever it can be.
    monkeypatch.setattr(routes, "_with_sizes", lambda name, step, chance: {"step": name})
    catalog, wrong = Downstream(tmp_path / "catalog"), "planted-swap-operands"
    planted.write_compiler(catalog.root, "swap-operands")
    catalog.write("matrix/corpora/zoo/corpus.yaml", "description: X.\nsource: torch-module\nfolder: models\n")
    # No route takes the second.
    for name, result in {"subtracts": "x - y", "decomposes": "torch.linalg.svd(x)[1] + y[:, 0]"}.items():
        catalog.write(f"models/{name}.py", MODEL.format(result))
    opened = session_of([*current.catalog.roots, catalog.root], current.home)
    limits, out = Limits(jobs=2), tmp_path / "out"
    wanted = session.WantedRoutes(["pytorch/composed*/x86_64"], wrong)
    fuzzer = session.Fuzzer(opened, wanted, out, 0, limits, ignore)
    failures = list(fuzzer.failures(lambda: True))
    assert [failure.result.id for failure in failures] == [
        f"pytorch/composed{number}/x86_64/zoo:subtracts" for number in range(session.ROUTES)
    ]
    assert {failure.result.outcome for failure in failures} == {"mismatch"}
    found = Findings(fuzzer, out, limits, REDUCE_S, ignore, read_known(opened, None)).add(failures[0])
    assert found is not None
    assert found.confirmed, found.trouble
    assert (found.entry()["step"], found.entry()["draws"]) == (wrong, None)


def test_a_step_is_fuzzed_on_all_routes_that_have_it(workspace: Workspace, tmp_path: Path) -> None:
    words = ("mlir/*/x86_64", "linalg-raise-named", "--out", tmp_path, "--budget", "1s", "--format", "json", "--quiet")
    done = workspace("fuzz", *words)
    # How many rounds there are, and what they find, depends on the machine.
    assert done.code in (0, 1), done.stderr
    assert done.document["summary"]["routes"] == [
        f"mlir/{name}/x86_64" for name in ("composed0", "composed1", "composed2", "linalg-named")
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget", "soon"), "--budget soon: expected a time, e.g. 90s, 5m or 1h"),
        (("--known", "absent.yaml"), "absent.yaml: cannot be read"),
        (("mlir/absent/x86_64",), "matches no test"),
        (("linalg-tile-vectorise",), "there is no step 'linalg-tile-vectorise'; did you mean 'linalg-tile-vectorize'?"),
        (("bufferize", "math-expand"), "bufferize, math-expand: expected one step"),
        (
            ("onnx/onnxruntime/*", "onnxruntime"),
            "onnx/onnxruntime/*: no such route takes composed programs and has the step onnxruntime",
        ),
    ],
)
def test_bad_input(workspace: Workspace, words: tuple[str, ...], message: str) -> None:
    done = workspace("fuzz", *words, "--quiet")
    assert done.code == 2, done.stdout
    assert message in done.stderr
