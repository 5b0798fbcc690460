"""What kernels of this machine are linked with: the driver and the C library, of which each takes longer than most tests."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.files import locked
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.eviction import evict
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests
from support.workspace import Workspace, new_home, results

#: Bytes that may be left of former drivers.
_MOST_KEPT = 8_000_000


def build_link_kit(current: Session) -> Path:
    """Build what each kernel of this machine is linked with. Return an action cache that has it, and nothing else."""
    folder = current.home.cache / "tests" / "link-kit"
    plan = plan_tests(current, choose(current.catalog, ["mlir/linalg-loops/x86_64/transpose"]).tests())
    actions = {name: action for name, action in plan.graph.actions.items() if action.tool == "link_kit"}
    own = replace(current, home=replace(current.home, actions=folder))
    with locked(folder.with_suffix(".lock")):
        evict(own.home, max_bytes=_MOST_KEPT)
        run_graph(own, Graph(actions=actions), limits=Limits(jobs=1))
        if len(list(results(folder))) > len(actions):
            # Another version of the program has left its own.
            remove_folder(str(folder))
            run_graph(own, Graph(actions=actions), limits=Limits(jobs=1))
    return folder


def copy_link_kit(kit: Path, cache: Path) -> None:
    """Make an action cache that has what kernels are linked with, and nothing else."""
    shutil.copytree(kit, cache, ignore=shutil.ignore_patterns("scratch", "uses*", "size"))


def home_with(link_kit: Path, folder: Path) -> Workspace:
    """Make a home with such an action cache."""
    home = new_home(folder)
    copy_link_kit(link_kit, home / "actions")
    return Workspace(home)
