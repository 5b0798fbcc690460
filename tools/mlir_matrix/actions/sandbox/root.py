"""The file system that an action sees: built of what its environment declares, not inherited.

Everything is read-only, at unchanged paths. It contains no homes, caches, sockets, terminals or devices, because nobody
declares them.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import stat
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir_matrix.actions.sandbox import mounts

#: Where an action finds its own folder. Nothing else is beside it.
FOLDER = "/action/work"
SHELL = "/bin/sh"
#: The environment's own interpreter, for scripts.
PYTHON = "/usr/bin/python3"
#: Where scripts find programs, and which of the machine's: POSIX utilities, and the rest of GNU's coreutils.
SEARCH = "/usr/bin:/bin"
_UTILITIES = """\
[ arch awk b2sum base32 base64 basename basenc cat chgrp chmod chown cksum cmp comm cp csplit cut date dd df diff dir dircolors
dirname du echo egrep env expand expr factor false fgrep find fmt fold grep groups head hostid id install join link ln logname ls
md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv printf ptx pwd readlink
realpath rm rmdir sed seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split stat stdbuf stty sum sync
tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink vdir wc who whoami xargs yes"""
#: Machine code that reads a byte from standard input and exits, by machine, with the machine's number in ELF files.
_WAIT = {
    # xor edi, edi; mov rsi, rsp; mov edx, 1; xor eax, eax; syscall (read); mov eax, 60; xor edi, edi; syscall (exit)
    "x86_64": (62, "31ff 4889e6 ba01000000 31c0 0f05 b83c000000 31ff 0f05"),
    # mov x0, 0; mov x1, sp; mov x2, 1; mov x8, 63; svc 0 (read); mov x0, 0; mov x8, 93; svc 0 (exit)
    "aarch64": (183, "000080d2 e1030091 220080d2 e80780d2 010000d4 000080d2 a80b80d2 010000d4"),
}
#: How many users actions run as if the worker is root. Their numbers are above all assigned ones. They differ between workers,
#: because the kernel counts all processes of a user together.
USERS = 256
FIRST_USER = 0x70000000 + USERS * int.from_bytes(os.urandom(2), "big")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROCESSORS = "/sys/devices/system/cpu"
_LOADER_CACHE = "/etc/ld.so.cache"
#: Prefixes that belong to the whole machine. An action sees only the library of an interpreter in one of them.
_SHARED_PREFIXES = ("/", "/usr", "/usr/local")
#: Stores whose packages refer to each other. An interpreter from there needs the whole store, which is public.
_STORES = ("/nix/store", "/gnu/store")
#: Folders of which each action gets its own empty ones. No limit counts their memory, so each is small.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - not the machine's
TEMPORARY = ("/tmp", _SHARED_MEMORY)  # noqa: S108 - not the machine's
_SMALL = "size=64m,nr_inodes=4k,mode=1777"
_FIXED = mounts.RDONLY | mounts.NOSUID | mounts.NODEV
_NOT_RUN = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
_OLD, _FIRST = "/.old", "/.first"


@dataclass(frozen=True, kw_only=True)
class Laid:
    """How actions see the mount namespace of which they get a copy."""

    #: Path of an action's folder; empty if its path does not change.
    folder: str
    #: Places where each action gets an empty file system, with the paths that stay visible there.
    empty: Mapping[str, Sequence[str]]
    #: Whether each action can have a /proc of its own process namespace.
    new_proc: bool
    #: The command of an action's first process, which waits until its input ends.
    first: Sequence[str] = (SHELL, "-c", "read x")


def bound(declared: Iterable[str]) -> list[str]:
    """Return the paths that an action can read: declared ones, and those that the interpreter and the C library need.

    ``declared``: packages, prefixes, programs, devices. A folder stands for all in it.
    """
    libraries = _mapped()
    loader = next((path for path in libraries if os.path.basename(path).startswith("ld-")), "")
    paths = [*declared, *_interpreter(), *_library_folders(libraries), *_shell(loader), _PROCESSORS, _LOADER_CACHE]
    return [path for path in _outermost(paths) if os.path.exists(path)]


def _interpreter() -> Iterator[str]:
    """Yield the paths of CPython, of our own code and of its compiled form."""
    yield os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    yield from (path for path in {sys.executable, getattr(sys, "_base_executable", "")} if path)
    yield os.path.dirname(os.__file__)
    for prefix in {sys.base_prefix, sys.base_exec_prefix}:
        if prefix not in _SHARED_PREFIXES and not _is_inside(_home(), prefix):
            yield next((store for store in _STORES if prefix.startswith(store)), prefix)
    # Archives and compiled modules may be outside of the library.
    yield from filter(None, sys.path)
    if sys.pycache_prefix:
        # The worker fills this folder later.
        with contextlib.suppress(OSError):
            os.makedirs(sys.pycache_prefix, exist_ok=True)
        yield os.path.abspath(sys.pycache_prefix)


def _home() -> str:
    """Return the user's home. The variable HOME already names another folder."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.sep


def _mapped() -> list[str]:
    """Return the shared libraries of this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            paths = {line.split(None, 5)[5].rstrip("\n") for line in file if ".so" in line and "/" in line}
    except OSError:
        return []
    return sorted(path for path in paths if os.path.isfile(path))


def _library_folders(libraries: Iterable[str]) -> Iterator[str]:
    """Yield the folders of the C library. They also have the few other libraries that wheels need from a machine."""
    places = {os.path.dirname(os.path.realpath(path)) for path in libraries}
    for place in places:
        # If /usr is not merged, the C library is in one folder and libstdc++ in the other.
        other = place.removeprefix("/usr") if place.startswith("/usr/lib") else f"/usr{place}"
        yield from (place, other) if place.startswith(("/lib", "/usr/lib")) else (place,)
    # The path of the loader in a program goes through one of these folders.
    yield from ("/lib64", "/usr/lib64")


def _shell(loader: str) -> Iterator[str]:
    if os.path.exists(SHELL):
        yield from needed_by(SHELL, loader)


def needed_by(program: str, loader: str = "", scripts: int = 5) -> Iterator[str]:
    """Yield a program of the machine, and the libraries that it needs, or its interpreter and the programs that it may call.

    ``scripts``: how many interpreters may be scripts themselves. Linux follows five (``exec_binprm`` in fs/exec.c).
    """
    loader = loader or next((path for path in _mapped() if os.path.basename(path).startswith("ld-")), "")
    yield program
    try:
        with open(program, "rb") as file:
            first = file.readline(256)
    except OSError:
        return
    if first.startswith(b"#!"):
        words = os.fsdecode(first[2:]).split()
        # A script of a catalog's build may name any interpreter.
        runs = (
            scripts and words and os.path.isabs(words[0]) and os.path.isfile(words[0]) and os.access(words[0], os.X_OK)
        )
        if runs and words[0] not in (PYTHON, "/bin/python3"):
            yield from needed_by(words[0], loader, scripts - 1)
        yield from utilities(loader)
    elif loader:
        # The loader resolves the program without running it. It fails for a static program, which needs nothing.
        listed = subprocess.run(
            [loader, "--list", program], env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        words = os.fsdecode(listed.stdout).split() if listed.returncode == 0 else []
        # A name may be a link into a folder that is not visible, as the loader's is.
        yield from (path for word in words if word.startswith("/") for path in (word, os.path.realpath(word)))


def is_script(program: str) -> bool:
    """Return whether a file names its interpreter."""
    with contextlib.suppress(OSError), open(program, "rb", buffering=0) as file:
        return file.read(2) == b"#!"
    return False


def utilities(loader: str = "") -> Iterator[str]:
    """Yield the shell and the programs of the machine that scripts may call, and the folders of their libraries."""
    for name in _UTILITIES.split():
        places = (f"{folder}/{name}" for folder in SEARCH.split(":"))
        yield from [place for place in places if os.path.isfile(place)][:1]
    shell = list(_shell(loader))
    yield from shell
    # To ask the loader for the libraries of each takes a quarter of a second.
    yield from _library_folders(path for path in shell if ".so" in os.path.basename(path))


def _outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that are not inside another of them."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths}):
        if not any(_is_inside(path, other) for other in kept):
            kept.append(path)
    return kept


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _resolve(path: str, links: dict[str, str]) -> str:
    """Return the real path. Add the links on the way to ``links``."""
    at, parts = "/", path.split("/")
    while parts:
        name = parts.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, name)
        try:
            target = os.readlink(here)
        except OSError:
            at = here
            continue
        links[here] = target
        parts = [*target.split("/"), *parts]
        at = "/" if target.startswith("/") else at
    return at


def leave_plain_folder() -> None:
    """Move into a mount of the root where the root is a plain folder, as in a chroot."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        if any(line.split()[4] == "/" for line in file):
            return
    place = os.path.dirname(os.path.abspath(__file__))
    mounts.bind("/", place)
    os.chdir(place)
    os.chroot(".")


def build(paths: Iterable[str]) -> Laid:
    """Make a root of these paths and move this process, which has its own mount namespace, into it.

    Raise OSError if the kernel refuses.
    """
    links: dict[str, str] = {}
    real = _outermost(_resolve(path, links) for path in paths)
    devices = open_devices()
    mask = os.umask(0o022)
    try:
        base = os.path.dirname(os.path.abspath(__file__))
        mounts.mount("tmpfs", base, mounts.MS_NOSUID | mounts.MS_NODEV, "size=4m,nr_inodes=8k,mode=0755")
        os.mkdir(base + _OLD)
        mounts.pivot(base, _OLD[1:])
        # Other links are inside mounted folders.
        links = {link: target for link, target in links.items() if not any(_is_inside(link, path) for path in real)}
        for link, target in links.items():
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)
        for path in real:
            _show(_OLD + path, path, _FIXED if not _is_device(_OLD + path) else mounts.RDONLY | mounts.NOSUID)
        _hide_packages()
        new_proc = _make_proc(_OLD)
        _add_devices(devices)
        _write_etc()
        if not any(_is_inside(PYTHON, path) for path in real):
            _write_python()
        for folder in (*TEMPORARY, FOLDER):
            os.makedirs(folder, exist_ok=True)
        first = _write_first()
        mounts.detach(_OLD)
        os.rmdir(_OLD)
        mounts.set_attributes("/", _FIXED, inside=False)
    finally:
        os.umask(mask)
    empty = {place: [path for path in (*real, *links) if _is_inside(path, place)] for place in TEMPORARY}
    # A temporary folder that is itself declared is not replaced.
    kept = {place: paths for place, paths in empty.items() if place not in paths}
    return Laid(folder=FOLDER, empty=kept, new_proc=new_proc, first=first)


def _write_first() -> Sequence[str]:
    """Write a program of one page that waits until its input ends. Return its command, or a shell's where it does not run.

    It takes 0.2 ms of CPU time for each action, a shell 0.8 ms.
    """
    machine, code = _WAIT.get(os.uname().machine, (0, ""))
    if not code:
        return Laid.first
    text, start = bytes.fromhex(code), 0x400000
    size = 120 + len(text)
    # The header of the file, and of its one segment: readable, executable, all of the file.
    header = struct.pack("<4s5B7x", b"\x7fELF", 2, 1, 1, 0, 0)
    header += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, start + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    header += struct.pack("<IIQQQQQQ", 1, 5, 0, start, start, size, size, 1 << 16)
    with open(_FIRST, "wb") as file:
        file.write(header + text)
    os.chmod(_FIRST, 0o700)
    # The policy of a machine may refuse programs that it does not know.
    null = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    try:
        _, status = os.waitpid(os.posix_spawn(_FIRST, [_FIRST], {}, file_actions=null), 0)
    except OSError:
        return Laid.first
    return [_FIRST] if status == 0 else Laid.first


def _hide_packages() -> None:
    """Hide the interpreter's own packages, which no key knows: scripts would import them. This program may be among them."""
    place = os.path.realpath(f"{os.path.dirname(os.__file__)}/site-packages")
    if os.path.isdir(place):
        ours = os.path.realpath(os.path.dirname(os.path.dirname(__file__)))
        mount_empty(place, [ours] if _is_inside(ours, place) else [])
        mounts.set_attributes(place, _FIXED)


def _write_python() -> None:
    """Give scripts this interpreter as ``python3``: a link, or a script with the loader of its prefix."""
    if os.path.lexists(PYTHON):
        return
    with open("/proc/self/cmdline", encoding="utf-8", errors="surrogateescape") as file:
        command = file.read().split("\0")
    # Options of the interpreter begin with this one (worker_command).
    words = command[: command.index("-P")] if "-P" in command else [sys.executable]
    os.makedirs(os.path.dirname(PYTHON), exist_ok=True)
    if len(words) == 1:
        os.symlink(words[0], PYTHON)
        return
    with open(PYTHON, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f'#!{SHELL}\nexec {shlex.join(words)} "$@"\n')
    os.chmod(PYTHON, 0o755)  # noqa: S103 - all users of actions run it


def inherit() -> Laid:
    """Make all files of this mount namespace read-only, and mount a new /dev over the old one."""
    devices = open_devices()
    mounts.set_attributes("/", _FIXED)
    mount_devices(devices)
    return Laid(folder="", empty={_SHARED_MEMORY: ()}, new_proc=_can_mount_proc())


def _is_device(path: str) -> bool:
    return not os.path.isdir(path) and not os.path.isfile(path)


def _show(source: str, place: str, attributes: int) -> None:
    if os.path.isdir(source):
        os.makedirs(place, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        open(place, "wb").close()
    mounts.bind(source, place)
    mounts.set_attributes(place, attributes)


def _make_proc(old: str) -> bool:
    os.mkdir("/proc")
    if _can_mount_proc():
        return True
    mounts.bind(f"{old}/proc", "/proc")
    mounts.set_attributes("/proc", _NOT_RUN | mounts.RDONLY)
    return False


def _can_mount_proc() -> bool:
    """Mount /proc if the kernel allows it. It refuses in a container that hides parts of its /proc."""
    try:
        mount_proc()
    except OSError:
        return False
    return True


def mount_proc() -> None:
    mounts.mount("proc", "/proc", mounts.MS_RDONLY | _NOT_RUN)


def open_devices(more: Iterable[str] = ()) -> dict[str, int]:
    """Return detached mounts of the devices that every program expects, and of ``more``."""
    trees: dict[str, int] = {}
    try:
        for path in (*filter(os.path.exists, _DEVICES), *more):
            trees[path] = mounts.open_tree(path)
    except OSError:
        for tree in trees.values():
            os.close(tree)
        raise
    return trees


def mount_devices(devices: dict[str, int]) -> None:
    """Mount a /dev with only these devices."""
    mounts.mount("tmpfs", "/dev", mounts.MS_NOSUID | mounts.MS_NOEXEC, "size=64k,nr_inodes=512,mode=0755")
    _add_devices(devices)
    os.mkdir(_SHARED_MEMORY)
    mounts.set_attributes("/dev", mounts.RDONLY, inside=False)


def _add_devices(devices: dict[str, int]) -> None:
    os.makedirs("/dev", exist_ok=True)
    for path, tree in devices.items():
        _attach(tree, path, is_folder=stat.S_ISDIR(os.fstat(tree).st_mode))
        mounts.set_attributes(path, mounts.RDONLY | mounts.NOSUID | mounts.NOEXEC)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")


def mount_empty(place: str, kept: Iterable[str] = ()) -> None:
    """Mount a file system of limited size that has only ``kept``, mounts and links of the old one."""
    links = {path: os.readlink(path) for path in kept if os.path.islink(path)}
    trees = {path: (mounts.open_tree(path, inside=True), os.path.isdir(path)) for path in kept if path not in links}
    mounts.mount("tmpfs", place, _NOT_RUN, _SMALL)
    for path, (tree, is_folder) in trees.items():
        _attach(tree, path, is_folder=is_folder)
    for path, target in links.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)


def _attach(tree: int, path: str, *, is_folder: bool) -> None:
    """Attach a mount at a path, which is created, and close its descriptor."""
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        open(path, "wb").close()
    mounts.move_mount(tree, path)
    os.close(tree)


def _write_etc() -> None:
    """Write the files in /etc that libraries read: users and name resolution."""
    users = {0: "root", 65534: "nobody", os.getuid(): "root" if os.getuid() == 0 else "action"}
    if os.getuid() == 0:
        users |= {FIRST_USER + number: "action" for number in range(USERS)}
    files = {
        "passwd": "".join(f"{name}:x:{uid}:{uid}::{FOLDER}:/\n" for uid, name in users.items()),
        "group": "".join(f"{name}:x:{uid}:\n" for uid, name in users.items()),
        "hosts": "127.0.0.1 localhost\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    os.makedirs("/etc", exist_ok=True)
    for name, text in files.items():
        # A declared file is there already.
        if not os.path.lexists(f"/etc/{name}"):
            with open(f"/etc/{name}", "w", encoding="ascii") as file:
                file.write(text)
