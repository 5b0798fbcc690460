"""System calls that mount, with their errors as OSError. All need root, or a user namespace of the caller's own."""

from __future__ import annotations

import ctypes
import os

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
#: For ``set_attributes``. The first four are those of ``mount``.
RDONLY, NOSUID, NODEV, NOEXEC = MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
#: System calls newer than some C libraries: the same on every architecture.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
#: By machine; older than the numbers that all share.
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

libc = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def check(code: int) -> int:
    """Return the result of a system call. Raise OSError for an error."""
    if code < 0:
        raise OSError(ctypes.get_errno(), f"the action cannot be isolated: {os.strerror(ctypes.get_errno())}")
    return code


def mount(kind: str, place: str, flags: int, options: str = "") -> None:
    """Mount a new file system of the kernel."""
    check(libc.mount(kind.encode(), os.fsencode(place), kind.encode(), flags, options.encode()))


def bind(source: str, place: str) -> None:
    """Mount a file, or a folder with all mounts in it, at a second place."""
    check(libc.mount(os.fsencode(source), os.fsencode(place), None, _MS_BIND | _MS_REC, None))


def make_private() -> None:
    """Hide later mounts of this namespace from all others."""
    libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)


def set_attributes(place: str, attributes: int, *, inside: bool = True) -> None:
    """Add flags to a mount and, if ``inside``, to all mounts in it. Needs Linux 5.12."""
    wanted = _Attributes(set=attributes)
    flags = _AT_RECURSIVE if inside else 0
    size = ctypes.sizeof(wanted)
    path = os.fsencode(place)
    check(libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, ctypes.byref(wanted), size))


def open_tree(path: str, *, inside: bool = False) -> int:
    """Return a descriptor of a new, detached mount of a folder, with all mounts in it if ``inside``."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | (_AT_RECURSIVE if inside else 0)
    return check(libc.syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags))


def move_mount(tree: int, place: str) -> None:
    """Attach a mount of ``open_tree``, which may be of another namespace."""
    check(libc.syscall(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(place), _MOVE_MOUNT_F_EMPTY_PATH))


def pivot(place: str, old: str) -> None:
    """Make the mount at ``place`` the root, with the old root at ``old``, the name of a folder in it."""
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError("the action cannot be isolated: the number of pivot_root is unknown on this architecture")
    os.chdir(place)
    check(libc.syscall(number, b".", os.fsencode(old)))
    os.chdir("/")


def detach(place: str) -> None:
    """Unmount a file system and all mounts in it."""
    check(libc.umount2(os.fsencode(place), _MNT_DETACH))
