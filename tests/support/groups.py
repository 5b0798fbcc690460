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
    "bazel": ("test_bazel", "test_bazel_component"),
    "remote": ("test_farm",),
    "hostile": ("test_hostile_sources",),
    "podman": ("test_podman",),
}
_GROUP_OF = {file: group for group, files in _GROUPS.items() for file in files}
#: Groups of tests that use a fixture, wherever they are.
_FIXTURES = {"daemon": "docker", "farm": "remote", "kit": "kit"}


def distribute(items: list[pytest.Item]) -> None:
    """Mark each test with its group, and order groups."""
    order = {group: number for number, group in enumerate(_GROUPS)}
    for item in items:
        group = group_of(item)
        order.setdefault(group, len(order))
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: order[group_of(item)])


def group_of(item: pytest.Item) -> str:
    """Return the name of the group that a test belongs to."""
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    by_fixture = (group for name, group in _FIXTURES.items() if name in fixtures)
    return _GROUP_OF.get(item.path.stem) or next(by_fixture, str(item.path.relative_to(item.config.rootpath)))
