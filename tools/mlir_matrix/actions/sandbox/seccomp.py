"""Which system calls an action may not make, beside what namespaces take away.

Sockets: those with a path or between machines of one host (``AF_UNIX``, ``AF_VSOCK``, …) go past a network namespace, to
daemons of this machine or to another action, which could be handed a file over them. ``io_uring`` can do the same unseen.
Keyrings are shared by all that a user runs. New namespaces: in one of users an action would be root again, and reach parts of
the kernel that only root reaches. The filter is classic BPF over Linux's ``struct seccomp_data``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
#: BPF: load a word of the data, jump where it is equal, where it is at least, where it has a bit, return.
_LOAD, _EQUAL, _AT_LEAST, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
CLONE_NEWUSER = 0x10000000
#: Offsets in the data: number of the call, architecture, low half of the first argument (little-endian).
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
#: BPF: take the bits of an operand; those of a socket's type that are no flags.
_AND, _TYPE = 0x54, 0xF
_F_SETLEASE = 1024
#: By machine: AUDIT_ARCH, ``socket``, ``socketpair``, ``fcntl``, ``clone``, and calls that are taken for not there:
#: io_uring_setup, add_key, request_key, keyctl, unshare, setns, clone3 (a filter cannot see its flags; C libraries then use
#: clone), userfaultfd, memfd_secret, fanotify_init, bpf, perf_event_open.
_MACHINES = {
    "x86_64": (0xC000003E, 41, 53, 72, 56, (425, 248, 249, 250, 272, 308, 435, 323, 447, 300, 321, 298)),
    "aarch64": (0xC00000B7, 198, 199, 25, 220, (425, 217, 218, 219, 97, 268, 435, 282, 447, 262, 280, 241)),
}
#: x86-64 has a second numbering of the same calls, from here on.
_X32 = 0x40000000
_FAMILIES = (socket.AF_INET, socket.AF_INET6, 16)  # netlink: of the network namespace, and asked for its interfaces

_prctl = ctypes.CDLL(None, use_errno=True).prctl


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


class _Instruction(NamedTuple):
    """An instruction of BPF. A condition jumps to the label ``then`` or ``otherwise``, where there is one, else goes on."""

    code: int
    operand: int
    then: str = ""
    otherwise: str = ""
    label: str = ""


def _instructions(machine: str) -> Iterator[_Instruction]:
    """Yield the filter, from its first instruction to its last."""
    arch, making_sockets, pairing, control, cloning, absent = _MACHINES[machine]
    yield _Instruction(_LOAD, _ARCH)
    yield _Instruction(_EQUAL, arch, otherwise="absent")
    yield _Instruction(_LOAD, _NUMBER)
    yield _Instruction(_AT_LEAST, _X32, then="absent")
    for number in absent:
        yield _Instruction(_EQUAL, number, then="absent")
    # Without a user namespace the other kinds need privileges.
    yield _Instruction(_EQUAL, cloning, otherwise="control")
    yield _Instruction(_LOAD, _FIRST)
    yield _Instruction(_HAS, CLONE_NEWUSER, then="absent", otherwise="allowed")
    # An action that leases a file blocks others that open it, through read-only binds too.
    yield _Instruction(_EQUAL, control, otherwise="pair", label="control")
    yield _Instruction(_LOAD, _SECOND)
    yield _Instruction(_EQUAL, _F_SETLEASE, then="absent", otherwise="allowed")
    # A datagram socket of a pair can be disconnected and bound, and then sends to any name, open files included.
    yield _Instruction(_EQUAL, pairing, otherwise="socket", label="pair")
    yield _Instruction(_LOAD, _SECOND)
    yield _Instruction(_AND, _TYPE)
    yield _Instruction(_EQUAL, socket.SOCK_STREAM, then="allowed", otherwise="unsupported")
    yield _Instruction(_EQUAL, making_sockets, otherwise="allowed", label="socket")
    yield _Instruction(_LOAD, _FIRST)
    for family in _FAMILIES:
        yield _Instruction(_EQUAL, family, then="allowed")
    yield _Instruction(_RETURN, _ERRNO | errno.EAFNOSUPPORT, label="unsupported")
    yield _Instruction(_RETURN, _ALLOW, label="allowed")
    yield _Instruction(_RETURN, _ERRNO | errno.ENOSYS, label="absent")


@cache
def _assemble(machine: str) -> bytes:
    """Return the filter in the form of the kernel: code, jump if true, jump if false, operand."""
    program = list(_instructions(machine))
    places = {each.label: place for place, each in enumerate(program)}
    code = b""
    for place, each in enumerate(program):
        # Jumps count from the next instruction.
        jumps = [places[label] - place - 1 if label else 0 for label in (each.then, each.otherwise)]
        code += struct.pack("<HBBI", each.code, *jumps, each.operand)
    return code


def prepare() -> bytes:
    """Assemble the filter once for all children; empty for an unknown architecture."""
    machine = os.uname().machine
    return _assemble(machine) if machine in _MACHINES else b""


def restrict() -> bool:
    """Refuse these calls to this process and its children, for good. It must have set no_new_privs.

    Returns whether the kernel does so.
    """
    code = prepare()
    if not code:
        return False
    program = _Program(len(code) // 8, code)
    return bool(_prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)
