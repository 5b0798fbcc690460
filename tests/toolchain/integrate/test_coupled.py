"""Pins that go with a commit: named by a file or a submodule of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.commit_releases import CommitSource
from mlir_matrix.catalog.models.toolchains import Build
from mlir_matrix.environments.source.repository import Repository
from mlir_matrix.integrate.coupled import CoupledPins
from mlir_matrix.plan.session import open_session
from support.machine import needs
from support.upstreams import Upstream

pytestmark = needs("git")

LLVM = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    """Commits that go with LLVM 17 to 22, and with a commit of StableHLO, which is a submodule."""
    made = Upstream(tmp_path / "upstream")
    # git takes an empty folder for a submodule that is not checked out.
    (made.folder / "externals" / "stablehlo").mkdir(parents=True)
    for release in ("17.0.6", "18.1.8", "18.1.8", "21.1.8", "22.1.8"):
        made.git("update-index", "--add", "--cacheinfo", f"160000,{LLVM},externals/stablehlo")
        made.commit(f"Use {release}", {"llvm-release": f"{release}\n# by hand\n"})
    return made


def coupled(upstream: Upstream, **pins: str) -> CoupledPins:
    build = Build(repository=str(upstream.folder), pins=pins)
    repository = Repository(str(upstream.folder), upstream.folder / ".git")
    return CoupledPins(repository, CommitSource(component="tool", build=build))


def test_a_commit_names_releases_and_submodules(upstream: Upstream) -> None:
    pins = coupled(upstream, llvm="llvm-release", stablehlo="externals/stablehlo")
    assert pins.named_at(upstream.commits[3]) == {"llvm": "21.1.8", "stablehlo": LLVM}


def test_the_smallest_move_to_a_release(upstream: Upstream) -> None:
    pins = coupled(upstream, llvm="llvm-release")
    line = upstream.commits
    session = open_session()
    assert [pins.first_with(session, line, "llvm", least) for least in ("17", "18", "18.1.8", "19", "22")] == [
        0,
        1,
        1,
        3,
        4,
    ]
    with pytest.raises(UsageError, match=r"--goal llvm>=23: the newest commit goes with 22\.1\.8"):
        pins.first_with(session, line, "llvm", "23")


def test_a_commit_without_the_file(upstream: Upstream) -> None:
    with pytest.raises(UsageError, match="has no absent that names the llvm that goes with it"):
        coupled(upstream, llvm="absent").named_at(upstream.commits[0])
