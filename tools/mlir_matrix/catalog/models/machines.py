"""Define the model of a build machine (``matrix/machines/NAME.yaml``): what it has, and which tests it wants to run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt

from mlir_matrix.catalog.models.base import Device, Document, Glob, Name, Text

_Count = Annotated[StrictInt, Field(ge=1)]


class Cpu(Document):
    """The processor of a machine, as archspec names its parts."""

    architecture: Name
    """As ``uname -m`` prints it: ``x86_64``, ``aarch64``."""
    level: Name | None = None
    """The instruction set in general: ``x86-64-v3``, ``armv8.2a``."""
    features: tuple[Name, ...] = ()
    """Features beyond those of the level: ``avx512_vnni``."""


class Peaks(Document):
    """What one core can do at most, measured by `matrix machine probe --peaks`."""

    gflops: dict[Name, Annotated[StrictFloat, Field(gt=0)]]
    """Arithmetic operations per nanosecond by dtype; a fused multiplication and addition is two."""
    gbs: dict[Name, Annotated[StrictFloat, Field(gt=0)]]
    """Bytes per nanosecond that are read from each level: ``L1``, ``L2``, ``L3``, ``memory``."""
    caches: dict[Name, _Count]
    """Bytes of each level but the memory."""


class Has(Document):
    """What a machine has: probed, or stated for a machine that is elsewhere. `matrix machine check` compares it."""

    cpu: Cpu
    cores: _Count
    """Cores that a run may use."""
    memory_gib: _Count = Field(alias="memory-gib")
    """Memory that a run may use: actions at a time are at most as many as have room with their limit, ``--memory``."""
    disk_gib: _Count | None = Field(default=None, alias="disk-gib")
    """The size of the file system of the home of matrix."""
    gpus: tuple[Text, ...] = ()
    """Names of graphics processors."""
    devices: tuple[Device, ...] = ()
    """Device files that targets may declare: ``/dev/kvm``."""
    emulators: tuple[Name, ...] = ()
    """Programs ``qemu-*`` on PATH."""
    container_engine: Literal["docker", "podman"] | None = Field(default=None, alias="container-engine")
    """The program that runs containers."""
    namespaces: StrictBool = True
    """Whether the kernel isolates actions by namespaces."""
    tools: tuple[Name, ...] = ()
    """Programs on PATH that providers use: ``git``, ``cmake``."""
    peaks: Peaks | None = None
    """For shares of what is possible. Nothing is compared with it."""


class LeaveOut(Document):
    """Tests that a machine does not run."""

    match: Annotated[tuple[Glob, ...], Field(min_length=1)]
    reason: Text


class Wants(Document):
    """What a machine runs of what it can run."""

    suites: tuple[Glob, ...] = ()
    """What it runs without arguments: suites, and test globs, which select tests of these suites. Globs without a suite select
    tests of the whole catalog. Empty: the default suite."""
    require: tuple[Glob, ...] = ()
    """Tests that run first, also where they exceed the budget."""
    prefer: tuple[Glob, ...] = ()
    """Tests that run before the others."""
    leave_out: tuple[LeaveOut, ...] = Field(default=(), alias="leave-out")
    budget_minutes: Annotated[StrictFloat, Field(gt=0)] | None = Field(default=None, alias="budget-minutes")
    """Minutes of the whole machine for one run: recorded seconds of the tests, divided by the cores. Absent: no limit."""
    pins: dict[Name, Name] = Field(default={})
    """Releases by component, as ``--pin`` sets them; ``--pin`` on the command line wins."""
    devices: tuple[Device, ...] = ()
    """Devices that kernels may use, as ``--device`` grants them."""


class Machine(Document):
    """A build machine (``matrix/machines/NAME.yaml``)."""

    description: Text
    has: Has
    wants: Wants = Wants()
