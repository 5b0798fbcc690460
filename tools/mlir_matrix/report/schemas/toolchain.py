"""Types of the documents of ``matrix toolchain`` and ``matrix container``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from mlir_matrix.plan.documents import Digest, PlannedUnit


class ListedRelease(TypedDict):
    """A release of a component."""

    component: str
    release: str
    provider: str
    suites: list[str]
    """Of Debian packages: the suites of the archive."""
    commit: str | None
    durability: str
    pinned: bool
    locked: bool
    state: str
    reason: str
    """Why it is unavailable; else empty."""
    bytes: dict[str, int]


class Toolchain(TypedDict):
    """Releases of components, and their state (`matrix toolchain list --format json`)."""

    schema: Literal["mlir-matrix/toolchain/v1"]
    summary: dict[str, int | dict[str, int]]
    releases: list[ListedRelease]
    c_libraries: list[dict[str, str]]
    """C libraries of targets: `target`, `folder` and `state`."""


class LockFile(TypedDict):
    """A lock file that was written."""

    file: str
    packages: int
    bytes: dict[str, int | None]


class Locked(TypedDict):
    """Lock files that were written (`matrix toolchain lock --format json`)."""

    schema: Literal["mlir-matrix/locked/v1"]
    summary: dict[str, int]
    complete: bool
    """False if something could not be locked."""
    locks: list[LockFile]


class FetchedEnvironment(TypedDict):
    """An environment and its packages."""

    name: str
    digest: Digest
    units: list[PlannedUnit]
    missing: list[str]


class Fetched(TypedDict):
    """Environments that are installed or missing (`matrix toolchain fetch --format json`)."""

    schema: Literal["mlir-matrix/fetched/v1"]
    summary: dict[str, int]
    packages: str
    """The folder of packages."""
    environments: list[FetchedEnvironment]
    unavailable: list[str]


class ToolchainGc(TypedDict):
    """Packages and archives that were removed (`matrix toolchain gc --format json`)."""

    schema: Literal["mlir-matrix/gc/v1"]
    summary: dict[str, int]
    dry_run: bool
    files: list[dict[str, str]]
    """The `name` and `state` of each."""


class DamagedUnit(TypedDict):
    """A package with files that differ from its archive."""

    unit: str
    folder: str
    files: list[str]


class VerifiedToolchain(TypedDict):
    """Damaged packages and archives (`matrix toolchain verify --format json`)."""

    schema: Literal["mlir-matrix/verified-toolchain/v1"]
    summary: dict[str, int]
    units: int
    bytes_of_artifacts: int
    damaged: list[DamagedUnit]
    artifacts: list[Digest]
    """Damaged archives; `names`: the packages of those that are known."""
    names: dict[Digest, str]
    fetch: list[str]
    """Arguments of `matrix toolchain fetch` that make them again."""


class ContainerImage(TypedDict):
    """The image of an environment."""

    environment: str
    digest: str
    """That of the environment; empty for the image of an earlier lock file."""
    tag: str
    id: str
    bytes: int
    state: Literal["absent", "made", "present", "pulled", "stale"]


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


class VerifiedContainers(TypedDict):
    """Differences of images from their lock files (`matrix container verify --format json`)."""

    schema: Literal["mlir-matrix/verified-containers/v1"]
    summary: dict[str, int]
    images: list[VerifiedImage]
