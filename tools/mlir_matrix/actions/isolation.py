"""What a worker takes away before it runs anybody's code: network, other processes, all files but its own, privileges.

Namespaces of the kernel do it where they may be made (by root, or where unprivileged user namespaces are allowed);
everything here is best effort by design of the platform, not by choice: in a container that forbids them an action
keeps the network, sees other processes and may write where its user may. Limits on memory and time always hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import sys

from mlir_matrix.actions import seccomp
from mlir_matrix.actions.contract import INPUT_FOLDER

_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MOUNT_ATTR_RDONLY = 1
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
#: Of the system call ``mount_setattr``, which C libraries only know since 2022: the same on every architecture.
_SYS_MOUNT_SETATTR = 442
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE = 1
_LAST_CAPABILITY = 40
_OWN_PROCESSES, _SHELL = "/proc/self/ns/pid", "/bin/sh"
_IFF_UP = 1

#: The whole environment that an action sees, but for the folders, which are its own. The first group has every x86-64
#: CPU give the same bits: OpenBLAS, NumPy, glibc's libm, PyTorch, MKL and oneDNN choose code by its features otherwise.
#: NumPy (these names are of 1.26 to 2.5) ignores one that it does not dispatch on, and refuses one of its baseline. The
#: last two of glibc's are of releases before 2.33.
CLEAN_ENVIRONMENT = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "SSSE3 SSE41 POPCNT SSE42 AVX F16C XOP FMA4 FMA3 AVX2 AVX512F AVX512CD AVX512_KNL "
    "AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V3 X86_V4",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-FMA_Usable,-FMA4_Usable",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PATH": "",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "SOURCE_DATE_EPOCH": "0",
}

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def enter() -> Spaces | None:
    """Put this process, still single-threaded, into namespaces of its own, with not even a loopback network.

    Where that works fully, the caller goes on in a forked child, the first process of its namespace: nothing inside can
    send it a signal that ends or stops it, and all inside ends with it. The original process only waits for it. None
    where it does not; the network may then be gone all the same.
    """
    # Some containers allow namespaces inside, which would only be in the way there.
    if contained():
        shield(True)
        return None
    # A root without processes or a shell has nothing to make them with.
    possible = all(map(os.path.exists, (_OWN_PROCESSES, _SHELL)))
    if not possible or not _unshare(_CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWNS | _CLONE_NEWPID):
        _unshare(_CLONE_NEWNET)
        shield(True)
        return None
    die_with_parent()
    pid = os.fork()
    if pid:
        _stand_by(pid)
    die_with_parent()
    # What is mounted from here on must not show outside.
    _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    return Spaces()


def contained() -> bool:
    """Whether a container does all that: this is its first process, its root is read-only, and there is no network."""
    if os.getpid() != 1 or not os.statvfs("/").f_flag & os.ST_RDONLY:
        return False
    # Only the first process of a container comes here, and everybody else starts sooner without it.
    import socket

    return not any(_is_up(name) for _, name in socket.if_nameindex() if name != "lo")


def _is_up(interface: str) -> bool:
    """Kernels with tunnels put an end of each into every network, which leads nowhere until it is up."""
    try:
        with open(f"/sys/class/net/{interface}/flags", encoding="ascii") as file:
            return bool(int(file.read(), 16) & _IFF_UP)
    except (OSError, ValueError):
        return True


def _unshare(flags: int) -> bool:
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(flags if uid == 0 else flags | _CLONE_NEWUSER) != 0:
        return False
    if uid != 0:
        # Without a map the process would be «nobody» to tools that look up their owner.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with contextlib.suppress(OSError), open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    return True


def _stand_by(pid: int) -> None:
    """Wait for the child that does the work and end as it ended. Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Only when the child is gone, and with it all in its namespace, do we end: then nothing is left.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        # Whoever waits for the end of our requests or answers waits for the child's alone.
        os.dup2(null, descriptor)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


class Spaces:
    """Makes a process namespace for each action."""

    def __init__(self) -> None:
        self._own = os.open(_OWN_PROCESSES, os.O_RDONLY | os.O_CLOEXEC)

    def open(self) -> Space:
        """A namespace that the next fork of this process begins in. OSError where there can be no more."""
        _check(_libc.setns(self._own, _CLONE_NEWPID))
        _check(_libc.unshare(_CLONE_NEWPID))
        try:
            return Space()
        except OSError:
            _libc.setns(self._own, _CLONE_NEWPID)
            raise


class Space:
    """A process namespace: everything in it ends when it is ended, whatever group or session it moved to.

    Its first process is a shell that waits, and not the action: the first one is immune to its own signals, ``abort``
    included. The shell is cheap because it is spawned, not forked from a process with a framework in it.
    """

    def __init__(self) -> None:
        read, self._hold = os.pipe()
        try:
            self._first = os.posix_spawn(_SHELL, ["sh", "-c", "read x"], {}, file_actions=_only_stdin(read))
        except OSError:
            os.close(self._hold)
            raise
        finally:
            os.close(read)

    def kill(self) -> None:
        """End everything inside. The caller then reaps its own child there, and after that calls ``close``."""
        os.kill(self._first, signal.SIGKILL)

    def close(self) -> None:
        """Wait until nothing is left."""
        os.waitpid(self._first, 0)
        os.close(self._hold)


def _only_stdin(descriptor: int) -> list[tuple[int, int, int]]:
    return [(os.POSIX_SPAWN_DUP2, descriptor, 0)]


def confine(folder: str, *, alone: bool = False) -> bool:
    """In a child: make every file read-only but those in ``folder``, and of these its inputs too; hide others' processes.

    ``alone``: hide what lies beside the folder, which are other actions' folders. The caller changes into the folder
    afterwards. Returns whether files are read-only now: kernels before 5.12 cannot. OSError where this one fails to.
    """
    path = os.fsencode(folder)
    inputs = os.path.join(path, os.fsencode(INPUT_FOLDER))
    _check(_libc.unshare(_CLONE_NEWNS))
    for place in (path, inputs) if os.path.isdir(inputs) else (path,):
        _check(_libc.mount(place, place, None, _MS_BIND, None))
    if not _set_read_only(b"/", _AT_RECURSIVE):
        return False
    if alone:
        _hide_siblings(path)
    _check(_set_attributes(path, _MountAttributes(clear=_MOUNT_ATTR_RDONLY)))
    # A container that hides parts of /proc does not allow this; the old one is read-only by now.
    _libc.mount(b"proc", b"/proc", b"proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)
    return True


def _check(code: int) -> None:
    if code != 0:
        raise OSError(ctypes.get_errno(), f"the action cannot be isolated: {os.strerror(ctypes.get_errno())}")


def _set_attributes(path: bytes, attributes: _MountAttributes, flags: int = 0) -> int:
    size = ctypes.sizeof(attributes)
    return int(_libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, ctypes.byref(attributes), size))


def _set_read_only(path: bytes, flags: int = 0) -> bool:
    code = _set_attributes(path, _MountAttributes(set=_MOUNT_ATTR_RDONLY), flags)
    if code != 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        return False
    _check(code)
    return True


def _hide_siblings(path: bytes) -> None:
    """Put an empty file system over the folder that a folder is in, with nothing but that folder in it."""
    place = os.path.dirname(path)
    held = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _check(_libc.mount(b"none", place, b"tmpfs", _MS_NOSUID | _MS_NODEV, b"size=64k,nr_inodes=16,mode=0755"))
    os.mkdir(path)
    _check(_libc.mount(b"/proc/self/fd/%d" % held, path, None, _MS_BIND | _MS_REC, None))
    os.close(held)
    _set_read_only(place)


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent ends, however that happens."""
    _libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)


def shield(on: bool) -> None:
    """Keep processes of the same user from looking into this one, or into what it has open; a child puts that off."""
    _libc.prctl(_PR_SET_DUMPABLE, int(not on), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that none can hide by forking twice."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def drop_privileges() -> None:
    """Give up what root may do beyond its own files, now and in every program that is started from here."""
    kept = 1 << _CAP_DAC_OVERRIDE if os.geteuid() == 0 else 0
    for capability in range(_LAST_CAPABILITY + 1):
        if not kept >> capability & 1:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Effective, permitted, inheritable; then the same for capabilities from 32 on.
    _libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0))
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    seccomp.restrict()


def limit_resources(*, memory_mb: int) -> None:
    """Bound what more private memory (MiB) this process may take, and files (4 GiB), for good; no core dumps.

    What it was forked with does not count. Shared memory counts only as address space, of which there is twice as much.
    Should the machine itself run out of memory, this process is the first to go.
    """
    # As bytes, without a buffer: a text file's machinery costs a forked child five times as much in copied pages.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"1000")
    memory = memory_mb << 20
    space, data = _sizes()
    for kind, value in (
        (resource.RLIMIT_DATA, data + memory),
        (resource.RLIMIT_AS, space + 2 * memory),
        (resource.RLIMIT_FSIZE, 4 << 30),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def _sizes() -> tuple[int, int]:
    """Bytes of address space and of private data that this process has now; plenty where that cannot be known."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            pages = [int(word) * resource.getpagesize() for word in file.read().split()]
            return pages[0], pages[5]
    except (OSError, LookupError):
        return sys.maxsize >> 20, sys.maxsize >> 20


def memory_kills() -> int:
    """How many processes this machine has killed for want of memory since it started; 0 where it does not say."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0
