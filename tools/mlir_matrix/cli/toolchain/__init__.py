"""``matrix toolchain``: lock, install, verify and upgrade compilers and frameworks."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import VerbGroup

VERBS = {
    "lock": "Write lock files.",
    "fetch": "Download and install locked packages.",
    "verify": "Check every byte of installed packages.",
    "list": "List components and their releases.",
    "which": "Print the path of a tool.",
    "roll": "Test newer releases and propose those that pass.",
    "gc": "Remove packages that no lock file names.",
}


@click.group(
    "toolchain",
    cls=VerbGroup,
    verbs=VERBS,
    group="toolchain",
    examples=("matrix toolchain list llvm", "matrix toolchain fetch llvm@19", "matrix toolchain which mlir-opt@19"),
)
def command() -> None:
    """Lock, install, verify and upgrade compilers and frameworks.

    All releases stand side by side in the cache folder. Nothing is installed on the machine.
    """
