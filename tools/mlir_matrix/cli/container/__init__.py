"""``matrix container``: build and verify container images of environments."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import Listed, VerbGroup

#: Verb → where it is, and what it does.
VERBS = {
    "build": Listed("container.build", "build", "Build missing images."),
    "list": Listed("container.list", "list_images", "List environments and their images."),
    "verify": Listed("container.verify", "verify", "Compare images with their lock files."),
}


@click.group(
    "container",
    cls=VerbGroup,
    verbs=VERBS,
    of="container",
    examples=("matrix container build mlir", "matrix container list", "matrix container verify mlir"),
)
def command() -> None:
    """Build and verify container images, one for each environment.

    Images are made from lock files: the same lock file gives the same image ID.
    """
