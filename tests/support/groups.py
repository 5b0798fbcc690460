"""Which tests run in one process, and in which order.

What starts a daemon, a service or Bazel's servers, and what shares a long set-up, runs in one process, so that each starts
once. Groups that take longest begin first, so that all processes end at about the same time.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

#: Groups of test files, the longest first. Each other file is a group of its own, after these.
_GROUPS = {
    "docker": ("test_docker", "test_containers", "test_docker_component"),
    "remote": (),
    "releases": ("test_llvm_releases",),
    "bazel": ("test_bazel", "test_bazel_component", "test_agreement"),
    "hostile": ("test_hostile_sources",),
    "podman": ("test_podman",),
    "actions": ("test_actions",),
    "resume": ("test_resume",),
    "kit": ("test_link", "test_link_kit", "test_object", "test_opt_object", "test_run", "test_run_draws"),
}
_BY_FILE = {file: group for group, files in _GROUPS.items() for file in files}
#: Tests that are in another group than their file.
_BY_TEST = {
    r"test_agreement\.py::test_docker": "docker",
    r"test_agreement\.py::test_(remote|pools|a_second)": "remote",
}
#: Of what calls the command line, what ``tools/test --quick`` has; the rest is slow.
_QUICK = ("test_cli", "test_compare_files", "test_golden_explain", "test_smoke")


class Groups(LoadScopeScheduling):
    """Give each group to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the name of the group that a test belongs to."""
    file = nodeid.partition("::")[0]
    moved = (group for pattern, group in _BY_TEST.items() if re.search(pattern, nodeid))
    return next(moved, _BY_FILE.get(PurePosixPath(file).stem, file))


def order(items: list[pytest.Item]) -> None:
    """Have the groups that take longest begin first."""
    places = {group: number for number, group in enumerate(_GROUPS)}
    items.sort(key=lambda item: places.get(group_of(item.nodeid), len(places)))


def mark_slow(items: list[pytest.Item]) -> None:
    """Mark what ``tools/test --quick`` leaves out."""
    for item in items:
        if item.path.parent.name == "e2e" and item.path.stem not in _QUICK:
            item.add_marker(pytest.mark.slow)
