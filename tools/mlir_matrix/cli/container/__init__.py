"""``matrix container``: build and verify container images of environments."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import VerbGroup

VERBS = {
    "build": "Build missing images.",
    "list": "List environments and their images.",
    "verify": "Compare images with their lock files.",
}


@click.group(
    "container",
    cls=VerbGroup,
    verbs=VERBS,
    group="container",
    examples=("matrix container build mlir", "matrix container list", "matrix container verify mlir"),
)
def command() -> None:
    """Build and verify container images, one for each environment.

    Images are made from lock files: the same lock file gives the same image ID.
    """
