"""What the command of a hostile source build tries against the machine, each with the exact answer that it gets.

An attack is a Python program that the build runs in its checkout. It puts what came of it into ``found``.
"""

from __future__ import annotations

from typing import Any

GONE, REFUSED, DENIED = "No such file or directory", "Operation not permitted", "Permission denied"
READ_ONLY, ABSENT = "Read-only file system", "Function not implemented"
PRELUDE = """
import ctypes, glob, json, os, signal, socket, subprocess, sys, time
found = {}
PREFIX = os.environ["PREFIX"]
WORK = PREFIX.removesuffix("made") + "build"
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, do, *arguments):
    try: found[name] = do(*arguments)
    except OSError as error: found[name] = error.strerror
def called(name, call, *arguments):
    ctypes.set_errno(0)
    found[name] = os.strerror(ctypes.get_errno()) if call(*arguments) == -1 else "done"
def written(path):
    with open(path, "a") as file: file.write("x")
    return "written"
def listed(path): return sorted(os.listdir(path))
"""
END = "\njson.dump(found, open(sys.argv[1], 'w'), default=str)\n"
#: Seconds that no one else sleeps at the same time.
FOREVER = "3002.25"
#: By name: the program, and what it is to find. The build runs beside @home, the operator's home, @matrix, the folder of packages
#: and caches, @checkout, a repository of the operator's, and @victim, a folder with a socket that listens.
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "keys_and_folders": (
        """
        for path in ("@home/.ssh/id", "/etc/shadow", "/root/.ssh", "/var/lib", "/run", "/home"): tried(path, open, path)
        for path in ("@clone/.git", "@checkout/.git/HEAD"):
            tried(path, open, path)
        found["packages"] = [name[-5:] for name in listed("@matrix/packages")]
        tried("its own home", listed, os.environ["HOME"])
        """,
        {
            **dict.fromkeys(
                (
                    "@home/.ssh/id", "/etc/shadow", "/root/.ssh", "/var/lib", "/run", "/home", "@clone/.git",
                    "@checkout/.git/HEAD",
                ), GONE,
            ),
            "packages": ["build", "-made"], "its own home": [],
        },
    ),
    "writes_elsewhere": (
        """
        for path in ("@matrix/packages/other-1/bin/say", "@matrix/actions/entry", "@checkout/.git/config", "@victim/kept"):
            tried(path, written, path)
        for path in ("@home", "@matrix/packages/new", "/usr/bin/new", "/etc/new", "/new"): tried(path, written, path)
        for name in ("source", "index"): tried(name, os.rename, f"{WORK}/{name}", f"{WORK}/other")
        tried("beside its checkout", os.symlink, "/", "../index")
        tried("source", written, "kept")
        tried("prefix", written, PREFIX + "/kept")
        """,
        {
            **dict.fromkeys(
                (
                    "@matrix/packages/other-1/bin/say", "@matrix/actions/entry", "@checkout/.git/config", "@victim/kept",
                ), GONE,
            ),
            **dict.fromkeys(("@home", "@matrix/packages/new", "/usr/bin/new", "/etc/new", "/new"), READ_ONLY),
            **dict.fromkeys(("beside its checkout", "index"), READ_ONLY),
            "source": "written", "prefix": "written",
        },
    ),
    "network": (
        """
        tried("loopback", socket.create_connection, ("127.0.0.1", @port), 3)
        for family in (socket.AF_UNIX, socket.AF_VSOCK): tried(family.name, socket.socket, family)
        tried("listener", os.stat, "@victim/listener")
        tried("names", open, "/etc/resolv.conf")
        """,
        {
            **dict.fromkeys(("AF_UNIX", "AF_VSOCK"), "Address family not supported by protocol"),
            "loopback": "Network is unreachable", "listener": GONE, "names": GONE,
        },
    ),
    "variables": (
        """
        found["own"] = "secret" in str(os.environ)
        for path in glob.glob("/proc/[0-9]*/environ"):
            try: found["others"] = found.get("others", False) or b"secret" in open(path, "rb").read()
            except OSError: pass
        tried("first", open, "/proc/1/environ")
        """,
        {"own": False, "others": False, "first": DENIED},
    ),
    "other_processes": (
        """
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        lines = [open(f"/proc/{pid}/cmdline", "rb").read() for pid in pids]
        found["seen"] = [str(line) for line in lines if b"600" in line or b"python" in line and b"attacks/" not in line]
        tried("kill", os.kill, @pid, 9)
        called("ptrace", libc.ptrace, 16, 1, 0, 0)
        tried("memory", open, "/proc/1/mem")
        for way in ("root", "cwd"): tried(way, listed, f"/proc/1/{way}/")
        """,
        {"seen": [], "kill": "No such process", "ptrace": REFUSED, **dict.fromkeys(("memory", "root", "cwd"), DENIED)},
    ),
    "a_daemon": (
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.execvp("sleep", ["sleep", "@forever"])
            os._exit(0)
        os.wait()
        """,
        {},
    ),
    "privileges": (
        """
        for change in (os.setuid, os.setgid):
            try: change(0)
            except OSError: pass
        found["root"] = 0 in (os.getuid(), os.geteuid(), os.getgid())
        tried("chroot", os.chroot, ".")
        tried("device", os.mknod, "node", 0o60666, os.makedev(7, 0))
        called("unshare", libc.unshare, 0x10000000)
        called("mount", libc.mount, b"none", b"/tmp", b"tmpfs", 0, None)
        called("umount", libc.umount2, PREFIX.encode(), 2)
        called("remount", libc.mount, None, b"/", None, 32 | 4096, None)
        os.chmod(PREFIX + "/bin/say", 0o6755)
        """,
        {
            "root": False, "unshare": ABSENT,
            **dict.fromkeys(("chroot", "device", "mount", "umount", "remount"), REFUSED),
        },
    ),
    "processes": (
        """
        count = 0
        try:
            while count < 3 * @most:
                if os.fork() == 0: signal.pause()
                count += 1
        except OSError as error: found["fork"] = error.strerror
        found["bounded"] = count < @most
        """,
        {"fork": "Resource temporarily unavailable", "bounded": True},
    ),
}  # fmt: skip
