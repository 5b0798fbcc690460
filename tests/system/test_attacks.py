"""What hostile actions try against the machine, as root and as an ordinary user, beside another action of the same worker."""

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
from support.attacks import ATTACKS, GONE, PRELUDE, READ_ONLY, attacks_by
from support.downstream import Downstream
from support.hostile import CELLS, GOOD
from support.machine import WHO, interpreter_of_all
from support.workspace import Workspace, new_home

BOOTSTRAP = Path(__file__).parents[2] / "tools" / "mlir_matrix" / "actions" / "runtime" / "bootstrap.py"
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
        self.ask(f"#!{self.python}\n{PRELUDE}{NEIGHBOUR}")

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

    def filled(self, text: str) -> str:
        """Replace the words that stand for what the user has."""
        for word, value in (
            ("@victim", self.folder / "victim"), ("@home", self.folder / "home"), ("@folder", self.folder / "scratch"),
            ("@terminal", self.terminal), ("@port", self.server.getsockname()[1]), ("@most", PROCESSES),
            ("@pid", self.bystander.pid),
        ):  # fmt: skip
            text = text.replace(word, str(value))
        return text

    def ask(self, code: str) -> Path:
        self.asked += 1
        folder = self.folder / f"scratch/{self.asked}"
        for name in ("in", "out"):
            (folder / name).mkdir(parents=True)
        given = folder / "in/given"
        shutil.copyfile(shutil.which("id") or "", given)
        kernel = folder / "in/kernel"
        kernel.write_text(self.filled(code))
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

    def attack(self, program: str) -> Any:
        assert self.worker.stdout is not None
        end = "\nopen('found.json', 'w').write(json.dumps(found, default=str))\nos._exit(0)\n"
        folder = self.ask(f"#!{self.python}\n{program}{end}")
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
@pytest.mark.parametrize("name", attacks_by("action"))
def test_attacks(target: Target, name: str) -> None:
    attack = ATTACKS[name]
    found = target.attack(attack.program("action"))
    assert found == json.loads(target.filled(json.dumps(attack.answers("action"))))
    assert sorted(path.name for path in (target.folder / "victim").iterdir()) == ["kept", "listener", "pipe"]
    assert target.said() == b""
    assert target.bystander.poll() is None


def check_elsewhere(workspace: Workspace, folder: Path, executor: str) -> None:
    """Run attacks as programs of a catalog by another executor; each passes if it finds what it is to find."""
    catalog, attacks = Downstream(folder / "catalog"), attacks_by(executor)
    (folder / "victim").mkdir()
    (folder / "victim/kept").write_text("kept")
    for name, attack in attacks.items():
        source = f"{attack.program(executor)}\nassert found == {attack.answers(executor)!r}, found\n{GOOD}"
        for word, value in (("@victim", folder / "victim"), ("@terminal", "/dev/pts/0"), ("@port", 9)):
            source = source.replace(word, str(value))
        catalog.workload(name, jax=source)
    words = [f"{CELLS['jax']}/{name}" for name in attacks]
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
