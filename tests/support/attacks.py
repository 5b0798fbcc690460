"""What a hostile program tries against the machine, each with the exact answer that it gets, wherever programs run.

An attack is one entry. It is a Python program that puts what came of it into ``found``; each executor that the entry names runs
it. Words stand for what the attacked user has: @victim is a folder with a socket that listens and a pipe, @home their home,
@folder one with what is theirs, @pid a process, @port a port that listens, @terminal their terminal; @most is more processes
than a program may start.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GONE, REFUSED, DENIED = "No such file or directory", "Operation not permitted", "Permission denied"
READ_ONLY, FULL, ABSENT = "Read-only file system", "No space left on device", "Function not implemented"
LINKED = "Invalid cross-device link"
PRELUDE = """
import ctypes, errno, glob, json, os, resource, signal, socket, sys, threading, time
found = {}
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, do, *arguments):
    try: found[name] = do(*arguments)
    except OSError as error: found[name] = error.strerror
def called(name, call, *arguments):
    ctypes.set_errno(0)
    found[name] = os.strerror(ctypes.get_errno()) if call(*arguments) == -1 else "done"
def written(path):
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try: os.write(descriptor, b"x")
    finally: os.close(descriptor)
    return "written"
def created(path):
    with open(path, "a") as file: file.write("x")
    return "written"
def listed(path): return sorted(os.listdir(path))
"""
#: Of a build: its prefix, and the folder that it works in.
BUILD = """
PREFIX = os.environ["PREFIX"]
WORK = PREFIX.removesuffix("made") + "build"
"""
#: Seconds that no one else sleeps at the same time.
FOREVER = "3002.25"


@dataclass(frozen=True)
class Attack:
    """A program, what it finds, and the executors that run it, each with what it finds there instead."""

    code: str
    finds: Mapping[str, Any]
    by: Mapping[str, Mapping[str, Any]]

    def program(self, executor: str) -> str:
        """Return the text of the program."""
        return PRELUDE + (BUILD if executor == "build" else "") + textwrap.dedent(self.code)

    def answers(self, executor: str) -> dict[str, Any]:
        """Return what it finds there."""
        return {**self.finds, **self.by[executor]}


def attacks_by(executor: str) -> dict[str, Attack]:
    """Return the attacks that an executor runs, by name."""
    return {name: attack for name, attack in ATTACKS.items() if executor in attack.by}


ACTION: Mapping[str, Mapping[str, Any]] = {"action": {}}
BUILT: Mapping[str, Mapping[str, Any]] = {"build": {}}
BOTH = {**ACTION, **BUILT}
ATTACKS = {
    # By all that runs programs
    "keys_and_folders": Attack(
        """
        for path in ("@home/.ssh/id", "/etc/shadow", "/etc/ssh", "/root/.ssh", "/var/lib", "/run", "/home", "@folder"):
            tried(path, open, path)
        """,
        dict.fromkeys(("@home/.ssh/id", "/etc/shadow", "/etc/ssh", "/root/.ssh", "/var/lib", "/run", "/home", "@folder"), GONE),
        BOTH,
    ),
    "the_first_process": Attack(
        """
        for way in ("root", "cwd"): tried(way, listed, f"/proc/1/{way}/")
        for name in ("mem", "environ"): tried(name, open, "/proc/1/" + name)
        called("ptrace", libc.ptrace, 16, 1, 0, 0)
        """,
        {**dict.fromkeys(("root", "cwd", "mem", "environ"), DENIED), "ptrace": REFUSED},
        BOTH,
    ),
    "other_processes": Attack(
        """
        found["secret"] = "secret" in str(os.environ)
        for path in glob.glob("/proc/[0-9]*/environ"):
            try: found["secret"] = found["secret"] or b"secret" in open(path, "rb").read()
            except OSError: pass
        tried("kill", os.kill, @pid, 9)
        """,
        {"secret": False, "kill": "No such process"},
        BOTH,
    ),
    "processes": Attack(
        """
        count = 0
        try:
            while count < 3 * @most:
                if os.fork() == 0: signal.pause()
                count += 1
        except OSError as error: found["fork"] = error.strerror
        found["bounded"] = 900 < count < @most
        try: threading.Thread(target=time.sleep, args=(1,)).start()
        except RuntimeError as error: found["thread"] = str(error)
        """,
        {"fork": "Resource temporarily unavailable", "bounded": True, "thread": "can't start new thread"},
        BOTH,
    ),
    "sockets": Attack(
        """
        for family in (socket.AF_UNIX, socket.AF_VSOCK): tried(family.name, socket.socket, family)
        tried("network", socket.create_connection, ("127.0.0.1", @port), 3)
        tried("listener", os.stat, "@victim/listener")
        """,
        {
            **dict.fromkeys(("AF_UNIX", "AF_VSOCK"), "Address family not supported by protocol"),
            "network": "Network is unreachable", "listener": GONE,
        },
        # A container has a loopback of its own.
        {**BOTH, "bazel": {}, "docker": {"network": "Connection refused"}},
    ),
    "privileges": Attack(
        """
        for change in (os.setuid, os.setgid):
            try: change(0)
            except OSError: pass
        found["root"] = 0 in (os.getuid(), os.geteuid(), os.getgid())
        tried("chroot", os.chroot, ".")
        tried("device", os.mknod, "node", 0o60666, os.makedev(7, 0))
        called("unshare", libc.unshare, 0x10000000)
        called("setns", libc.setns, os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)
        called("mount", libc.mount, b"none", b"/tmp", b"tmpfs", 0, None)
        called("umount", libc.umount2, b"/proc", 2)
        called("remount", libc.mount, None, b"/", None, 32 | 4096, None)
        tried("new", open, "/etc/new", "w")
        tried("mode", os.chmod, "/proc/self/oom_score_adj", 0o777)
        """,
        {
            "root": False, "unshare": ABSENT, "setns": ABSENT, "new": READ_ONLY, "mode": READ_ONLY,
            **dict.fromkeys(("chroot", "device", "mount", "umount", "remount"), REFUSED),
        },
        {**BOTH, "bazel": {}, "docker": {"mode": REFUSED}},
    ),
    "what_others_share": Attack(
        """
        called("memory", libc.shmget, 4711, 4096, 0)
        called("own", libc.shmget, 4712, 4096, 0o1600)
        tried("shm", listed, "/dev/shm")
        tried("tmp", os.stat, "/tmp/x")
        """,
        {"memory": GONE, "own": "done", "shm": [], "tmp": GONE},
        # A container has no shared memory at all.
        {**BOTH, "bazel": {}, "docker": {"own": FULL, "shm": GONE}},
    ),
    "terminals": Attack(
        """
        import fcntl, termios
        for path in ("/dev/tty", "@terminal"): tried(path, written, path)
        for number in (0, 1, 2): tried(str(number), fcntl.ioctl, number, termios.TIOCSTI, b"x")
        """,
        {"/dev/tty": GONE, "@terminal": GONE, **dict.fromkeys("012", "Inappropriate ioctl for device")},
        # A container has a device for no terminal.
        {**ACTION, "bazel": {}, "docker": {"/dev/tty": "No such device or address"}},
    ),
    "devices": Attack(
        """
        for name in ("loop0", "vda", "sda", "mem", "kmsg", "fuse", "ptmx", "console"): tried(name, written, "/dev/" + name)
        tried("pipe outside", written, "@victim/pipe")
        for name in ("null", "full"): tried(name, written, "/dev/" + name)
        tried("mode", os.chmod, "/dev/null", 0)
        """,
        {
            **dict.fromkeys(("loop0", "vda", "sda", "mem", "kmsg", "fuse", "ptmx", "console", "pipe outside"), GONE),
            "null": "written", "full": FULL, "mode": READ_ONLY,
        },
        BOTH,
    ),
    # By actions
    "other_actions": Attack(
        """
        found["seen"] = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > 3]
        for number in (0, 1, 2): tried(f"fd {number}", written, f"/proc/1/fd/{number}")
        tried("own root", written, "/proc/self/root@victim/kept")
        tried("beside", listed, "..")
        found["root"] = {"var", "run", "home", "boot", "mnt", "srv"} & {*os.listdir("/")} != set()
        """,
        {"seen": [], **dict.fromkeys(("fd 0", "fd 1", "fd 2"), DENIED), "own root": GONE, "beside": ["work"], "root": False},
        ACTION,
    ),
    "setuid_programs": Attack(
        """
        import subprocess
        given = subprocess.run(["in/given", "-u"], capture_output=True, text=True)
        found["given"] = given.stdout.strip() == str(os.getuid()) or given
        tried("su", open, "/usr/bin/su")
        """,
        {"given": True, "su": GONE},
        ACTION,
    ),
    "links_out": Attack(
        """
        tried("hard link to an input", os.link, "in/kernel", "out/kernel")
        tried("hard link to the interpreter", os.link, sys.executable, "python")
        tried("hard link to a loader", os.link, "/proc/self/exe", "exe")
        os.symlink("@victim", "away")
        tried("link", written, "away/kept")
        tried("rename", os.rename, "in/kernel", "kernel")
        """,
        {
            **dict.fromkeys(("hard link to an input", "hard link to the interpreter", "hard link to a loader", "rename"), LINKED),
            "link": GONE,
        },
        ACTION,
    ),
    "what_fills": Attack(
        """
        block = bytes(1 << 20)
        for folder in ("/tmp", "/dev/shm"):
            size = 0
            with open(folder + "/full", "wb", buffering=0) as file:
                try:
                    while size < 1 << 28: size += file.write(block)
                except OSError as error: found[folder] = [size >> 20, error.strerror]
        tried("root", open, "/new", "w")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        open("large", "wb").close()
        tried("large", os.truncate, "large", 5 << 30)
        held = []
        try:
            while len(held) < 10000: held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError as error: reason = error.strerror
        while held: os.close(held.pop())
        found["files"] = reason
        """,
        {"/tmp": [64, FULL], "/dev/shm": [64, FULL], "root": READ_ONLY, "large": "File too large", "files": "Too many open files"},
        ACTION,
    ),
    # By builds: @matrix is the folder of packages and caches, @clone and @checkout are repositories of the operator's.
    "what_is_theirs": Attack(
        """
        for path in ("@clone/.git", "@checkout/.git/HEAD", "/etc/resolv.conf"): tried(path, open, path)
        found["packages"] = [name[-5:] for name in listed("@matrix/packages")]
        tried("its own home", listed, os.environ["HOME"])
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        lines = [open(f"/proc/{pid}/cmdline", "rb").read() for pid in pids]
        strangers = [line for line in lines if b"python" in line and b"attacks/" not in line]
        found["seen"] = [str(line) for line in strangers + [line for line in lines if b"600" in line.split(bytes(1))]]
        """,
        {
            **dict.fromkeys(("@clone/.git", "@checkout/.git/HEAD", "/etc/resolv.conf"), GONE), "packages": ["build", "-made"],
            "its own home": [], "seen": [],
        },
        BUILT,
    ),
    "writes_elsewhere": Attack(
        """
        for path in ("@matrix/packages/other-1/bin/say", "@matrix/actions/entry", "@checkout/.git/config", "@victim/kept"):
            tried(path, created, path)
        for path in ("@home", "@matrix/packages/new", "/usr/bin/new", "/etc/new", "/new"): tried(path, created, path)
        for name in ("source", "index"): tried(name, os.rename, f"{WORK}/{name}", f"{WORK}/other")
        tried("beside its checkout", os.symlink, "/", "../index")
        tried("source", created, "kept")
        tried("prefix", created, PREFIX + "/kept")
        called("umount", libc.umount2, PREFIX.encode(), 2)
        os.chmod(PREFIX + "/bin/say", 0o6755)
        """,
        {
            **dict.fromkeys(
                ("@matrix/packages/other-1/bin/say", "@matrix/actions/entry", "@checkout/.git/config", "@victim/kept"), GONE
            ),
            **dict.fromkeys(("@home", "@matrix/packages/new", "/usr/bin/new", "/etc/new", "/new"), READ_ONLY),
            **dict.fromkeys(("beside its checkout", "index"), READ_ONLY),
            "source": "written", "prefix": "written", "umount": REFUSED,
        },
        BUILT,
    ),
    "a_daemon": Attack(
        f"""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.execvp("sleep", ["sleep", "{FOREVER}"])
            os._exit(0)
        os.wait()
        """,
        {},
        BUILT,
    ),
}  # fmt: skip
