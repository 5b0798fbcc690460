"""What a person does who has a report of a bisection, the programs of a release, and not this program."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.workspace import Workspace

_SYSTEM = "/usr/bin:/bin"


def scripts(report: Path) -> list[str]:
    """The commands that show the failure, and, where they are others, those that show the pass."""
    text = report.read_text().partition("## Reproduce\n")[2].partition("With this program:")[0]
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", text)


def reproduce(
    report: Path, workspace: Workspace, programs: Sequence[str], folder: Path, script: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run the commands of a report by a plain shell, in a copy of its folder; ``programs``: one of each package (``llc@19``)."""
    shutil.copytree(report.parent, folder)
    packages = [Path(workspace("toolchain", "which", name).stdout.strip()).parent for name in programs]
    return subprocess.run(
        ["/bin/sh", "-e"], input=scripts(report)[script], capture_output=True, text=True, check=False,
        cwd=folder / "good" if script else folder, env={"PATH": ":".join([*map(str, packages), _SYSTEM])},
    )  # fmt: skip
