"""``matrix container``: images of environments."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import Listed
from mlir_matrix.cli.options import LazyVerbGroup

#: Verb → where it is, and what it does.
VERBS = {
    "build": Listed("container.build", "build", "Make the images that are not there."),
    "list": Listed("container.list", "list_images", "Environments and their images."),
    "verify": Listed("container.verify", "verify", "Compare images with what the locks give."),
}


@click.group(
    "container",
    cls=LazyVerbGroup,
    verbs=VERBS,
    of="container",
    examples=("matrix container build mlir", "matrix container list", "matrix container verify mlir"),
)
def command() -> None:
    """Images for containers, one an environment, made from the same locks: the same lock gives the same image ID."""
