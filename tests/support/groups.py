"""Which tests run in one process, and in which order.

What starts a daemon, a service or Bazel's servers, and what shares a long set-up, runs in one process, so that each starts
once. Groups that take longest begin first, so that all processes end at about the same time.
"""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

#: Groups of test files, the longest first. Each other file is a group of its own, after these.
_GROUPS = {
    # With what runs out of memory elsewhere: a process killed beside an out-of-memory kill may be one of its victims.
    "docker": (
        "e2e/test_docker",
        "e2e/test_containers",
        "e2e/test_docker_component",
        "e2e/test_hostile_sources",
        "e2e/test_podman",
    ),
    "remote": (),
    "releases": ("e2e/test_llvm_releases", "e2e/test_bisect"),
    "bazel": (
        "e2e/test_bazel",
        "e2e/test_bazel_component",
        "e2e/test_agreement",
        "e2e/test_open_tools",
        "e2e/test_installed",
    ),
    "actions": ("e2e/test_actions",),
    "resume": ("e2e/test_resume",),
    "kit": tuple(
        f"unit/actions/tools/test_{name}" for name in ("link", "link_kit", "object", "object_by_programs", "run")
    ),
}
_BY_FILE = {f"tests/{file}.py": group for group, files in _GROUPS.items() for file in files}
#: Tests that are in another group than their file.
_BY_TEST = {
    r"test_agreement\.py::test_docker": "docker",
    r"test_attacks\.py::test_attacks_by_bazel": "bazel",
    r"test_agreement\.py::test_(remote|pools|a_second|a_pool)": "remote",
}
#: Of what calls the command line, what ``tools/test --quick`` has; the rest is slow.
_QUICK = ("test_cli", "test_compare_files", "test_golden_explain", "test_smoke")
#: Fixtures that install packages.
_INSTALLING = {"environments", "c_library"}


class Groups(LoadScopeScheduling):
    """Give each group to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the name of the group that a test belongs to."""
    file = nodeid.partition("::")[0]
    moved = (group for pattern, group in _BY_TEST.items() if re.search(pattern, nodeid))
    return next(moved, _BY_FILE.get(file, file))


def order(items: list[pytest.Item]) -> None:
    """Have the groups that take longest begin first."""
    places = {group: number for number, group in enumerate(_GROUPS)}
    items.sort(key=lambda item: places.get(group_of(item.nodeid), len(places)))


def mark(items: list[pytest.Item]) -> None:
    """Mark what ``tools/test --quick`` leaves out, and what needs the network unless packages are installed already."""
    for item in items:
        if item.path.parent.name == "e2e":
            item.add_marker(pytest.mark.network)
            if item.path.stem not in _QUICK:
                item.add_marker(pytest.mark.slow)
        elif _INSTALLING & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.network)
