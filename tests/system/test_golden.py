"""Goldens decide: one wrong sign in one of them fails its tests and no others, and says all about it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.downstream import Downstream
from support.workspace import REPOSITORY, Report, Workspace

#: Open dimensions keep StableHLO's route from lowering it, which smoke expects.
WORKLOAD = "mlp_dynamic"
ELEMENT = (7, 3)


@pytest.fixture(scope="module")
def wrong(warm: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The shared home with a catalog of which one golden is wrong. Its tests change nothing."""
    return warm.with_copy(tmp_path_factory.mktemp("wrong"))


@pytest.fixture(scope="module")
def flipped(wrong: Workspace) -> tuple[float, float]:
    """Flip the sign of one element of a golden; returns what it was and what it is now."""
    assert wrong.root is not None
    path = wrong.root / "golden" / WORKLOAD / "y.npy"
    golden = np.load(path)
    right = float(golden[ELEMENT])
    assert abs(right) > 0.01, "an element near zero would still be within its bound"
    golden[ELEMENT] = -right
    np.save(path, golden)
    return right, -right


@pytest.fixture(scope="module")
def report(wrong: Workspace, flipped: tuple[float, float]) -> Report:
    return wrong.run(code=1)


def test_exactly_its_tests_fail(report: Report, smoke: Report) -> None:
    mine = {identifier for identifier, test in smoke.tests.items() if test["workload"] == WORKLOAD}
    judged = {identifier for identifier in mine if smoke.outcomes[identifier] == "pass"}
    assert len(judged) >= 10
    assert any(smoke.outcomes[identifier] == "lower-failed" for identifier in mine)
    assert report.surprises() == judged
    assert report.outcomes == smoke.outcomes | dict.fromkeys(judged, "mismatch")


def test_only_judging_is_done_again(report: Report) -> None:
    """At most: a session before this one may have judged the same already."""
    assert {action.rsplit("-", 1)[0] for action in report.actions} <= {f"judge/{WORKLOAD}"}


def worst(test: dict[str, Any]) -> dict[str, Any]:
    (output,) = test["verdict"]["outputs"]
    assert output["wrong"] == 1
    return dict(output["worst"][0], layer=output["layer"], where=output["where"])


def test_the_census_names_the_element(report: Report, wrong: Workspace, flipped: tuple[float, float]) -> None:
    assert wrong.root is not None
    for identifier in report.surprises():
        test = report.tests[identifier]
        element = worst(test)
        assert element["index"] == list(ELEMENT)
        assert element["expected"] == flipped[1]
        assert element["actual"] == pytest.approx(flipped[0], rel=1e-4)
        assert element["abs"] == pytest.approx(2 * abs(flipped[0]), rel=1e-4)
        assert 0 < element["bound"] < 1e-4
        file, line, _ = element["layer"].rsplit(":", 2)
        assert file == f"golden/{WORKLOAD}/tolerances.yaml"
        assert "atol" in (wrong.root / file).read_text().splitlines()[int(line) - 1]
        for word in ("[7, 3]", str(element["expected"]), str(element["actual"]), element["layer"]):
            assert word in test["reason"], test["reason"]


def test_people_are_told_the_same(wrong: Workspace, flipped: tuple[float, float]) -> None:
    done = wrong("run", f"*/*/x86_64/{WORKLOAD}", "--quiet")
    assert done.code == 1
    for words in (
        "[7, 3]",
        f"{flipped[1]:.9g}",
        f"golden/{WORKLOAD}/tolerances.yaml:3:5",
        "1 of 130 elements are wrong",
    ):
        assert words in done.stdout, done.stdout
    assert f"repeat: tools/matrix run c/native/x86_64/{WORKLOAD}" in done.stdout


def test_the_folder_holds_the_ir_of_every_stage(wrong: Workspace, report: Report) -> None:
    identifier = f"pytorch/linalg-vectorized/x86_64/{WORKLOAD}"
    folder = wrong.failure(identifier)
    plan = wrong.plan(identifier)
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    stages = [action for action in plan["actions"] if action["outputs"].keys() & {"ir", "out"}]
    assert [action["id"].rsplit("-", 1)[0] for action in stages] == [
        f"import/pytorch/{WORKLOAD}", "torch-to-linalg", "linalg-fuse", "linalg-tile-vectorize", "bufferize",
        "linalg-to-loops", "vector-lowering", "loops-to-llvm",
    ]  # fmt: skip
    for action in stages:
        label = action["id"].rsplit("-", 1)[0].replace("/", "-")
        (name,) = [name for name in kept if name.endswith(f"{label}-{next(iter(action['outputs'].values()))}")]
        assert b"@main" in kept[name], name
    order = sorted(name for name in kept if name.endswith(".mlir") and "schedule" not in name)
    assert "torch" in order[0]
    assert "llvm.func" in kept[order[-1]].decode()
    for needed in (
        "result.json",
        "repeat.sh",
        "commands.sh",
        "pytorch.py",
        f"judge-{WORKLOAD}-y.npy",
        f"run-{WORKLOAD}-y.npy",
        "error-y.svg",
    ):
        assert any(name.endswith(needed) for name in kept), (needed, sorted(kept))


def test_the_command_to_repeat_fails_alike(wrong: Workspace, report: Report) -> None:
    identifier = f"jax/stablehlo-loops/x86_64/{WORKLOAD}"
    script = wrong.failure(identifier) / "repeat.sh"
    done = subprocess.run(
        ["sh", str(script)], cwd=REPOSITORY, env={**os.environ, **wrong.env}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert f"mismatch {identifier}" in done.stdout
    assert report.tests[identifier]["reason"] in done.stdout
    assert "1 test: 1 mismatch" in done.stdout


#: What is done to the golden of a workload, and what is said of it.
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "mlp_dynamic": (Path.unlink, "the golden is missing; matrix golden update --write"),
    "softmax": (lambda path: np.save(path, np.load(path)[:0]), "shape"),
    "gelu": (lambda path: np.save(path, np.load(path).astype(np.float32)), "<f4"),
    "matmul": (lambda path: np.save(path, np.load(path).T), "shape"),
    "layernorm": (lambda path: path.write_bytes(b""), "not a readable .npy file"),
}


def test_a_golden_that_is_missing_or_proves_nothing_is_no_pass(copied: Workspace) -> None:
    assert copied.root is not None
    for workload, (damage, _) in DAMAGES.items():
        damage(copied.root / "golden" / workload / "y.npy")
    report = copied.run(f"mlir/linalg-loops/x86_64/{{mlp,{','.join(DAMAGES)}}}", code=2)
    for workload, (_, words) in DAMAGES.items():
        test = report.tests[f"mlir/linalg-loops/x86_64/{workload}"]
        assert test["outcome"] == "infra-error", workload
        assert words in test["reason"], workload
    assert report.outcomes["mlir/linalg-loops/x86_64/mlp"] == "pass"


def test_a_golden_that_is_nan_everywhere_wants_nan(copied: Workspace) -> None:
    assert copied.root is not None
    path = copied.root / "golden" / WORKLOAD / "y.npy"
    np.save(path, np.full_like(np.load(path), np.nan))
    (test,) = copied.run(f"mlir/linalg-loops/x86_64/{WORKLOAD}", code=1).tests.values()
    assert test["outcome"] == "mismatch"
    assert test["reason"].startswith(
        "y: 130 of 130 elements (100 %) are wrong; worst at [0, 0]: expected nan, actual -1.08"
    )


def test_update_writes_the_golden_back(copied: Workspace) -> None:
    assert copied.root is not None
    path = copied.root / "golden" / WORKLOAD / "y.npy"
    right = path.read_bytes()
    path.write_bytes(right[:-8] + bytes(8))
    stale = copied("golden", "update", WORKLOAD)
    assert stale.code == 1
    assert "differs" in stale.stdout
    assert "nothing was written" in stale.stderr
    assert path.read_bytes() != right
    assert copied("golden", "update", "--write", WORKLOAD).code == 0
    assert path.read_bytes() == right
    assert {entry.name for entry in path.parent.iterdir()} == {"y.npy", "tolerances.yaml", "made-from.sha256"}


def test_a_reference_that_never_ends(fresh: Any, tmp_path: Path) -> None:
    """It is ended when its time is up; its line is named, and nothing is written for it."""
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("endless", reference="import time\ntime.sleep(600)", jax="def workload(x):\n    return x * 2")
    golden = tmp_path / "catalog/golden/endless/y.npy"
    before = golden.read_bytes()
    done = fresh("home")("golden", "update", "--write", "endless", "--catalog", catalog.root, "--timeout", "1")
    assert done.code == 2
    assert "endless/reference.py:2: no answer within 1 s (--timeout)" in done.stderr
    assert golden.read_bytes() == before
