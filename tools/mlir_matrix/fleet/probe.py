"""Probe this machine: processor, memory, disk, devices, programs, isolation. Compare it with a machine file."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from archspec.cpu import TARGETS, host

from mlir_matrix.actions.sandbox.isolation import NOTHING_HELD
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.machines import Cpu, Has, Machine
from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.state import free_bytes
from mlir_matrix.execute.worker_process import bound

_GIB = 1 << 30
#: Device files of accelerators and of virtual machines, as targets may declare them.
_DEVICES = ("/dev/kvm", "/dev/kfd", "/dev/dri", "/dev/nvidiactl", "/dev/nvidia-uvm")
#: Programs of QEMU that are not emulators.
_NO_EMULATOR = re.compile(r"qemu-(?:img|io|nbd|edid|ga|keymap|pr-helper|storage-daemon|vmsr-helper|.*\.sh)")
#: Programs of the machine and their use. The suite smoke needs none of them.
TOOLS = {
    "apt-get": "locking Debian packages",
    "git": "the provider source",
    "cmake": "the provider source",
    "ninja": "the provider source",
    "c++": "the provider source",
    "ccache": "the provider source, to build the same again faster",
    "docker": "running actions in containers",
    "bazel": "running plans by Bazel",
    "nvidia-smi": "GPUs",
}
#: Programs that providers find on PATH, in addition to those that components name.
_TOOLS = tuple(name for name in TOOLS if name != "nvidia-smi")


def probe(home: Home, catalog: Catalog) -> Has:
    """Return the properties of this machine."""
    facts = machine_of(home)
    declared = {device for entry in catalog.targets.values() for device in entry.document.devices}
    devices = sorted({*_DEVICES, *map(str, Path("/dev").glob("nvidia[0-9]*")), *declared})
    folder = next(path for path in (home.cache, *home.cache.parents) if path.exists())
    # By alias, because aliases are the keys of files.
    return Has.model_validate(
        {
            "cpu": _cpu(),
            "cores": facts["cores"],
            "memory-gib": max(1, facts["memory_bytes"] // _GIB),
            "disk-gib": max(1, shutil.disk_usage(folder).total // _GIB),
            "gpus": tuple(_gpus()),
            "devices": tuple(device for device in devices if os.path.exists(device)),
            "emulators": tuple(_emulators()),
            "container-engine": next(filter(shutil.which, ("docker", "podman")), None),
            "namespaces": facts["namespaces"],
            "tools": tuple(sorted(name for name in {*_TOOLS, *_programs(catalog)} if shutil.which(name))),
        }
    )


def _cpu() -> Cpu:
    """Return the processor by archspec: the level, and the features that it has beyond those of the level."""
    found = host()
    level = found.generic
    beyond = sorted(name for name in found.features - level.features if re.fullmatch(r"\w+", name))
    return Cpu(architecture=platform.machine(), level=_spelled(level.name), features=tuple(beyond))


def _spelled(level: str) -> str:
    """Return a level as compilers spell it: ``x86-64-v3``."""
    return level.replace("_", "-") if level.startswith("x86_64") else level


def _gpus() -> Iterator[str]:
    """Yield the names of NVIDIA's and AMD's graphics processors."""
    with suppress(OSError, subprocess.SubprocessError):
        words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(words, capture_output=True, timeout=20, check=False)
        if done.returncode == 0:
            yield from filter(None, map(str.strip, done.stdout.decode(errors="replace").splitlines()))
    for node in sorted(Path("/sys/class/kfd/kfd/topology/nodes").glob("*/name")):
        with suppress(OSError):
            # Nodes of CPUs have an empty name.
            yield from filter(None, [node.read_text(errors="replace").strip()])


def _emulators() -> list[str]:
    found = set()
    for folder in os.get_exec_path():
        with suppress(OSError):
            found |= {name for name in os.listdir(folder) if name.startswith("qemu-")}
    return sorted(name for name in found if not _NO_EMULATOR.fullmatch(name) and shutil.which(name))


def _programs(catalog: Catalog) -> Iterator[str]:
    """Yield the programs that releases of the provider ``host`` name."""
    for entry in catalog.components.values():
        for release in entry.document.releases:
            if (release.provider or entry.document.provider) == "host":
                yield from release.programs or entry.document.programs


def differences(machine: Entry[Machine], here: Has) -> list[str]:
    """Return the properties that a file states and this machine lacks: one line each, with position and fix."""
    return [
        f"{machine.source.position('has', *keys)}: {'.'.join(map(str, keys))} is {stated}; this machine has {found}"
        for keys, stated, found in _differences(machine.document.has, here)
    ]


def _differences(has: Has, here: Has) -> Iterator[tuple[tuple[str | int, ...], object, object]]:
    cpu = has.cpu
    if cpu.architecture != here.cpu.architecture:
        yield ("cpu", "architecture"), cpu.architecture, here.cpu.architecture
    elif cpu.level is not None and not _reaches(cpu.level):
        yield ("cpu", "level"), cpu.level, here.cpu.level
    else:
        yield from _missing(("cpu", "features"), cpu.features, set(host().features))
    for key, stated, found in (
        ("cores", has.cores, here.cores),
        ("memory-gib", has.memory_gib, here.memory_gib),
        ("disk-gib", has.disk_gib or 0, here.disk_gib or 0),
    ):
        if stated > found:
            yield (key,), stated, f"{found}; write {key}: {found}"
    if has.container_engine not in (None, here.container_engine) and not shutil.which(str(has.container_engine)):
        yield ("container-engine",), has.container_engine, here.container_engine or "none; leave it out"
    if has.namespaces and not here.namespaces:
        yield ("namespaces",), "true", "none for actions; write namespaces: false"
    gpus = list(here.gpus)
    for number, gpu in enumerate(has.gpus):
        if gpu in gpus:
            gpus.remove(gpu)
        else:
            yield ("gpus", number), gpu, f"{', '.join(here.gpus) or 'none'}; leave it out"
    yield from _missing(("devices",), has.devices, [device for device in has.devices if os.path.exists(device)])
    yield from _missing(("emulators",), has.emulators, here.emulators)
    yield from _missing(("tools",), has.tools, [name for name in has.tools if shutil.which(name)])


def _missing(
    keys: tuple[str, ...], stated: Sequence[str], found: Sequence[str] | set[str]
) -> Iterator[tuple[tuple[str | int, ...], object, object]]:
    for number, name in enumerate(stated):
        if name not in found:
            yield (*keys, number), name, "none; leave it out"


def _reaches(level: str) -> bool:
    """Return whether this processor has all features of a level."""
    wanted = TARGETS.get(level) or TARGETS.get(level.replace("-", "_"))
    return wanted is not None and host() >= wanted


def to_yaml(has: Has, name: str) -> str:
    """Return a machine file with the machine's properties, and with examples of wishes as comments."""
    data = {"has": has.model_dump(by_alias=True, mode="json", exclude_defaults=True)}
    text = yaml.safe_dump(data, sort_keys=False, width=120, allow_unicode=True, default_flow_style=None)
    return _FILE.format(name=name, has=text)


_FILE = """\
# yaml-language-server: $schema=../../docs/schemas/machine.json
description: {name}
{has}# What it runs; glob patterns are those of matrix plan.
# wants:
#   suites: [smoke]
#   require: ["mlir/linalg-loops/x86_64/*"]       # first, also where they exceed the budget
#   prefer: ["pytorch/**"]                        # before the others
#   leave-out:
#     - match: ["**/topk"]
#       reason: Why this machine does not run them.
#   budget-minutes: 60                            # recorded seconds of the tests, divided by the cores
#   pins: {{llvm: "22"}}                            # as --pin sets them
#   devices: []                                   # as --device grants them
"""


def machine_of(home: Home) -> dict[str, Any]:
    """Return the system, processor, memory, disk and isolation of this machine."""
    cache = home.cache
    alone = ResolvedEnvironment(name="python", interpreter=interpreters.own(), packages=())
    lost = bound(alone, store=home.packages, bytecode=home.bytecode)["lost"]
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "free_bytes": free_bytes(cache),
        "namespaces": lost != NOTHING_HELD,
        # The isolation of actions that this machine lacks, as a clause.
        "isolation_lost": lost,
    }
