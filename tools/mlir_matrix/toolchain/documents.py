"""Types of the documents of ``matrix toolchain`` and ``matrix doctor``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.documents import document
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


@document
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


@document
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


@document
class Fetched(TypedDict):
    """Environments that are installed or missing (`matrix toolchain fetch --format json`)."""

    schema: Literal["mlir-matrix/fetched/v1"]
    summary: dict[str, int]
    packages: str
    """The folder of packages."""
    environments: list[FetchedEnvironment]
    unavailable: list[str]


@document
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


@document
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


class DoctorEnvironment(TypedDict):
    """An environment, and whether it can be used here."""

    name: str
    pins: dict[str, str]
    state: str
    to_fetch: NotRequired[int]
    """Bytes; likewise `disk`. Absent if it is unavailable."""
    disk: NotRequired[int]
    reason: NotRequired[str]


class DoctorSuite(TypedDict):
    """The tests of a suite that can run now, after downloads, or not at all."""

    name: str
    tests: int
    ready: int
    to_fetch: int
    blocked: int
    reasons: list[dict[str, str | int]]
    """Each `reason` of blocked tests, and their number."""
    environments_to_fetch: list[str]
    bytes_to_fetch: int


class VanishingPin(TypedDict):
    """A release that its source will replace."""

    component: str
    release: str
    environment: str
    suites: list[str]
    fetched: bool
    installed: bool
    reason: str


class DoctorGpu(TypedDict):
    """The GPUs of one kind: what this machine has for them, and what it lacks."""

    devices: list[str]
    library: str
    """The path of the driver's library; empty if there is none."""
    release: str
    """Of the driver's kernel module; empty if it is unknown."""
    lacking: list[str]
    """Empty if the targets can run."""
    targets: list[str]
    grant: str
    """The options of `matrix run` that grant the devices."""


@document
class Doctor(TypedDict):
    """What this machine has and lacks (`matrix doctor --format json`)."""

    schema: Literal["mlir-matrix/doctor/v1"]
    summary: dict[str, int | dict[str, int]]
    python: str
    """The Python of the program's own virtual environment."""
    interpreter: dict[str, str | bool]
    machine: dict[str, str | int | bool]
    tools: dict[str, dict[str, str | None]]
    """Programs of the machine: path, version and use."""
    gpus: dict[str, DoctorGpu]
    """By driver: `cuda`, `hip`."""
    bazel: dict[str, str | bool | tuple[str, ...] | list[str]]
    home: dict[str, str | int | dict[str, int] | None]
    environments: list[DoctorEnvironment]
    suites: list[DoctorSuite]
    vanishing: list[VanishingPin]


class RollCause(TypedDict):
    """Tests that a release breaks in one way: one action failed, or one step failed alike."""

    outcome: Outcome
    reason: str
    """Of the first test."""
    tests: list[str]


class RollTrial(TypedDict):
    """A newer release that was tried."""

    component: str
    pinned: str
    release: str
    moved: dict[str, str]
    """Releases of components that it goes with."""
    kept: dict[str, str]
    """Green releases of other components that were pinned, too."""
    affected: list[str]
    """Tests of the suite that use it; empty if it was not tried."""
    green: bool
    accepted: bool
    """True if it is taken although it breaks tests (`--accept`), with changed expectations."""
    reason: str
    """Why the machine could not run all tests; else empty."""
    causes: list[RollCause]
    """What it breaks, the most frequent cause first."""


class RollPatch(TypedDict):
    """A change of a catalog, for `git apply`."""

    catalog: str
    patch: str


@document
class RolledToolchain(TypedDict):
    """Newer releases, and which of them pass (`matrix toolchain roll --format json`)."""

    schema: Literal["mlir-matrix/roll/v1"]
    suite: str
    summary: dict[str, int]
    """`trials`, the `green` ones, and the proposed `pins`."""
    trials: list[RollTrial]
    pins: dict[str, str]
    """The green releases by component."""
    reason: str
    """Why the whole suite could not run with all of them; else empty."""
    causes: list[RollCause]
    """What is broken with all of them."""
    patches: list[RollPatch]
    """Empty if the whole suite is not as expected with all of them."""


class TransferredBuild(TypedDict):
    """A built commit that was added to a store, or taken from it."""

    name: str
    bytes: int
    """Of its files; 0 if it was there already."""
    transferred: int
    """Compressed, without files that were there already."""


@document
class TransferredBuilds(TypedDict):
    """Built commits that were shared (`matrix toolchain push` and `pull`, with `--format json`)."""

    schema: Literal["mlir-matrix/builds/v1"]
    summary: dict[str, int]
    builds: list[TransferredBuild]
