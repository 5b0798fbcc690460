"""Compute fingerprints of folders, of catalogs and of the machine without reading files.

Equal fingerprints mean that no file changed.

A file is unchanged if its device, inode, mode, size, modification and change time are the same. The times of a folder show
whether files were added or removed. Two changes within one tick of a file system's clock leave the same times, so a fingerprint
covers a file only if its times are older. It does not cover file systems of a network or of a virtual machine's host, because
they may return cached attributes for a minute. It does not cover those without change times, like FAT and images.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache
from glob import glob
from operator import attrgetter
from pathlib import Path

from mlir_matrix.base.digest import digest_bytes, digest_value

#: Longer than a tick of the coarsest clock of a file system in use.
_TICK_NS = 2_500_000_000
#: Beginnings of names of file system types.
_REMOTE = (
    *("nfs", "cifs", "smb", "9p", "virtiofs", "ceph", "afs", "lustre", "gpfs", "beegfs", "glusterfs", "fuse", "coda"),
    *("orangefs", "pvfs2", "panfs", "wekafs", "vboxsf", "vmhgfs", "prl_fs", "fakeowner", "osxfs"),
)
_NO_CHANGE_TIME = ("vfat", "msdos", "exfat", "squashfs", "erofs", "cramfs", "romfs", "iso9660", "udf")
_MOUNTS = "/proc/self/mountinfo"
#: Where kernel modules have their releases, and the models of GPUs.
_GPU_FACTS = (
    "/proc/driver/nvidia/version", "/proc/driver/nvidia/gpus/*/information", "/sys/module/amdgpu/version",
    "/sys/class/kfd/kfd/topology/nodes/*/name",
)  # fmt: skip
#: Folders of a catalog that a command may read; kernels are linked with the driver.
PLAN_FOLDERS = ("matrix", "recipes", "toolchains", "containers", "golden", "tools/driver")
_PACKAGE = str(Path(__file__).resolve().parents[1])
_name = attrgetter("name")


class Fingerprint:
    """The collected attributes of files."""

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._newest = 0
        self._devices: set[int] = set()
        self._lines: list[str] = []

    def add_folder(self, folder: str) -> None:
        """Add all files below a folder, which need not exist. Raise OSError if it cannot be read, or has a link or a device."""
        if os.path.lexists(folder):
            self._sweep(folder)

    def _sweep(self, folder: str) -> None:
        it = os.lstat(folder)
        if not stat.S_ISDIR(it.st_mode):
            raise OSError(f"{folder} is not a folder")
        self._note(folder, it)
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=_name):
                if entry.is_dir(follow_symlinks=False):
                    self._sweep(entry.path)
                else:
                    self._add(entry.path, entry.stat(follow_symlinks=False))

    def add_files(self, files: Iterable[str]) -> None:
        """Add files. Raise OSError if one is missing."""
        for file in files:
            self._add(file, os.lstat(file))

    def _add(self, path: str, it: os.stat_result) -> None:
        if not stat.S_ISREG(it.st_mode):
            raise OSError(f"{path} is not a regular file")
        self._note(path, it)

    def _note(self, path: str, it: os.stat_result) -> None:
        changed, modified = it.st_ctime_ns, it.st_mtime_ns
        self._newest = max(self._newest, changed, modified)
        self._devices.add(it.st_dev)
        self._lines.append(f"{path} {it.st_dev} {it.st_ino} {it.st_mode} {it.st_size} {modified} {changed}")

    def add_names(self, folder: str) -> None:
        """Add the names of the folders in a folder. Raise OSError."""
        with os.scandir(folder) as entries:
            self._lines += sorted(entry.name for entry in entries if entry.is_dir())

    def add_value(self, value: object) -> None:
        self._lines.append(repr(value))

    def digest(self) -> str:
        return digest_bytes("\n".join(self._lines).encode(errors="surrogateescape"))

    def is_settled(self, since: Fingerprint | None = None) -> bool:
        """Return whether any later change is visible: no file changed shortly before ``since`` (default: this) began.

        Raise OSError if that is unknown.
        """
        return self._newest < (since or self)._began - _TICK_NS and not self._devices & _untrusted_devices()


def _untrusted_devices() -> set[int]:
    """Return the devices of file systems that may be remote or have no change times."""
    found = set()
    with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
        for line in file:
            mount, _, source = line.partition(" - ")
            if source.startswith((*_REMOTE, *_NO_CHANGE_TIME)):
                major, minor = mount.split()[2].split(":")
                found.add(os.makedev(int(major), int(minor)))
    return found


@cache
def cpu_digest() -> str:
    """Return the digest of the CPU's model and features, on which native code generation depends."""
    wanted = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part", "isa")
    facts: dict[str, str] = {"machine": os.uname().machine}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if not line.strip():
                    break
                if name.strip() in wanted:
                    facts[name.strip()] = value.strip()
    except OSError:
        facts["cpuinfo"] = "unreadable"
    return digest_value(facts)


@cache
def gpu_digest() -> str:
    """Return the digest of the releases of GPU drivers and of the models of GPUs, on which results of kernels on them depend."""
    facts = []
    for pattern in _GPU_FACTS:
        for path in sorted(glob(pattern)):
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                # The other lines about a GPU name its place and its serial number.
                named = path.endswith("/information")
                facts += [line for line in file if line.startswith("Model:") or not named]
    return digest_value(facts)


def machine_identity() -> list[object]:
    """Return the properties of this machine and interpreter that results depend on. Of programs on PATH, only Pythons."""
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    packages = [(folder, os.stat(folder).st_mtime_ns) for folder in sys.path if os.path.isdir(folder)]
    # An interpreter on PATH replaces the locked one of an environment.
    places = (f"{folder}/python3.{minor}" for folder in os.get_exec_path() for minor in range(11, 20))
    pythons = [place for place in places if os.access(place, os.X_OK)]
    python = [sys.version, os.path.realpath(sys.executable)]
    return [*python, libc, os.geteuid(), cpu_digest(), gpu_digest(), packages, pythons]


def is_covered(path: str) -> bool:
    """Return whether a path, from the folder of a catalog, is below the folders that ``fingerprint_of`` covers."""
    return path.startswith(tuple(f"{folder}/" for folder in PLAN_FOLDERS))


def fingerprint_of(roots: Sequence[str]) -> Fingerprint:
    """Return the fingerprint of what catalogs have in ``PLAN_FOLDERS``, the names of the folders beside these, the program's own
    code, the interpreter with the packages it has, and the CPU. Raise OSError.
    """
    found = Fingerprint()
    found.add_value([list(map(os.path.realpath, roots)), machine_identity()])
    found.add_folder(_PACKAGE)
    for root in roots:
        found.add_names(root)
        for name in PLAN_FOLDERS:
            found.add_folder(f"{root}/{name}")
    return found
