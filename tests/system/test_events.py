"""Results that programs live on: events while a run goes on, the document at its end, and folders that runs do not share."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mlir_matrix.schema.export import adapter
from support.downstream import Downstream
from support.workspace import REPOSITORY, Workspace, wait_until

#: IR tests need neither a framework nor the C library.
GOOD = "mlir/{linalg-fuse,linalg-to-loops}/ir/*"
WRONG = "mlir/linalg-loops/x86_64/wrong"
LONG = "mlir/linalg-loops/x86_64/long"
LINE = Draft202012Validator(json.loads((REPOSITORY / "docs/schemas/events.json").read_text()))


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A catalog with two programs that are no MLIR."""
    made = Downstream(tmp_path / "catalog")
    made.workload("wrong", linalg="func.func @main() { oops }\n")
    made.workload("long", linalg=f'func.func @main() {{ "arith.addi"() {{a = "{"x" * 5000}"}} : () -> i32 }}\n')
    return made.root


def parsed(text: bytes) -> list[Any]:
    """Read lines: all are whole, short, and as the schema says."""
    assert not text or text.endswith(b"\n")
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        LINE.validate(line)
    assert max(map(len, text.splitlines(keepends=True)), default=0) <= 4_000
    return lines


def test_a_run_from_the_plan_to_the_end(fresh: Callable[[str], Workspace], catalog: Path, tmp_path: Path) -> None:
    workspace, events, results = fresh("home"), tmp_path / "events", tmp_path / "results.json"
    tests = (GOOD, WRONG, LONG, "mlir/{linalg-loops,tosa-loops}/x86_64/{wrong,long}")
    words = ("run", *tests, "--catalog", catalog, "--events", events, "--results", results, "--quiet")
    done = workspace(*words)
    assert done.code == 1, done.stderr
    assert "2 not as expected" in done.stdout
    lines, document = parsed(events.read_bytes()), json.loads(results.read_text())
    adapter("results").validate_python(document)

    assert [line["event"] for line in lines[:: len(lines) - 1]] == ["planned", "ended"]
    assert (lines[0]["tests"], lines[0]["unsupported"]) == (len(document["tests"]), 2)
    assert lines[-1]["summary"] == document["summary"]
    assert {line["action"] for line in lines if line["event"] == "started"} == set(document["executed_actions"])
    for cell, tests in {"IR tests of steps": 3, "mlir/linalg-loops/x86_64": 2}.items():
        marks = [(line["event"], line.get("state")) for line in lines if line.get("cell") == cell]
        assert marks == [("cell", "started"), *[("finished", None)] * tests, ("cell", "finished")]
    assert len([line for line in lines if line["event"] == "cell"]) == 4, "nothing runs in the third"
    finished = {line["test"]["id"]: line for line in lines if line["event"] == "finished"}
    entries = {entry["id"]: entry for entry in document["tests"]}
    assert finished.keys() == entries.keys()
    assert len(finished) == sum(line["event"] == "finished" for line in lines)
    whole = {
        name: json.loads(Path(line["file"]).read_text()) if "file" in line else line for name, line in finished.items()
    }
    assert {name: line["test"] for name, line in whole.items()} == entries
    assert "file" in finished[LONG]

    run = document["run"]
    assert lines[0]["run"] == {key: value for key, value in run.items() if key != "ended"}
    assert [each["folder"] for each in run["catalogs"]] == [str(REPOSITORY), str(catalog)]
    assert "commit" not in run["catalogs"][1]
    assert run["started"] < lines[0]["time"] < run["ended"]
    entry = entries[WRONG]
    assert entry["step"] == {"name": "import/mlir/wrong", "action": entry["step"]["action"]}
    assert entry["step"]["action"] in document["executed_actions"]
    assert entry["repeat"] == f"tools/matrix run --catalog {catalog} {WRONG}"
    assert json.loads(Path(entry["kept"], "result.json").read_text()) == entry

    again = json.loads(workspace("run", WRONG, "--catalog", catalog, "--format", "json", "--quiet").stdout)
    assert again["tests"][0]["kept"] != entry["kept"], "two runs never share a folder"
    assert Path(entry["kept"], "result.json").exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_ended(fresh: Callable[[str], Workspace], tmp_path: Path, how: signal.Signals) -> None:
    """By SIGKILL: the file has the events up to then, all of them whole. By SIGTERM: results and the end are written."""
    workspace, events, results = fresh("home"), tmp_path / "events", tmp_path / "results.json"
    words = ("run", "mlir/*/ir/*", "--events", events, "--results", results, "--quiet", "--jobs", "1")
    with workspace.start(*words) as process:
        assert wait_until(lambda: events.exists() and events.read_bytes().count(b'"finished"') >= 3)
        assert process.poll() is None, "the run was over before it could be ended"
        process.send_signal(how)
        process.communicate(timeout=120)
    lines = parsed(events.read_bytes())
    ran = [line["test"]["id"] for line in lines if line["event"] == "finished" and line["test"]["outcome"] == "pass"]
    assert 3 <= len(ran) < lines[0]["tests"]
    if how == signal.SIGKILL:
        assert process.returncode == -how
        assert lines[-1]["event"] != "ended"
        assert not results.exists()
        return
    assert process.returncode == 128 + how
    document = json.loads(results.read_text())
    assert (lines[-1]["event"], lines[-1]["interrupted"], document["interrupted"]) == ("ended", True, True)
    found = {line["test"]["id"]: line["test"] for line in lines if line["event"] == "finished"}
    assert [found[entry["id"]] for entry in document["tests"]] == document["tests"]


def test_events_on_stdout_have_it_alone(workspace: Workspace, catalog: Path) -> None:
    done = workspace("run", GOOD, WRONG, "--catalog", catalog, "--events", "-")
    assert done.code == 1
    assert parsed(done.stdout.encode())[-1]["summary"]["by_outcome"]["import-failed"] == 1
    assert "1 not as expected" in done.stderr
    assert f"repeat: tools/matrix run --catalog {catalog} {WRONG}" in done.stderr
    both = workspace("run", GOOD, "--events", "-", "--format", "json")
    assert (both.code, both.stdout) == (2, "")
    assert "--results FILE" in both.stderr


def test_a_reader_that_closes_the_pipe_costs_no_verdict(workspace: Workspace, catalog: Path, tmp_path: Path) -> None:
    words = workspace.command(
        "run", GOOD, WRONG, "--catalog", catalog, "--events", "-", "--results", tmp_path / "r.json", "-q"
    )
    script = shlex.join(words) + " | head -n 1; exit ${PIPESTATUS[0]}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=REPOSITORY, env={**os.environ, **workspace.env}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert [line["event"] for line in parsed(done.stdout.encode())] == ["planned"]
    assert done.stderr.endswith("actions run\n"), "the table, and no complaint"
    assert json.loads((tmp_path / "r.json").read_text())["summary"]["by_outcome"]["import-failed"] == 1


@pytest.mark.parametrize("wrong", [False, True])
def test_a_full_disk_costs_no_verdict(workspace: Workspace, catalog: Path, tmp_path: Path, wrong: bool) -> None:
    words = ("--events", "/dev/full", "--results", tmp_path / "r.json", "--quiet")
    done = workspace("run", GOOD, *([WRONG, "--catalog", catalog] if wrong else []), *words)
    assert done.code == (1 if wrong else 3)
    assert done.stderr == (
        "matrix: --events /dev/full: No space left on device; it has 0 events, and the later ones are missing\n"
    )
    assert "all as expected" in done.stdout or wrong
    assert json.loads((tmp_path / "r.json").read_text())["summary"]["total"] >= 3


def test_kept_folders_have_the_pins_in_their_names(workspace: Workspace, catalog: Path) -> None:
    done = workspace("run", WRONG, "--catalog", catalog, "--pin", "llvm=19", "--format", "json", "--quiet")
    (entry,) = done.document["tests"]
    run = Path(entry["kept"].removesuffix(f"/{WRONG}"))
    assert (run.parent, run.name.partition("@")[2]) == (workspace.home / "state" / "failures", "llvm=19.1.7")
