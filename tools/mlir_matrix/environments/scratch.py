"""Scratch folders of the home. Each is called after its process, and those of processes that have ended are removed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import unwritable
from mlir_matrix.base.paths import Home


@contextmanager
def temporary_folder(home: Home) -> Iterator[Path]:
    """Make a temporary folder, which the next run removes if this process is killed.

    It is in the home's scratch folder; among the machine's temporary files if the home cannot be written, because some commands
    need no home.
    """
    try:
        folder = make_scratch(new_scratch(home), home)
        # Catalogs may be private.
        folder.chmod(0o700)
    except InfrastructureError:
        import tempfile  # slow to import

        folder = Path(tempfile.mkdtemp(prefix="matrix-"))
    try:
        yield folder
    finally:
        remove_folder(str(folder))


def new_scratch(home: Home) -> Path:
    """Return a path for the scratch folder of a run, without creating it."""
    return home.scratch / f"{os.getpid()}-{time.monotonic_ns()}"


def make_scratch(scratch: Path, home: Home) -> Path:
    """Create the scratch folder of a run, and remove those of killed runs. Raise InfrastructureError."""
    for folder in dead_scratch(home):
        remove_folder(folder)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        home.packages.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable("the scratch folder cannot be created", error) from error
    return scratch


def dead_scratch(home: Home) -> list[str]:
    """Return the scratch folders whose process has ended."""
    try:
        names = os.listdir(home.scratch)
    except OSError:
        # There is none, or none can be made: that is reported where one is made.
        return []
    owners = {name: name.split("-", 1)[0] for name in names}
    return [
        f"{home.scratch}/{name}"
        for name, owner in owners.items()
        if not (owner.isdigit() and os.path.exists(f"/proc/{owner}"))
    ]
