"""``matrix toolchain``: what environments consist of, and what of it is here."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import Listed
from mlir_matrix.cli.options import LazyVerbGroup

#: Verb → where it is, and what it does.
VERBS = {
    "lock": Listed("toolchain.lock", "lock", "Write locks."),
    "fetch": Listed("toolchain.fetch", "fetch", "Bring what locks name."),
    "verify": Listed("toolchain.verify", "verify", "Read everything that is here and compare it with its hashes."),
    "list": Listed("toolchain.list", "list_releases", "Components and their releases."),
    "which": Listed("toolchain.which", "which", "The path of a tool."),
    "roll": Listed("toolchain.roll", "roll_releases", "Try newer releases, propose those that are green."),
    "gc": Listed("toolchain.gc", "gc", "Remove what no lock names."),
}


@click.group(
    "toolchain",
    cls=LazyVerbGroup,
    verbs=VERBS,
    of="toolchain",
    examples=("matrix toolchain list llvm", "matrix toolchain fetch llvm@19", "matrix toolchain which mlir-opt@19"),
)
def command() -> None:
    """Lock, fetch and check compilers and frameworks, side by side, without installing anything on the machine."""
