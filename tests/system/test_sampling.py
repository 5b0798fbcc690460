"""Programs that are timed in turn: a kernel takes as long as itself, and one that does more takes longer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.cost.sampling import sample
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.request import Limits
from support.timed import timed_program
from support.workspace import Workspace

LIMITS = Limits(jobs=2)


@pytest.fixture(scope="module")
def session(current: Session, workspace: Workspace) -> Session:
    return replace(current, home=workspace.folders)


def test_kernels_are_timed_in_turn(session: Session) -> None:
    small, large = (
        timed_program(session, f"mlir/linalg-loops/x86_64/{name}", LIMITS) for name in ("transpose", "matmul")
    )
    # The arguments are those of the kernel, whose sizes differ here.
    alone = [sample(session, each, None, 3, LIMITS) for each in (small, large)]
    assert all(len(pairs) == 3 and all(one == two > 0 for one, two in pairs) for pairs in alone)
    # A thousand times as much to compute.
    assert median(one for one, _ in alone[1]) > 10 * median(one for one, _ in alone[0])
    ratios = [two / one for one, two in sample(session, large, large, 5, LIMITS)]
    assert 1 / 3 < median(ratios) < 3


def test_a_program_that_times_itself_is_timed_in_turn_with_a_kernel(session: Session) -> None:
    kernel = timed_program(session, "mlir/linalg-loops/x86_64/matmul", LIMITS)
    found = sample(session, kernel, timed_program(session, "jax/xla-cpu/xla-cpu/matmul", LIMITS), 2, LIMITS)
    assert len(found) == 2
    assert all(one > two > 0 for one, two in found)


def test_a_program_that_takes_no_times_is_refused(session: Session, tmp_path: Path) -> None:
    tool = tmp_path / "run.py"
    tool.write_text("import numpy\ndef run(action):\n    numpy.save(action.outputs['out-y'], numpy.zeros(1))\n")
    one = timed_program(session, "jax/xla-cpu/xla-cpu/matmul", LIMITS)
    with pytest.raises(UsageError, match=r"does not time itself"):
        sample(session, replace(one, files={**one.files, "tool": tool}), None, 1, LIMITS)
