"""What a hostile action tries against the machine, as root and as an ordinary user, each with the exact answer that it gets.

An attack is a program that an action runs, beside another action of the same worker. It puts what came of it into ``found``.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT, NOTHING_HELD, PROCESSES
from mlir_matrix.base.paths import find_home
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.wheels import lock_file, write_lock
from support import wheelhouse
from support.downstream import Downstream
from support.hostile import GOOD
from support.machine import WHO, interpreter_of_all
from support.workspace import Workspace, new_home

BOOTSTRAP = Path(__file__).parents[2] / "tools" / "mlir_matrix" / "actions" / "runtime" / "bootstrap.py"
GONE, REFUSED, DENIED = "No such file or directory", "Operation not permitted", "Permission denied"
READ_ONLY, FULL, ABSENT = "Read-only file system", "No space left on device", "Function not implemented"
PRELUDE = """#!PYTHON
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
def listed(path): return sorted(os.listdir(path))
"""
#: By name: the program, and what it is to find. VICTIM is a folder of the user's, HOME is their home, TERMINAL their terminal.
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "the_first_process": (
        """
        for way in ("root", "cwd"): tried(way, written, f"/proc/1/{way}/VICTIM/kept")
        for number in (0, 1, 2): tried(f"fd {number}", written, f"/proc/1/fd/{number}")
        tried("memory", open, "/proc/1/mem")
        tried("own root", written, "/proc/self/root/VICTIM/kept")
        called("ptrace", libc.ptrace, 16, 1, 0, 0)
        """,
        {**dict.fromkeys(("root", "cwd", "fd 0", "fd 1", "fd 2", "memory"), DENIED), "own root": GONE, "ptrace": REFUSED},
    ),
    "devices": (
        """
        for name in ("loop0", "vda", "sda", "mem", "kmsg", "fuse", "ptmx", "console"): tried(name, written, "/dev/" + name)
        tried("mknod", os.mknod, "node", 0o60666, os.makedev(7, 0))
        tried("pipe outside", written, "VICTIM/pipe")
        for name in ("null", "full"): tried(name, written, "/dev/" + name)
        tried("mode", os.chmod, "/dev/null", 0)
        """,
        {
            **dict.fromkeys(("loop0", "vda", "sda", "mem", "kmsg", "fuse", "ptmx", "console", "pipe outside"), GONE),
            "mknod": REFUSED, "null": "written", "full": FULL, "mode": READ_ONLY,
        },
    ),
    "terminals": (
        """
        import fcntl, termios
        for path in ("/dev/tty", "TERMINAL"): tried(path, written, path)
        for number in (0, 1, 2): tried(str(number), fcntl.ioctl, number, termios.TIOCSTI, b"x")
        """,
        {"/dev/tty": GONE, "TERMINAL": GONE, **dict.fromkeys("012", "Inappropriate ioctl for device")},
    ),
    "keys_and_folders": (
        """
        for name in ("HOME/.ssh/id", "/etc/shadow", "/etc/ssh", "/root/.ssh", "/var", "/run", "/home", "FOLDER"):
            tried(name, open, name)
        tried("beside", listed, "..")
        found["root"] = {"var", "run", "home", "boot", "mnt", "srv"} & {*os.listdir("/")} != set()
        """,
        {
            **dict.fromkeys(("HOME/.ssh/id", "/etc/shadow", "/etc/ssh", "/root/.ssh", "/var", "/run", "/home", "FOLDER"), GONE),
            "beside": ["work"], "root": False,
        },
    ),
    "other_processes": (
        """
        seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        found["seen"] = [pid for pid in seen if pid > 3]
        for path in glob.glob("/proc/[0-9]*/environ"):
            try: found["secret"] = found.get("secret", False) or b"secret" in open(path, "rb").read()
            except OSError: pass
        tried("first", open, "/proc/1/environ")
        """,
        {"seen": [], "secret": False, "first": DENIED},
    ),
    "processes": (
        """
        count = 0
        try:
            while count < 5000:
                if os.fork() == 0: signal.pause()
                count += 1
        except OSError as error: found["fork"] = error.strerror
        found["bounded"] = 900 < count < MOST
        try: threading.Thread(target=time.sleep, args=(1,)).start()
        except RuntimeError as error: found["thread"] = str(error)
        """,
        {"fork": "Resource temporarily unavailable", "bounded": True, "thread": "can't start new thread"},
    ),
    "sockets": (
        """
        for family in (socket.AF_UNIX, socket.AF_VSOCK): tried(family.name, socket.socket, family)
        tried("network", socket.create_connection, ("127.0.0.1", PORT), 3)
        tried("listener", os.stat, "VICTIM/listener")
        """,
        {
            **dict.fromkeys(("AF_UNIX", "AF_VSOCK"), "Address family not supported by protocol"),
            "network": "Network is unreachable", "listener": GONE,
        },
    ),
    "privileges": (
        """
        for change in (os.setuid, os.setgid):
            try: change(0)
            except OSError: pass
        found["root"] = 0 in (os.getuid(), os.geteuid(), os.getgid())
        tried("chroot", os.chroot, ".")
        called("unshare", libc.unshare, 0x10000000)
        called("setns", libc.setns, os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)
        called("mount", libc.mount, b"none", b"/tmp", b"tmpfs", 0, None)
        called("umount", libc.umount2, b"/proc", 2)
        called("remount", libc.mount, None, b"/", None, 32 | 4096, None)
        tried("new", open, "/etc/new", "w")
        tried("mode", os.chmod, "/proc/self/oom_score_adj", 0o777)
        """,
        {
            "root": False, "chroot": REFUSED, "unshare": ABSENT, "setns": ABSENT, "mount": REFUSED,
            "umount": REFUSED, "remount": REFUSED,
            "new": READ_ONLY, "mode": READ_ONLY,
        },
    ),
    "setuid_programs": (
        """
        import subprocess
        given = subprocess.run(["in/given", "-u"], capture_output=True, text=True)
        found["given"] = given.stdout.strip() == str(os.getuid()) or given
        tried("su", open, "/usr/bin/su")
        """,
        {"given": True, "su": GONE},
    ),
    "links_out": (
        """
        tried("hard link to an input", os.link, "in/kernel", "out/kernel")
        tried("hard link to the interpreter", os.link, sys.executable, "python")
        tried("hard link to a loader", os.link, "/proc/self/exe", "exe")
        os.symlink("VICTIM", "away")
        tried("link", written, "away/kept")
        tried("rename", os.rename, "in/kernel", "kernel")
        """,
        {
            **dict.fromkeys(("hard link to an input", "hard link to the interpreter"), "Invalid cross-device link"),
            "hard link to a loader": "Invalid cross-device link", "link": GONE, "rename": "Invalid cross-device link",
        },
    ),
    "what_fills": (
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
    ),
    "what_others_share": (
        """
        called("memory", libc.shmget, 4711, 4096, 0)
        called("own", libc.shmget, 4712, 4096, 0o1600)
        tried("shm", listed, "/dev/shm")
        tried("tmp", os.stat, "/tmp/x")
        """,
        {"memory": GONE, "own": "done", "shm": [], "tmp": GONE},
    ),
}  # fmt: skip
#: The other action: it has what nobody else should see, and waits.
NEIGHBOUR = """
libc.shmget(4711, 4096, 0o1666)
for path in ("/dev/shm/x", "/tmp/x", "secret"): open(path, "w").write("secret")
print("there", flush=True)
time.sleep(600)
"""


class Target:
    """A user's home, a worker of theirs on a terminal of its own, and an action that runs in it already."""

    def __init__(self, user: int | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="attacked-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.user = user
        self.python = own().path if user is None else interpreter_of_all()
        self.master, self.slave = os.openpty()
        self.terminal = os.ttyname(self.slave)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.local = socket.socket(socket.AF_UNIX)
        for name in ("home/.ssh", "victim", "scratch"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "home/.ssh/id").write_text("secret")
        (self.folder / "victim/kept").write_text("kept")
        os.mkfifo(self.folder / "victim/pipe")
        self.local.bind(str(self.folder / "victim/listener"))
        self.own()
        if user is not None:
            os.chown(self.terminal, user, -1)
        self.bystander = self._start("sleep", "600", env={"KEY": "secret", "PATH": "/usr/bin:/bin"})
        self.worker = self._start(
            self.python, "-P", "-s", "-S", "-B", str(BOOTSTRAP), "--tool", "run", "--persistent_worker",
            env=CLEAN_ENVIRONMENT,
        )  # fmt: skip
        self.asked = 0
        self.ask(PRELUDE + NEIGHBOUR)

    def own(self, path: Path | None = None) -> None:
        """Give a folder, by default all, to the user."""
        path = path or self.folder
        for place in (path, *path.rglob("*")):
            os.chown(place, self.user or -1, self.user or -1, follow_symlinks=False)

    def who(self) -> list[str]:
        """Return the words that a command of this user begins with."""
        if not self.user:
            return []
        return [str(shutil.which("setpriv")), "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups"]

    def _start(self, *words: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
        who = self.who()

        def take_terminal() -> None:
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 1)

        return subprocess.Popen(
            [*who, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.slave, env=env,
            cwd=self.folder / "scratch", start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509 - there are no threads
        )  # fmt: skip

    def ask(self, code: str) -> Path:
        self.asked += 1
        folder = self.folder / f"scratch/{self.asked}"
        for name in ("in", "out"):
            (folder / name).mkdir(parents=True)
        given = folder / "in/given"
        shutil.copyfile(shutil.which("id") or "", given)
        for word, value in (
            ("VICTIM", self.folder / "victim"), ("HOME", self.folder / "home"), ("FOLDER", self.folder / "scratch"),
            ("TERMINAL", self.terminal), ("PORT", self.server.getsockname()[1]), ("MOST", PROCESSES),
            ("PYTHON", self.python),
        ):  # fmt: skip
            code = code.replace(word, str(value))
        kernel = folder / "in/kernel"
        kernel.write_text(code)
        request = {
            "tool": "run", "stage": "run", "params": {"arguments": [], "results": []}, "outputs": {},
            "inputs": {"kernel": "in/kernel"},
        }  # fmt: skip
        (folder / "action.json").write_text(json.dumps(request))
        self.own(folder)
        kernel.chmod(0o755)
        # Of root, and everybody may be root by it.
        os.chown(given, 0, 0) if os.getuid() == 0 else None
        given.chmod(0o6755)
        message = {"requestId": self.asked, "sandboxDir": str(folder), "arguments": ["--timeout-s", "60"]}
        assert self.worker.stdin is not None
        self.worker.stdin.write(json.dumps(message).encode() + b"\n")
        self.worker.stdin.flush()
        return folder

    def attack(self, code: str) -> Any:
        assert self.worker.stdout is not None
        body = "\n".join(line.removeprefix(" " * 8) for line in code.splitlines())
        end = "\nopen('found.json', 'w').write(json.dumps(found, default=str))\nos._exit(0)\n"
        folder = self.ask(PRELUDE + body + end)
        answer = json.loads(self.worker.stdout.readline())
        assert answer["requestId"] == self.asked
        found = folder / "found.json"
        assert found.exists(), (folder / "outcome.json").read_text()
        return json.loads(found.read_text())

    def said(self) -> bytes:
        """What has been written to the terminal."""
        os.set_blocking(self.master, False)
        try:
            return os.read(self.master, 1 << 16)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        for process in (self.worker, self.bystander):
            process.kill()
            process.communicate()
        self.server.close()
        self.local.close()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="module", params=WHO)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    found = Target(request.param)
    yield found
    found.close()


@pytest.mark.namespaces
@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks(target: Target, attack: str) -> None:
    code, expected = ATTACKS[attack]
    found = target.attack(code)
    expected = {name.replace("TERMINAL", target.terminal): value for name, value in expected.items()}
    places = (("HOME", target.folder / "home"), ("FOLDER", target.folder / "scratch"))
    for word, value in places:
        expected = {name.replace(word, str(value)): result for name, result in expected.items()}
    assert found == expected
    assert sorted(path.name for path in (target.folder / "victim").iterdir()) == ["kept", "listener", "pipe"]
    assert target.said() == b""
    assert target.bystander.poll() is None


#: By executor, attacks that need no file of the target's, and where their answers differ.
ELSEWHERE: dict[str, dict[str, dict[str, Any]]] = {
    "bazel": {"privileges": {}, "sockets": {}, "what_others_share": {}, "terminals": {}},
    # A container has a loopback of its own, a device for no terminal, another owner of /proc, and no shared memory at all.
    "docker": {
        "privileges": {"mode": REFUSED}, "sockets": {"network": "Connection refused"},
        "what_others_share": {"own": FULL, "shm": GONE}, "terminals": {"/dev/tty": "No such device or address"},
    },
}  # fmt: skip


def check_elsewhere(workspace: Workspace, folder: Path, executor: str) -> None:
    """Run attacks as programs of a catalog by another executor; each passes if it finds what it is to find."""
    catalog = Downstream(folder / "catalog")
    (folder / "victim").mkdir()
    (folder / "victim/kept").write_text("kept")
    for name, other in ELSEWHERE[executor].items():
        code, expected = ATTACKS[name]
        body = "\n".join(line.removeprefix(" " * 8) for line in code.splitlines())
        source = f"{PRELUDE}{body}\nassert found == {expected | other!r}, found\n{GOOD}"
        for word, value in (("VICTIM", folder / "victim"), ("TERMINAL", "/dev/pts/0"), ("PORT", 9)):
            source = source.replace(word, str(value))
        catalog.workload(name, jax=source)
    words = [f"jax/linalg-loops/x86_64/{name}" for name in ELSEWHERE[executor]]
    done = workspace("run", *words, "--catalog", catalog.root, "--executor", executor, "--format", "json", "--quiet")
    failed = {test["id"]: test["reason"] for test in json.loads(done.stdout)["tests"] if test["outcome"] != "pass"}
    assert (done.code, failed) == (0, {})
    assert [path.name for path in (folder / "victim").iterdir()] == ["kept"]


def test_attacks_by_bazel(warm: Workspace, tmp_path: Path) -> None:
    check_elsewhere(warm, tmp_path, "bazel")


def test_attacks_in_containers(own: Workspace, tmp_path: Path) -> None:
    check_elsewhere(own, tmp_path, "docker")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give the right to namespaces up")
def test_what_is_not_held_is_said_once(tmp_path: Path) -> None:
    workspace = Workspace(new_home(tmp_path / "home"))
    bare = [str(shutil.which("setpriv")), "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    said = []
    for words in (("run", "mlir/linalg-fuse/ir/*"), ("doctor",)):
        command = [*bare, *workspace.command(*words)]
        done = subprocess.run(command, env={**os.environ, **workspace.env}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout + done.stderr)
    note, doctor = said
    assert note.count(NOTHING_HELD) == doctor.count(NOTHING_HELD) == 1


#: A module of a wheel: what it tries as soon as it is imported, or where it is called.
HOSTILE_MODULE = """
import os, socket
found = {}
def tried(name, do, *arguments):
    try: found[name] = do(*arguments) and "done"
    except OSError as error: found[name] = error.strerror
def write(path):
    with open(path, "a") as file: return file.write("x")
def read(path):
    with open(path) as file: return file.read()
tried("write", write, "VICTIM/kept")
tried("read", read, "HOME/.ssh/id")
tried("connect", socket.create_connection, ("127.0.0.1", PORT), 3)
tried("terminal", os.open, "/dev/tty", os.O_RDWR)
found["variables"] = "done" if "HOME" in os.environ.get("HOME", "") or "SECRET" in os.environ else "clean"
found["root"] = os.getuid() == 0
def warm(): pass
"""
#: A catalog with a component, an environment, and what has that wheel preloaded.
HOSTILE_CATALOG = {
    "toolchains/components/hostile.yaml": "description: A wheel.\ntools: [hostile]\nreleases: [{release: '1.0'}]\n",
    "toolchains/environments/hostile.yaml": "description: The wheel alone.\ncomponents: [hostile]\n",
    "matrix/frameworks/hostile/framework.yaml": (
        "description: It says what the wheel has found.\nenvironment: hostile\nemits: {linalg: linalg.mlir}\n"
        "preload: ['hostile:warm']\n"
    ),
    "matrix/frameworks/hostile/importer.py": (
        "import json\n\nimport hostile\n\n\ndef run(action):\n    raise ValueError(json.dumps(hostile.found))\n"
    ),
    "matrix/workloads/line/workload.yaml": (
        "description: d\ninputs: {x: {shape: [9], dtype: f32, formula: iota()}}\n"
        "outputs: {y: {shape: [9], dtype: f32}}\ngolden: computed\n"
    ),
    "matrix/workloads/line/linalg.mlir": "module {}\n",
    "matrix/workloads/line/reference.py": "def reference(x):\n    return x\n",
}
#: What a wheel of a catalog finds wherever its code runs, by executor.
HOSTILE_FINDS: dict[str, dict[str, Any]] = {"local": {
    "write": GONE, "read": GONE, "connect": "Network is unreachable", "terminal": GONE, "variables": "clean", "root": False,
}}  # fmt: skip
# Bazel decides what can be read.
HOSTILE_FINDS["bazel"] = {**HOSTILE_FINDS["local"], "write": READ_ONLY, "read": "done"}
#: How the packages begin that such a run needs.
_PACKAGES = ("c-library-x86_64-linux-musl-", "numpy-", "packaging-", "torch-mlir-", "ziglang-")
#: What the program itself imports for such a run.
_MODULES = (
    "annotated_types", "archspec", "backports", "certifi", "click", "markdown_it", "mdurl", "packaging", "pip", "pydantic",
    "pydantic_core", "pygments", "rich", "typing_extensions.py", "typing_inspection", "urllib3", "yaml",
)  # fmt: skip


def open_hostile_catalog(target: Target) -> Path:
    """Write the catalog and its wheel, which attacks a target. Return the catalog's folder."""
    code = HOSTILE_MODULE
    for word, value in (("VICTIM", target.folder / "victim"), ("HOME", target.folder / "home")):
        code = code.replace(word, str(value))
    code = code.replace("PORT", str(target.server.getsockname()[1]))
    catalog = target.folder / "catalog"
    for name, text in HOSTILE_CATALOG.items():
        (catalog / name).parent.mkdir(parents=True, exist_ok=True)
        (catalog / name).write_text(text)
    wheels = target.folder / "wheels"
    wheels.mkdir(exist_ok=True)
    made = wheelhouse.wheel(wheels, "hostile", more={"hostile.py": code.encode()})
    locks = catalog / "toolchains/locks"
    locks.mkdir(exist_ok=True)
    write_lock(lock_file(locks, "hostile", own().tag), [made], made_by="them", pins={"hostile": "1.0"})
    return catalog


def lend_packages(home: Path) -> None:
    """Give a home what such a run needs of our packages: our folder may be closed to others, they are not."""
    for package in find_home().packages.iterdir():
        if package.name.startswith(_PACKAGES):
            try:
                shutil.copytree(package, home / "packages" / package.name, symlinks=True, copy_function=os.link)
            except shutil.Error:  # on another disk
                shutil.copytree(package, home / "packages" / package.name, symlinks=True, dirs_exist_ok=True)


# The packages that it lends are installed by then, whichever test runs first.
@pytest.mark.usefixtures("warm")
@pytest.mark.namespaces
@pytest.mark.parametrize("executor", ["local", "bazel"])
def test_a_wheel_that_a_catalog_locks_is_imported_by_actions_only(target: Target, executor: str) -> None:
    if target.user and executor == "bazel":
        pytest.skip("Bazel's servers are shared with other tests of ours")
    catalog = open_hostile_catalog(target)
    home = target.folder / executor
    if executor == "bazel":
        # It prepares packages in their folder, which can be no link.
        new_home(home)
    else:
        (home / "packages").mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")} | {
        "MATRIX_HOME": str(home), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(target.folder / "wheels"), "HOME": str(target.folder / "home"), "SECRET": "1",
    }  # fmt: skip
    test = "hostile/linalg-loops/x86_64/line"
    words = Workspace(home).command("run", test, "--catalog", catalog, "--executor", executor, "--format", "json")
    if target.user:
        modules = target.folder / "modules"
        modules.mkdir()
        # Ours may be in a folder that is closed to others.
        for package in Path(sysconfig.get_path("purelib")).iterdir():
            if package.name in _MODULES:
                copy = shutil.copytree if package.is_dir() else shutil.copyfile
                copy(package, modules / package.name)
        words[0], env["PYTHONPATH"] = target.python, str(modules)
    target.own()
    if executor == "local":
        lend_packages(home)
    command = [*target.who(), *words]
    done = subprocess.run(command, env=env, cwd=target.folder, capture_output=True, text=True, check=False)
    for package in find_home().packages.glob("hostile-1.0-*"):
        shutil.rmtree(package)
    assert done.returncode == 3, done.stderr
    (found,) = json.loads(done.stdout)["tests"]
    assert json.loads(found["reason"].partition("ValueError: ")[2].rpartition(" (line")[0]) == HOSTILE_FINDS[executor]
    assert (target.folder / "victim/kept").read_text() == "kept"
    target.server.setblocking(False)
    with pytest.raises(BlockingIOError):
        target.server.accept()
