"""Find the driver of a GPU: libraries of this machine, which must fit its kernel module, so no lock file can name them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from glob import glob
from typing import NamedTuple

from mlir_matrix.actions.sandbox.root import needed_by

_LOADER_CACHE = "/etc/ld.so.cache"
#: Where containers, WSL, NixOS and ROCm's packages have libraries that the loader's cache may not list.
_FOLDERS = (
    "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/opt/rocm/lib", "/usr/lib64", "/usr/lib",
)  # fmt: skip
#: The first character by which a glob differs from a path.
_GLOB = re.compile(r"[*?\[{]")
_NUMBER = re.compile(r"\b\d+(?:\.\d+)+\b")
_ELF_64_BIT = b"\x7fELF\x02"


class Driver(NamedTuple):
    """What a kind of GPU needs of its machine."""

    #: How the paths of its devices begin.
    devices: str
    #: The library that programs load, to whose name a release may be added, and globs of those that it loads from the same folder.
    library: str
    beside: tuple[str, ...]
    #: The file in which the kernel has the release of its module.
    release: str
    #: Globs of the kernel's files that the library reads.
    state: tuple[str, ...] = ()


CUDA = Driver("/dev/nvidia", "libcuda.so.1", ("libcuda*.so*", "libnvidia-*.so*"), "/proc/driver/nvidia/version")
HIP = Driver(
    "/dev/kfd",
    "libamdhip64.so",
    ("libamd*.so*", "libhsa-*.so*", "libhip*.so*", "librocprofiler*.so*"),
    "/sys/module/amdgpu/version",
    ("/sys/devices/virtual/kfd", "/sys/class/kfd", "/sys/class/drm", "/sys/dev/char", "/sys/devices/pci*"),
)
DRIVERS = {"cuda": CUDA, "hip": HIP}


def library_path(driver: Driver) -> str:
    """Return the path of a driver's library; empty if this machine has none."""
    name = rf"{re.escape(driver.library)}(?:\.\d+)?"
    try:
        with open(_LOADER_CACHE, "rb") as file:
            cached = {os.fsdecode(path) for path in re.findall(rf"/[^\0]*/{name}(?=\0)".encode(), file.read())}
    except OSError:
        cached = set()
    in_folders = [path for folder in _FOLDERS for path in glob(f"{folder}/{driver.library}*")]
    others = [path for path in in_folders if re.fullmatch(name, os.path.basename(path))]
    # The release with the highest number; the loader's cache also lists libraries for 32 bits.
    return next(filter(_is_64_bit, [*sorted(cached, reverse=True), *others]), "")


def driver_release(driver: Driver) -> str:
    """Return the release of a driver's kernel module; empty if that is not loaded, or names no release."""
    try:
        with open(driver.release, encoding="utf-8", errors="replace") as file:
            number = _NUMBER.search(file.read())
    except OSError:
        return ""
    return number[0] if number else ""


def _is_64_bit(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_ELF_64_BIT)) == _ELF_64_BIT
    except OSError:
        return False


def has_gpu(devices: Iterable[str]) -> bool:
    """Return whether one of the devices belongs to a GPU."""
    return any(_may_be(device, driver) for device in devices for driver in DRIVERS.values())


def _may_be(device: str, driver: Driver) -> bool:
    """Return whether a device, or one of those that a glob matches, may be one of this driver."""
    literal = _GLOB.split(device, maxsplit=1)[0]
    return literal.startswith(driver.devices) or (literal != device and driver.devices.startswith(literal))


def files(devices: Collection[str]) -> Iterator[str]:
    """Yield the files of this machine without which devices that are granted cannot be used."""
    for driver in DRIVERS.values():
        path = library_path(driver) if any(_may_be(device, driver) for device in devices) else ""
        if path:
            yield from needed_by(path)
            folders = {os.path.dirname(path), os.path.dirname(os.path.realpath(path))}
            yield from (found for folder in folders for name in driver.beside for found in glob(f"{folder}/{name}"))
            yield from (found for name in driver.state for found in glob(name))
