"""Run composed programs through every pipeline; ``tools/test tests/system/test_pairs.py --pairs 400`` runs 400 of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from support import pairs
from support.workspace import Workspace

#: Programs of one run.
BATCH = 10
SEED = 4


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for each batch of the programs that ``--pairs`` asks for."""
    count = metafunc.config.getoption("--pairs")
    metafunc.parametrize("first", range(0, count, BATCH))


@cache
def programs(count: int) -> tuple[pairs.Program, ...]:
    return tuple(pairs.compose(count, SEED))


def test_composed_programs_are_right(
    first: int, workspace: Workspace, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    chosen = programs(pytestconfig.getoption("--pairs"))[first : first + BATCH]
    pairs.write(tmp_path / "catalog", chosen)
    report = workspace.run("pairs", catalog=tmp_path / "catalog", code=None)
    assert report.finished.code == 0, f"{report.told()}\nthe programs: --catalog {tmp_path / 'catalog'}"
    ran = [outcome for outcome in report.outcomes.values() if outcome != "unsupported"]
    # What cannot be lowered is known by the operation; more than half can.
    assert ran.count("pass") > len(ran) / 2
