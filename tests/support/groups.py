"""Which tests run in one process, and in which order.

What starts a daemon, a service or Bazel's servers, and what shares a long set-up, runs in one process, so that each starts
once. Groups that take longest begin first, so that all processes end at about the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

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
    "kit": (),
}
_BY_FILE = {file: group for group, files in _GROUPS.items() for file in files}
#: Groups of tests that use a fixture, wherever they are; the first that fits counts.
_BY_FIXTURE = {"podman": "podman", "daemon": "docker", "farm": "remote", "kit": "kit"}

#: Of what calls the command line, what ``tools/test --quick`` has; the rest is slow.
_QUICK = ("test_cli", "test_compare_files", "test_golden_explain", "test_smoke")


def mark_slow(items: list[pytest.Item]) -> None:
    """Mark what ``tools/test --quick`` leaves out."""
    for item in items:
        if item.path.parent.name == "e2e" and item.path.stem not in _QUICK:
            item.add_marker(pytest.mark.slow)


def distribute(items: list[pytest.Item]) -> None:
    """Mark each test with its group, and order groups."""
    order = {group: number for number, group in enumerate(_GROUPS)}
    for item in items:
        group = _group(item)
        order.setdefault(group, len(order))
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: order[_group(item)])


def _group(item: pytest.Item) -> str:
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    fitting = (group for name, group in _BY_FIXTURE.items() if name in fixtures)
    file = item.path.relative_to(item.config.rootpath)
    return next(fitting, _BY_FILE.get(file.stem, str(file)))
