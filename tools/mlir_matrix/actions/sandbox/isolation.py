"""Isolate a worker and its actions: from the network, other processes, other files and privileges.

It uses namespaces of the kernel. Root can create them, and other users where the kernel allows unprivileged user namespaces.
``Spaces.lost`` or ``NOTHING_HELD`` says what is not isolated. Limits on memory and time always hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence

from mlir_matrix.actions.contract import INPUT_FOLDER
from mlir_matrix.actions.sandbox import mounts, root, seccomp

_CLONE_FS = 0x00000200
_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE = 1
_LAST_CAPABILITY = 40
_OWN_PROCESSES, _OWN_MOUNTS = "/proc/self/ns/pid", "/proc/self/ns/mnt"
_IFF_UP = 1
#: Limits of an action: its processes and threads at a time, and the open files of each process.
PROCESSES, OPEN_FILES = 1024, 4096
#: Since this release the kernel counts processes by user namespace and not only by user.
_COUNTS_BY_NAMESPACE = (5, 14)

NOTHING_HELD = (
    "cannot create namespaces: actions run with network access, see other processes, read and write whatever their user "
    "can, and may start any number of processes"
)
_FILES_NOT_HELD = "cannot mount ({}): actions read and write whatever their user can"
_OLD_PROC = (
    "cannot mount a new /proc, because parts of the old one are hidden: actions see the numbers of other processes"
)
_UNCOUNTED = "the number of processes is not limited"
_UNFILTERED = "system calls are not filtered on this architecture: actions can connect to sockets with a path"
_INHERITED = "cannot build a root file system ({}): actions read whatever their user can"

#: All environment variables that an action sees, except those that name its own folders. With the first group, every x86-64
#: CPU gives the same bits. Otherwise OpenBLAS, NumPy, glibc's libm, PyTorch, MKL and oneDNN choose code by the CPU's features.
#: The names are those of NumPy 1.26 to 2.5. NumPy ignores a feature that it does not dispatch on, and refuses one of its
#: baseline. The last two tunables are for glibc before 2.33.
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
#: Types and functions are resolved once here: each child would spend 0.1 ms on them.
_Header, _Sets = ctypes.c_uint32 * 2, ctypes.c_uint32 * 6
_capget, _capset, _prctl = _libc.capget, _libc.capset, _libc.prctl


def enter(declared: Sequence[str] | None = None, *, network: bool = False) -> Spaces | None:
    """Move this process, which must be single-threaded, into new namespaces without any network, not even loopback.

    On success, the caller continues in a forked child, the first process of its namespace. No process inside can end or stop
    that child by a signal, and all processes inside end with it. The original process only waits for the child. Return None
    on failure. Even then the network may already be disabled. ``declared``: the files of this machine that actions see; None:
    all that the caller sees. ``network``: the caller keeps the machine's network.
    """
    # A container isolates already; namespaces inside it add nothing, even where it allows them.
    if contained():
        shield(True)
        return None
    # Namespaces need /proc. The first process is a shell where ``root.build`` cannot write a program for it.
    possible = all(map(os.path.exists, (_OWN_PROCESSES, root.SHELL)))
    # Before the new namespace: inside, the kernel may list mapped files under other names.
    paths = root.bound(declared) if declared is not None else None
    net = 0 if network else _CLONE_NEWNET
    if not possible or not _unshare(net | _CLONE_NEWIPC | _CLONE_NEWNS | _CLONE_NEWPID):
        _unshare(net)
        shield(True)
        return None
    die_with_parent()
    pid = os.fork()
    if pid:
        _stand_by(pid)
    die_with_parent()
    mounts.make_private()
    return Spaces(paths)


def lost(spaces: Spaces | None) -> str:
    """Return what this worker cannot isolate, as a clause; empty if isolation is complete."""
    if spaces is not None:
        return spaces.lost
    return "" if contained() else NOTHING_HELD


def contained() -> bool:
    """Return whether a container isolates us: this is its first process, its root is read-only, and it has no network."""
    if os.getpid() != 1 or not os.statvfs("/").f_flag & os.ST_RDONLY:
        return False
    # Only the first process of a container needs this module; others start faster without it.
    import socket

    return not any(_is_up(name) for _, name in socket.if_nameindex() if name != "lo")


def _is_up(interface: str) -> bool:
    """Return whether an interface is up. Kernels with tunnels add an interface that is down to every network namespace."""
    try:
        with open(f"/sys/class/net/{interface}/flags", encoding="ascii") as file:
            return bool(int(file.read(), 16) & _IFF_UP)
    except (OSError, ValueError):
        return True


def _unshare(flags: int, proc: str | int = "/proc") -> bool:
    """Enter new namespaces, with one of users if this process is not root. ``proc``: a writable /proc."""
    uid, gid = os.getuid(), os.getgid()
    flags |= seccomp.CLONE_NEWUSER if uid != 0 else 0
    if _libc.unshare(flags) != 0:
        return False
    if flags & seccomp.CLONE_NEWUSER:
        at = os.open(proc, os.O_PATH | os.O_CLOEXEC) if isinstance(proc, str) else proc
        # Without these maps, tools that look up the owner of the process find «nobody».
        for name, text in (
            ("setgroups", b"deny"),
            ("uid_map", b"%d %d 1" % (uid, uid)),
            ("gid_map", b"%d %d 1" % (gid, gid)),
        ):
            with contextlib.suppress(OSError):
                file = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=at)
                os.write(file, text)
                os.close(file)
        if at != proc:
            os.close(at)
    return True


def _stand_by(pid: int) -> None:
    """Wait for the child that does the work, and exit as it did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # This process ends only after the child, and thus after all processes in the child's namespace.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        # Only the child then holds the pipes of requests and answers, so their ends show that it has ended.
        os.dup2(null, descriptor)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


class Spaces:
    """Makes namespaces for each action: one of processes, and one of mounts with all files that the action may see.

    The worker itself stays outside: it hands out folders, and follows links that Bazel lays.
    """

    def __init__(self, paths: Sequence[str] | None) -> None:
        self._own = [(os.open(_OWN_MOUNTS, os.O_RDONLY | os.O_CLOEXEC), _CLONE_NEWNS)]
        self._own += [(os.open(_OWN_PROCESSES, os.O_RDONLY | os.O_CLOEXEC), _CLONE_NEWPID)]
        # Entering a mount namespace changes the root and the current folder.
        self._root, self._here, self._proc = (os.open(path, os.O_PATH | os.O_CLOEXEC) for path in ("/", ".", "/proc"))
        self._first_user = root.FIRST_USER if _has_users() else 0
        self._users = set(range(self._first_user, self._first_user + root.USERS))
        #: The most processes and threads that an action may have at a time.
        self.processes = PROCESSES
        #: What is not isolated, as a clause.
        self.lost = ""
        self._template = self._lay(paths)
        # Root of a user namespace may be root outside, and the kernel does not limit root's processes.
        counted = self._first_user or (os.getuid() != 0 and _release() >= _COUNTS_BY_NAMESPACE)
        more = ("" if counted else _UNCOUNTED, "" if seccomp.prepare() else _UNFILTERED)
        self.lost = "; ".join(filter(None, (self.lost, *more)))

    @property
    def has_root(self) -> bool:
        """Return whether actions have a root file system that is built from declared paths only."""
        return self._template is not None and bool(self._template[-1].folder)

    def _lay(self, paths: Sequence[str] | None) -> tuple[int, int, root.Laid] | None:
        """Make the mount namespace that each action gets a copy of; None if the kernel refuses."""
        if paths is not None:
            try:
                return self._laid(lambda: root.build(paths))
            except OSError as error:
                self.lost = _INHERITED.format(error.strerror or error)
        try:
            return self._laid(root.inherit)
        except OSError as error:
            self.lost = _FILES_NOT_HELD.format(error.strerror or error)
            return None

    def _laid(self, lay: Callable[[], root.Laid]) -> tuple[int, int, root.Laid]:
        try:
            mounts.check(_libc.unshare(_CLONE_FS | _CLONE_NEWNS))
            root.leave_plain_folder()
            laid = lay()
            self.lost = self.lost or ("" if laid.new_proc else _OLD_PROC)
            return os.open(_OWN_MOUNTS, os.O_RDONLY | os.O_CLOEXEC), os.open("/", os.O_PATH | os.O_CLOEXEC), laid
        finally:
            self.back()

    def back(self) -> None:
        for descriptor, kind in self._own:
            mounts.check(_libc.setns(descriptor, kind))
        _enter_root(self._root)
        os.fchdir(self._here)

    def open(self, folder: str, *, alone: bool, devices: Sequence[str] = ()) -> Space:
        """Enter namespaces for the action in ``folder``; the next fork of this process begins in them.

        The caller calls ``back`` after the fork. ``alone``: hide the folders beside it, if they are visible.
        ``devices``: devices of the machine that this action gets beside its own. Raise OSError if the kernel refuses.
        """
        try:
            if self._template is None:
                mounts.check(_libc.unshare(_CLONE_NEWPID))
            else:
                folder = self._enter(folder, *self._template, alone=alone, devices=devices)
            return self._space(folder)
        except OSError:
            self.back()
            raise

    def _enter(
        self, folder: str, template: int, top: int, laid: root.Laid, *, alone: bool, devices: Sequence[str]
    ) -> str:
        """Enter a copy of the mounts and move the action's folder into it. Return the folder's path there."""
        tree = mounts.open_tree(folder)
        try:
            # Only the old namespace shows the machine's /dev.
            trees = root.open_devices(devices) if devices else None
            mounts.check(_libc.unshare(_CLONE_FS))
            mounts.check(_libc.setns(template, _CLONE_NEWNS))
            _enter_root(top)
            mounts.check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID))
            if trees:
                root.mount_devices(trees)
            for place, kept in laid.empty.items():
                root.mount_empty(place, kept)
            if alone and not laid.folder:
                root.mount_empty(os.path.dirname(folder))
                os.mkdir(folder)
            _place(tree, laid.folder or folder)
        finally:
            os.close(tree)
        return laid.folder or folder

    def _space(self, folder: str) -> Space:
        if self._first_user and not self._users:
            raise OSError(errno.EAGAIN, "all users of this worker are in use")
        user = self._users.pop() if self._first_user else None
        try:
            return Space(self, folder, user, self._template[-1].first if self._template else root.Laid.first)
        except OSError:
            self.free(user)
            raise

    def free(self, user: int | None) -> None:
        if user is not None:
            self._users.add(user)

    def confine(self, space: Space) -> None:
        """Hide processes and memory of others, and become a user whose processes are counted apart. Runs in the child."""
        mounts.check(_libc.unshare(_CLONE_NEWIPC))
        if self._template is not None and self._template[-1].new_proc:
            root.mount_proc()
        if not self._first_user:
            # In the worker's user namespace, an action could inspect the first process, and all actions would share one count.
            if not _unshare(seccomp.CLONE_NEWUSER, self._proc):
                raise OSError(ctypes.get_errno(), "the kernel refuses a user namespace for an action")
            if _release() >= _COUNTS_BY_NAMESPACE:
                _limit(resource.RLIMIT_NPROC, self.processes)
        elif space.user is not None:
            _become(space.user, self.processes)


def _enter_root(top: int) -> None:
    """Make a folder of this namespace the root. In a chroot, it differs from the root of the namespace."""
    os.fchdir(top)
    os.chroot(".")


def _place(tree: int, folder: str) -> None:
    """Mount the action's folder where the action sees it, its inputs read-only."""
    mounts.move_mount(tree, folder)
    mounts.set_attributes(folder, mounts.NOSUID | mounts.NODEV)
    inputs = os.path.join(folder, INPUT_FOLDER)
    if os.path.isdir(inputs):
        mounts.bind(inputs, inputs)
        mounts.set_attributes(inputs, mounts.RDONLY)


def _has_users() -> bool:
    """Return whether this process may become any of the users that are reserved for actions."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        ranges = [(int(first), int(size)) for first, _, size in map(str.split, file)]
    return os.getuid() == 0 and any(root.FIRST_USER - first in range(size - root.USERS) for first, size in ranges)


def _release() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def _become(user: int, processes: int) -> None:
    """Turn root into a user that owns nothing and can still use its folder. The kernel does not limit root's processes."""
    _limit(resource.RLIMIT_NPROC, processes)
    _prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    header, held = _capabilities()
    _capset(header, _Sets(held[1], held[1], held[2], held[4], held[4], held[5]))
    # The kernel makes a process that changes its user undumpable.
    _prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


class Space:
    """Namespaces of an action. To kill them ends every process inside, whatever group or session it moved to.

    The first process only waits, and is not the action: a first process ignores its own signals, ``abort`` included. Spawning
    it is cheaper than forking a process that has imported a framework. It starts in the action's root, so it gives no access
    to other files.
    """

    def __init__(self, spaces: Spaces, folder: str, user: int | None, first: Sequence[str]) -> None:
        """``first``: the command of the first process."""
        self._spaces = spaces
        #: The path at which the action sees its folder, and the number of the user that the action becomes.
        self.folder = folder
        self.user = user
        read, self._hold = os.pipe()
        try:
            self._first = os.posix_spawn(first[0], [*first], {}, file_actions=_only_stdin(read))
        except OSError:
            os.close(self._hold)
            raise
        finally:
            os.close(read)

    def confine(self) -> None:
        """Isolate the child from all that it still shares with the worker. Raise OSError if that fails."""
        self._spaces.confine(self)
        ends_together.add(self._first)

    def leave(self) -> None:
        """Return the worker to its own namespaces."""
        self._spaces.back()

    def kill(self) -> None:
        """End all processes inside. The caller then reaps its own child there and calls ``close``."""
        os.kill(self._first, signal.SIGKILL)

    def close(self) -> None:
        """Wait until all processes inside have ended."""
        os.waitpid(self._first, 0)
        os.close(self._hold)
        self._spaces.free(self.user)


def _only_stdin(descriptor: int) -> list[tuple[int | str, ...]]:
    """Give the first process one descriptor to read from, and none of the worker's descriptors to write to."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    return [(os.POSIX_SPAWN_DUP2, descriptor, 0), *null]


#: In a child: the first process of its namespace, with which all others end. Empty if there is no namespace.
ends_together: set[int] = set()
#: In a child: the MiB of memory that it may use.
memory_limits: set[int] = set()


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)


def children(process: int | str = "self") -> list[int]:
    """Return the children that a process has not waited for; none if /proc does not show them."""
    found = list[int]()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            # The thread may end meanwhile.
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as file,
            ):
                found += map(int, file.read().split())
    return found


def shield(on: bool) -> None:
    """Forbid or allow that processes of the same user inspect this one. A child allows it again."""
    _prctl(_PR_SET_DUMPABLE, int(not on), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of all orphaned descendants, so that none can hide by forking twice."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def drop_privileges() -> None:
    """Give up the privileges of root, now and in all programs that start from here."""
    header, held = _capabilities()
    # A former root needs CAP_DAC_OVERRIDE to enter its folder. In a user namespace it has no effect outside.
    kept = held[1] & 1 << _CAP_DAC_OVERRIDE if os.getuid() == 0 or os.getuid() >= root.FIRST_USER else 0
    for capability in range(_LAST_CAPABILITY + 1):
        if not kept >> capability & 1:
            _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _capset(header, _Sets(kept, kept, kept, 0, 0, 0))
    if kept and os.getuid() != 0:
        # A program that does not run as root keeps only ambient capabilities when it starts.
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    seccomp.restrict()


def _capabilities() -> tuple[ctypes.Array[ctypes.c_uint32], ctypes.Array[ctypes.c_uint32]]:
    """Return the arguments of ``capset``: a header, and the effective, permitted and inheritable sets, low and high words."""
    header, held = _Header(_CAPABILITY_VERSION_3, 0), _Sets()
    _capget(header, held)
    return header, held


def limit_resources(*, memory_mb: int, mapped: bool = True) -> None:
    """Limit private memory (MiB on top of what is mapped now), the size of files (4 GiB each) and core dumps.

    Memory that the process was forked with does not count. Shared memory counts only as address space, whose limit is twice as
    high. If the machine itself runs out of memory, the kernel kills this process first. ``mapped``: false for programs that map
    terabytes that they do not use; their memory is not limited here.
    """
    # Unbuffered bytes: a text file makes a forked child copy five times as many pages.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"1000")
    memory = memory_mb << 20
    memory_limits.add(memory_mb)
    space, data = _sizes()
    of_memory = ((resource.RLIMIT_DATA, data + memory), (resource.RLIMIT_AS, space + 2 * memory))
    for kind, value in (
        *(of_memory if mapped else ()),
        (resource.RLIMIT_FSIZE, 4 << 30),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _limit(kind, value)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def _sizes() -> tuple[int, int]:
    """Return the bytes of address space and of private data of this process; large numbers if they are unknown."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            pages = [int(word) * resource.getpagesize() for word in file.read().split()]
            return pages[0], pages[5]
    except (OSError, LookupError):
        return sys.maxsize >> 20, sys.maxsize >> 20


def memory_kills() -> int:
    """Return how many processes this machine has killed for lack of memory since it started; 0 if unknown."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0
