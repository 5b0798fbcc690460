"""Refuse system calls with which an action could bypass its namespaces.

Sockets of ``AF_UNIX``, ``AF_VSOCK`` and other families ignore the network namespace. Through them, an action could reach
daemons of this machine, or pass an open file to another action. ``io_uring`` can do the same without these calls. All processes
of a user share keyrings. In a new user namespace, an action would be root again, and could call parts of the kernel that only
root may call. The filter is classic BPF over Linux's ``struct seccomp_data``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from functools import cache

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
#: BPF: load a word of the data, jump if it is equal, jump if it is at least, jump if it has a bit, return.
_LOAD, _EQUAL, _AT_LEAST, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
CLONE_NEWUSER = 0x10000000
#: Offsets in the data: number of the call, architecture, low half of the first argument (little-endian).
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
#: BPF: mask by an operand. The mask selects the bits of a socket's type that are not flags.
_AND, _TYPE = 0x54, 0xF
_F_SETLEASE = 1024
#: By machine: AUDIT_ARCH, ``socket``, ``socketpair``, ``fcntl``, ``clone``, and calls that fail with ENOSYS:
#: io_uring_setup, add_key, request_key, keyctl, unshare, setns, clone3, userfaultfd, memfd_secret, fanotify_init, bpf,
#: perf_event_open. A filter cannot see the flags of clone3; without it, C libraries use clone.
_MACHINES = {
    "x86_64": (0xC000003E, 41, 53, 72, 56, (425, 248, 249, 250, 272, 308, 435, 323, 447, 300, 321, 298)),
    "aarch64": (0xC00000B7, 198, 199, 25, 220, (425, 217, 218, 219, 97, 268, 435, 282, 447, 262, 280, 241)),
}
#: On x86-64, a second numbering of the same calls begins here.
_X32 = 0x40000000
_FAMILIES = (socket.AF_INET, socket.AF_INET6, 16)  # netlink: of the network namespace, and asked for its interfaces

_prctl = ctypes.CDLL(None, use_errno=True).prctl


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


@cache
def _assemble(machine: str) -> bytes:
    """Return the filter: instructions of (code, jump if true, jump if false, operand). Jumps count from the next one."""
    arch, making_sockets, pairing, control, cloning, absent = _MACHINES[machine]
    refuse = [
        (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    families = [(_LOAD, 0, 0, _FIRST)]
    families += [(_EQUAL, len(_FAMILIES) - number, 0, family) for number, family in enumerate(_FAMILIES)]
    body = [(_EQUAL, 0, len(families) + 1, making_sockets), *families, *refuse]
    # A datagram socket of a pair can be disconnected and bound. Then it can send anything to any name, also open files.
    wrong = len(body) - 1
    body = [
        (_EQUAL, 0, 3, pairing),
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _TYPE),
        (_EQUAL, wrong - 1, wrong - 2, socket.SOCK_STREAM),
        *body,
    ]
    # A process that leases a file blocks others that open it, also through read-only mounts.
    absent_call = len(body) - 1
    body = [(_EQUAL, 0, 2, control), (_LOAD, 0, 0, _SECOND), (_EQUAL, absent_call, absent_call - 1, _F_SETLEASE), *body]
    # Other kinds of namespaces need privileges, which only a user namespace gives.
    body = [(_EQUAL, 0, 2, cloning), (_LOAD, 0, 0, _FIRST), (_HAS, len(body) - 1, len(body) - 2, CLONE_NEWUSER), *body]
    # Each of these calls jumps to the last instruction, which fails with ENOSYS.
    for number in reversed(absent):
        body = [(_EQUAL, len(body) - 1, 0, number), *body]
    body = [(_AT_LEAST, len(body) - 1, 0, _X32), *body]
    body = [(_LOAD, 0, 0, _NUMBER), *body]
    body = [(_EQUAL, 0, len(body) - 1, arch), *body]
    body = [(_LOAD, 0, 0, _ARCH), *body]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in body)


def prepare() -> bytes:
    """Assemble the filter once for all children; empty for an unknown architecture."""
    machine = os.uname().machine
    return _assemble(machine) if machine in _MACHINES else b""


def restrict() -> bool:
    """Refuse these calls to this process and its children permanently. The process must have set no_new_privs.

    Return whether the kernel accepts the filter.
    """
    code = prepare()
    if not code:
        return False
    program = _Program(len(code) // 8, code)
    return bool(_prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)
