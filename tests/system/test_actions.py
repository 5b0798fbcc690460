"""Actions: the same bytes every time, and again only where what they read has changed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from support.workspace import Report, Workspace, new_home

CELLS = (
    "mlir/{linalg-loops,linalg-vectorized,linalg-named}/x86_64/{matmul,mlp,softmax}",
    "jax/linalg-loops/x86_64/mlp",
)


def differences(left: Workspace, right: Workspace) -> list[str]:
    """The actions of ``right`` that ``left`` does not have, or has with other outputs."""
    one, other = left.kept(), right.kept()
    assert other
    return [f"{key}: {one.get(key)} and {entry}" for key, entry in other.items() if one.get(key) != entry]


def test_outputs_repeat_to_the_byte(warm: Workspace, smoke: Report, fresh: Callable[[str], Workspace]) -> None:
    """A key covers all that an action reads, so that equal keys say that everything before it repeated as well.

    Each time for other tests of smoke.
    """
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    ran = sorted(test for test, outcome in smoke.outcomes.items() if outcome != "unsupported")
    workspace = fresh("second")
    # The first time was with another number.
    assert workspace("run", "--jobs", "5", "--quiet", *random.Random(seed).sample(ran, 30)).code in (0, 1)
    assert workspace.count() > 80
    assert differences(warm, workspace) == []


def readers(plan: Any, step: str) -> set[str]:
    """The actions of a step."""
    return {action["id"] for action in plan["actions"] if action["id"].rsplit("-", 1)[0] == step}


def after(plan: Any, first: Iterable[str]) -> set[str]:
    """These actions and all that wait for them."""
    found = set(first)
    for action in plan["actions"]:
        if any(ref.get("action") in found for ref in action["inputs"].values()):
            found.add(action["id"])
    return found


def edit(workspace: Workspace, path: str, old: str, new: str) -> None:
    assert workspace.root is not None
    file = workspace.root / path
    text = file.read_text()
    assert text.count(old) == 1, text
    file.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def prepared(c_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A cache in which some tests have been run, and nothing else."""
    workspace = Workspace(new_home(tmp_path_factory.mktemp("prepared") / "home"))
    report = workspace.run(*CELLS)
    assert set(report.outcomes.values()) == {"pass"}
    # Actions that turn out to read the same, like those of pipelines that leave a program as it is, are executed once.
    assert report.executed == len(report.actions) == workspace.count() - 1, "each is kept, and the C library"
    assert report.actions < {action["id"] for action in workspace.plan(*CELLS)["actions"]}
    return workspace


@pytest.fixture
def changing(copied: Workspace, prepared: Workspace, tmp_path: Path) -> Workspace:
    """A catalog that may be changed, and a cache in which some of its tests have been run."""
    workspace = Workspace(copied.home, root=copied.root, cache=tmp_path / "actions")
    shutil.copytree(prepared.actions, workspace.actions)
    return workspace


def test_a_changed_step_alone_is_done_again(changing: Workspace) -> None:
    """The schedule changes, what comes out of it does not: its readers run, and nothing after them."""
    assert changing.root is not None
    schedule = changing.root / "recipes" / "steps" / "linalg-tile-vectorize" / "schedule.mlir"
    schedule.write_text(schedule.read_text() + "\n// Changed.\n")
    expected = readers(changing.plan(*CELLS), "linalg-tile-vectorize")
    assert len(expected) == 3
    report = changing.run(*CELLS)
    assert report.actions == expected
    assert set(report.outcomes.values()) == {"pass"}


def test_changed_passes_that_change_nothing(changing: Workspace) -> None:
    edit(changing, "recipes/steps/linalg-fuse/step.yaml", "canonicalize,cse", "canonicalize,cse,canonicalize")
    expected = readers(changing.plan(*CELLS), "linalg-fuse")
    assert len(expected) == 4, "two pipelines share it, and its actions"
    assert changing.run(*CELLS).actions == expected


def test_a_changed_parameter_reaches_what_follows(changing: Workspace) -> None:
    edit(changing, "recipes/pipelines/linalg-vectorized.yaml", "rows: 8, columns: 16", "rows: 4, columns: 8")
    plan = changing.plan(*CELLS)
    changed = readers(plan, "linalg-tile-vectorize")
    report = changing.run(*CELLS)
    assert set(report.outcomes.values()) == {"pass"}
    assert changed < report.actions <= after(plan, changed)
    later = {"bufferize", "vector-lowering", "loops-to-llvm", "object", "link"}
    assert later <= {action.rsplit("-", 1)[0] for action in report.actions}
    assert {test["id"] for test in report.tests.values() if not test["cached"]} == {
        test for test in report.tests if "/linalg-vectorized/" in test
    }


def test_a_changed_source_reaches_its_own_tests(changing: Workspace) -> None:
    assert changing.root is not None
    source = changing.root / "matrix" / "workloads" / "mlp" / "linalg.mlir"
    source.write_text("// A comment.\n" + source.read_text())
    imported = readers(changing.plan(*CELLS), "import/mlir/mlp")
    assert changing.run(*CELLS).actions == imported, "a comment does not get past the ingress"


def test_a_changed_tolerance_is_judged_again(changing: Workspace) -> None:
    edit(changing, "golden/softmax/tolerances.yaml", "atol: 0", "atol: 1e-9")
    report = changing.run(*CELLS)
    assert {action.rsplit("-", 1)[0] for action in report.actions} == {"judge/softmax"}
    judged = {identifier for identifier, test in report.tests.items() if not test["cached"]}
    assert judged == {identifier for identifier in report.tests if identifier.endswith("/softmax")}


def test_a_changed_description_is_nobodys_business(changing: Workspace) -> None:
    edit(changing, "recipes/steps/linalg-fuse/step.yaml", "description: Fuse", "description: To fuse")
    edit(changing, "recipes/pipelines/linalg-loops.yaml", "The plain route", "The simple route")
    assert changing.run(*CELLS).executed == 0
