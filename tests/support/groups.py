"""Which tests run in one process, and in which order.

What starts a daemon, a service or Bazel's servers, and what shares a long set-up, runs in one process, so that each starts
once. Groups that take longest begin first, so that all processes end at about the same time: ``tests/durations.json`` has
the share of each, which ``tools/test --record-durations`` writes. Where durations are not known, a group begins at once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

_DURATIONS = Path(__file__).parents[1] / "durations.json"
#: Groups of test files. Each other file is a group of its own.
_GROUPS = {
    # With what runs out of memory elsewhere: a process killed beside an out-of-memory kill may be one of its victims.
    "docker": (
        "system/test_docker",
        "system/test_containers",
        "system/test_docker_component",
        "system/test_hostile_sources",
        "system/test_podman",
    ),
    "releases": ("system/test_llvm_releases", "system/test_bisect"),
    "bazel": (
        "system/test_bazel",
        "system/test_bazel_component",
        "system/test_agreement",
        "system/test_open_tools",
        "system/test_installed",
    ),
    "kit": tuple(
        f"toolchain/actions/tools/test_{name}"
        for name in ("bench", "link", "link_kit", "object", "object_by_programs", "run")
    ),
}
_BY_FILE = {f"tests/{file}.py": group for group, files in _GROUPS.items() for file in files}
#: Tests that are in another group than their file.
_BY_TEST = {
    r"test_agreement\.py::test_docker": "docker",
    r"test_attacks\.py::test_attacks_by_bazel": "bazel",
    r"test_agreement\.py::test_(remote|pools|a_second|a_pool)": "remote",
}
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
    shares: dict[str, float] = json.loads(_DURATIONS.read_text(encoding="utf-8"))
    items.sort(key=lambda item: -shares.get(group_of(item.nodeid), 1.0))


class Durations:
    """Write what share of the time each group takes; shares differ less between machines than seconds."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a set-up, a test or its end."""
        self._seconds[group_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the file, the longest group first. Groups that did not run keep their shares."""
        shares: Counter[str] = Counter(json.loads(_DURATIONS.read_text(encoding="utf-8")))
        covered = sum(shares[group] for group in self._seconds) or 1.0
        total = self._seconds.total()
        shares.update({group: covered * seconds / total - shares[group] for group, seconds in self._seconds.items()})
        rounded = {group: round(share, 4) for group, share in shares.most_common()}
        _DURATIONS.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


def mark(items: list[pytest.Item]) -> None:
    """Mark what needs the network unless packages are installed already."""
    for item in items:
        installs = not _INSTALLING.isdisjoint(getattr(item, "fixturenames", ()))
        if installs or item.path.parent.name == "system":
            item.add_marker(pytest.mark.network)
