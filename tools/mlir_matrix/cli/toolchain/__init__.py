"""``matrix toolchain``: lock, install, verify and upgrade compilers and frameworks."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import Listed, VerbGroup

#: Verb → where it is, and what it does.
VERBS = {
    "lock": Listed("toolchain.lock", "lock", "Write lock files."),
    "fetch": Listed("toolchain.fetch", "fetch", "Download and install locked packages."),
    "verify": Listed("toolchain.verify", "verify", "Check every byte of installed packages."),
    "list": Listed("toolchain.list", "list_releases", "List components and their releases."),
    "which": Listed("toolchain.which", "which", "Print the path of a tool."),
    "roll": Listed("toolchain.roll", "roll_releases", "Test newer releases and propose those that pass."),
    "gc": Listed("toolchain.gc", "gc", "Remove packages that no lock file names."),
}


@click.group(
    "toolchain",
    cls=VerbGroup,
    verbs=VERBS,
    of="toolchain",
    examples=("matrix toolchain list llvm", "matrix toolchain fetch llvm@19", "matrix toolchain which mlir-opt@19"),
)
def command() -> None:
    """Lock, install, verify and upgrade compilers and frameworks.

    All releases stand side by side in the cache folder. Nothing is installed on the machine.
    """
