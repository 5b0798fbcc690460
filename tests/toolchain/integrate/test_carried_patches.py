"""Verdicts of carried patches on real git repositories: upstreamed, unneeded, needed, in conflict."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.integrate.upstream import UpstreamChanges
from mlir_matrix.integrate.verdicts import judge_patches
from support.machine import needs
from support.patch_cases import KINDS, PatchCase, make_case

pytestmark = needs("git")


def verdicts(case: PatchCase, objects: Path) -> dict[str, str]:
    """Return what each patch is at the newest commit."""
    trees = case.trees(objects)
    commits = case.commits(trees)
    line = list(commits.ids)
    found = judge_patches(case.patches, UpstreamChanges(commits, trees), line, case.trial(trees, line[-1]), ())
    return {each.patch.name: each.state for each in found}


@pytest.mark.parametrize("seed", range(2))
def test_each_patch_gets_the_verdict_that_it_was_made_for(tmp_path: Path, seed: int) -> None:
    case = make_case(tmp_path / "upstream", seed, len(KINDS) + 4)
    found = verdicts(case, tmp_path / "objects")
    assert found == case.expected
