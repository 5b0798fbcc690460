"""Types of the documents of ``matrix container``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from mlir_matrix.base.documents import document

ImageState = Literal["absent", "made", "present", "pulled", "stale"]


class ContainerImage(TypedDict):
    """The image of an environment."""

    environment: str
    digest: str
    """That of the environment; empty for the image of an earlier lock file."""
    tag: str
    id: str
    bytes: int
    state: ImageState


@document
class ContainerImages(TypedDict):
    """Container images (`matrix container build|list --format json`)."""

    schema: Literal["mlir-matrix/container-images/v1"]
    summary: dict[str, int | dict[str, int]]
    images: list[ContainerImage]


class VerifiedImage(TypedDict):
    """An image, compared with its lock files."""

    environment: str
    tag: str
    differences: list[str]


@document
class VerifiedContainers(TypedDict):
    """Differences of images from their lock files (`matrix container verify --format json`)."""

    schema: Literal["mlir-matrix/verified-containers/v1"]
    summary: dict[str, int]
    images: list[VerifiedImage]
