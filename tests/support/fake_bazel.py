"""Programs called like Bazel, as old, broken or slow as is asked for."""

from __future__ import annotations

import os
from pathlib import Path

#: Says its version; when it is to build, it does what ``then`` is. Each call is written down.
_SCRIPT = """\
#!/bin/sh
echo "$*" >> {calls}
if [ "$1" = --version ]; then {version}; exit; fi
{then}
"""
BUILDS = "mkdir bazel-bin && cat MODULE.bazel BUILD.bazel probe.bzl > bazel-bin/probe.txt"


class Fakes:
    """A folder of programs, and of what they were called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.state = folder / "state"
        self._calls = folder / "calls"
        for name in ("sh", "mkdir", "cat", "sleep"):
            (self.folder / name).symlink_to(
                next(path for path in (Path("/bin") / name, Path("/usr/bin") / name) if path.exists())
            )

    def add(self, name: str = "bazel", *, version: str = "echo bazel 7.7.1", then: str = BUILDS) -> Path:
        path = self.folder / name
        path.write_text(_SCRIPT.format(calls=self._calls, version=version, then=then))
        path.chmod(0o755)
        # Whatever the clock of the file system can tell apart.
        os.utime(path, ns=(0, hash((version, then)) % 10**15))
        return path

    @property
    def calls(self) -> list[str]:
        """The last words of each call so far."""
        return [line.split()[-1] for line in self._calls.read_text().splitlines()] if self._calls.exists() else []
