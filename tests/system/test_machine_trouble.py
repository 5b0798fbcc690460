"""A machine that does not do its part: nobody's verdict, nothing lost, and what can be done again is."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlir_matrix.base.paths import find_home
from mlir_matrix.execute.action_cache import ActionCache
from support.downstream import Downstream, processes
from support.hostile import INNOCENT_MLIR, LEFT, NAME
from support.link_kit import copy_link_kit
from support.workspace import REPOSITORY, Finished, Report, Workspace, new_home, results, wait_until

GOOD = "def workload(x):\n    return x * 2\n"
#: The framework's import takes as long as all else, so that most tests do without.
TEST, JAX = "mlir/linalg-loops/x86_64/mine", "jax/linalg-loops/x86_64/mine"
LOCKS = REPOSITORY / "toolchains" / "locks"
#: What environments run on here.
TAG = "cp312" if sys.version_info[:2] == (3, 12) else "cp311"
Fresh = Callable[[str], Workspace]
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def catalog(tmp_path: Path) -> Downstream:
    made = Downstream(tmp_path / "catalog")
    made.workload("mine", jax=GOOD, linalg=INNOCENT_MLIR)
    return made


def run(workspace: Workspace, catalog: Downstream, *tests: str, code: int = 0, options: tuple[str, ...] = ()) -> Report:
    done = workspace("run", *tests, "--catalog", catalog.root, "--format", "json", "--quiet", *options)
    assert done.code == code, (done.code, done.stderr, done.stdout[-3000:])
    return Report(done)


# The cache


def test_cache_that_is_a_file(fresh: Fresh, catalog: Downstream, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        done = fresh(f"home-{place.name}")("run", TEST, "--catalog", catalog.root, "--cache-dir", place)
        assert (done.code, done.stdout) == (3, "")
        assert re.search(r"action cache cannot be written.*(File exists|Not a directory)", done.stderr), done.stderr


def test_cache_that_cannot_be_written(fresh: Fresh, catalog: Downstream, small_disk: Path) -> None:
    assert _libc.mount(b"tmpfs", os.fsencode(small_disk), b"tmpfs", 32 | 1, b"") == 0
    done = fresh("home")("run", TEST, "--catalog", catalog.root, "--cache-dir", small_disk / "cache")
    assert (done.code, done.stdout) == (3, "")
    assert "Read-only file system" in done.stderr


def test_known_results_need_no_writing(used: Workspace, catalog: Downstream, small_disk: Path) -> None:
    """Reading is enough where nothing has to be executed."""
    shutil.copytree(used.actions, small_disk / "cache", ignore=shutil.ignore_patterns("scratch"))
    assert _libc.mount(b"tmpfs", os.fsencode(small_disk), b"tmpfs", 32 | 1, b"") == 0
    again = run(Workspace(used.home, cache=small_disk / "cache"), catalog, TEST)
    assert (again.outcomes[TEST], again.executed) == ("pass", 0)


def test_what_a_person_named_on_a_full_disk(
    warm: Workspace, catalog: Downstream, small_disk: Path, tmp_path: Path
) -> None:
    """Keeps what it was, or does not come to be, and is told; the report of the run is on stdout all the same."""
    (small_disk / "old.xml").write_text("old")
    (small_disk / "ballast").write_bytes(b"x" * shutil.disk_usage(small_disk).free)
    for name, (one, other) in {"a": "12", "b": "13"}.items():
        (tmp_path / f"{name}.txt").write_text(f"{one} {other}\n")
    for words, file in (
        (("run", "mlir/linalg-loops/x86_64/mlp", "--quiet", "--junit"), "old.xml"),
        (("run", "mlir/linalg-loops/x86_64/mlp", "--quiet", "--junit"), "new.xml"),
        (("compare", tmp_path / "a.txt", tmp_path / "b.txt", "--picture"), "map.svg"),
    ):
        done = warm(*words, small_disk / file)
        assert (done.code, bool(done.stdout)) == (3, True)
        assert done.stderr.splitlines()[-1].startswith(
            f"matrix: {small_disk / file} cannot be written: the disk is full"
        )
    assert {path.name for path in small_disk.iterdir()} == {"old.xml", "ballast"}
    assert (small_disk / "old.xml").read_text() == "old"


def fill(disk: Path, room: int) -> Path:
    """Leave ``room`` bytes of a disk; return the file that has the others."""
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * max(0, shutil.disk_usage(disk).free - room))
    return ballast


#: One sentence ends a run on a full disk: who had no room, what is full, how much is missing, what to do.
NO_ROOM = r"matrix: \S+: [^\n]+; the disk of {} has \d+\.\d MB free, and a run needs at least 17 MB; make room, .*"


@pytest.mark.parametrize("room", [0, 100, 900])
def test_disk_that_fills_up(room: int, link_kit: Path, catalog: Downstream, small_disk: Path, tmp_path: Path) -> None:
    """Wherever in the chain it happens (``room`` KiB from the beginning): never a verdict, never kept."""
    workspace = Workspace(new_home(tmp_path / "home"), cache=small_disk / "cache")
    copy_link_kit(link_kit, workspace.actions)
    ActionCache(workspace.actions).prepare()
    ballast = fill(small_disk, room << 10)
    done = workspace("run", TEST, "--catalog", catalog.root, "--format", "json", "--quiet")
    if done.code:
        assert (done.code, Report(done).tests[TEST]["reason"]) == (3, "the disk is full"), done
        assert re.fullmatch(NO_ROOM.format(workspace.actions), done.stderr.strip()), done.stderr
    assert {entry["outcome"]["outcome"] for entry in workspace.kept().values()} == {"ok"}
    ballast.unlink()
    assert run(workspace, catalog, TEST).outcomes == {TEST: "pass"}


def test_run_that_fills_the_disk(c_library: Path, small_disk: Path) -> None:
    """Where the home is, too: what is finished stays, and with more room the same command does the rest."""
    workspace = Workspace(new_home(small_disk / "home"))
    # What all tests share takes 3 MB, and all files take 14 MB: about half of the tests finish.
    ballast = fill(small_disk, 8 << 20)
    command = ("run", "mlir/linalg-loops/x86_64/[a-f]*", "--format", "json", "--quiet")
    first = Report(workspace(*command))
    assert (first.finished.code, {*first.outcomes.values()}) == (3, {"pass", "skipped", "unsupported"}), first.told()
    assert re.fullmatch(NO_ROOM.format(workspace.actions), first.finished.stderr.strip()), first.finished.stderr
    ballast.unlink()
    again = Report(workspace(*command))
    assert (again.finished.code, {*again.outcomes.values()}) == (0, {"pass", "unsupported"}), again.told()
    assert first.actions.isdisjoint(again.actions)


def test_disk_that_is_too_small_for_the_packages(small_disk: Path, tmp_path: Path) -> None:
    """A note before the run, one sentence after it, and no test that looks as if it had run."""
    workspace, file = Workspace(small_disk / "home"), tmp_path / "results.json"
    done = workspace("run", "mlir/linalg-loops/x86_64/{mlp,transpose}", "--results", file)
    need = rf"missing packages take \d+ MB, and the disk of {workspace.home}/packages has \d+ MB free"
    first, *_, last = done.stderr.splitlines()
    assert re.fullmatch(rf"note +{need}", first), done.stderr
    assert re.fullmatch(
        rf"matrix: \S+ \S+ cannot be \w+: the disk is full( \(\S+\))?; no incomplete .*; {need}; make room, .*", last
    ), last
    assert done.stderr.count("matrix: ") == 1
    assert done.stdout.splitlines()[-2] == "2 tests: 2 skipped"
    assert done.code == 3
    document = json.loads(file.read_text())
    assert {test["reason"] for test in document["tests"]} == {"the disk is full"}
    assert document["interrupted"]
    assert list((workspace.home / "packages").glob(".new-*")) == []


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def blobs(workspace: Workspace, *outputs: str) -> set[Path]:
    """Files of the outputs with these names."""
    return {
        workspace.actions / "blobs" / digest[:2] / digest
        for entry in workspace.kept().values()
        for name, digest in entry["outputs"].items()
        if name in outputs or not outputs
    }


@pytest.fixture(scope="module")
def finished(c_library: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Report]:
    """A home in which the tests have been run."""
    folder = tmp_path_factory.mktemp("finished")
    catalog = Downstream(folder / "catalog")
    catalog.workload("mine", jax=GOOD, linalg=INNOCENT_MLIR)
    workspace = Workspace(new_home(folder / "home"))
    return workspace, run(workspace, catalog, TEST, JAX)


@pytest.fixture
def used(finished: tuple[Workspace, Report], tmp_path: Path) -> Workspace:
    """A copy of it."""
    workspace = Workspace(new_home(tmp_path / "home"))
    shutil.copytree(finished[0].actions, workspace.actions)
    return workspace


@pytest.mark.parametrize("damage", [flip, Path.unlink], ids=["flip", "gone"])
def test_damaged_cache(damage: Callable[[Path], object], used: Workspace, catalog: Downstream) -> None:
    """All that was made is damaged: it is made again, with the same outcome."""
    for path in blobs(used):
        damage(path)
    again = run(used, catalog, TEST)
    assert again.outcomes == {TEST: "pass"}
    assert again.executed > 5


def test_damaged_blobs(used: Workspace, catalog: Downstream) -> None:
    """Whatever it is: what reads it waits until it has been made anew, in the same run."""
    for number, output in enumerate(("ir", "object", "x", "kernel", "out-y", "verdict")):
        damaged = blobs(used, output)
        assert damaged, output
        for path in damaged:
            flip(path)
        # The verdict depends on the golden: with another one only the judge, or with a damaged verdict nothing, is new.
        tolerance = f"layers:\n  - {{atol: 0.{number}5, rtol: 0, rationale: Another.}}\n"
        catalog.write("golden/mine/tolerances.yaml", tolerance)
        assert run(used, catalog, TEST).outcomes == {TEST: "pass"}, output
    assert run(used, catalog, TEST).executed == 0


def test_damaged_results(used: Workspace, finished: tuple[Workspace, Report], catalog: Downstream) -> None:
    """An entry that makes no sense is none."""
    texts = ["", "{", "null", "[]", '{"outcome": 1}', '{"outcome": {}}', '{"outcome": {"outcome": "ok"}}', "\0"]
    entries = [path for path in sorted(results(used.actions)) if '"runtime"' not in path.read_text()]
    assert len(entries) > len(texts)
    for path, text in zip(entries, itertools.cycle(texts)):
        path.write_text(text)
    again = run(used, catalog, TEST, JAX)
    assert again.outcomes == finished[1].outcomes
    assert again.executed == finished[1].executed


# Packages


def lock_of(*names: str) -> str:
    """Lines of the lock of JAX for some of its packages."""
    lines = (LOCKS / f"jax-{TAG}-linux-x86_64.txt").read_text().splitlines()
    return "\n".join(line for line in lines if line.split("==")[0] in names) + "\n"


def with_environment(catalog: Downstream, lock: str, tag: str = TAG) -> str:
    """A framework in an environment of the catalog's own, and the test that needs it."""
    # Two components that no other lock pins together: a lock is found by what it pins.
    catalog.write("toolchains/environments/mine.yaml", "description: X.\ncomponents: [numpy, wasmtime]\n")
    catalog.write(f"toolchains/locks/mine-{tag}-linux-x86_64.txt", lock)
    catalog.write(
        "matrix/frameworks/mine/framework.yaml",
        "description: X.\nenvironment: mine\nemits: {stablehlo: jax.py}\n",
    )
    catalog.write("matrix/frameworks/mine/importer.py", "def run(action): ...\n")
    return "mine/linalg-loops/x86_64/mine"


NOWHERE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_RETRIES": "0",
    "PIP_FIND_LINKS": "",
}

#: Where several packages cannot be had, whichever is found out first gives the reason.
ANY_OF_THEM = "not on the|cannot be|another hash than in the lock file"
#: What the environment pins, as nobody has it.
PINNED = "".join(f"{pin} --hash=sha256:{'0' * 64}\n" for pin in ("numpy==2.4.6", "wasmtime==50.0.1"))


def own_packages(workspace: Workspace, packages: Path, *, without: str = "") -> None:
    """Give a home packages that may come and go: links to the user's, but for one."""
    for folder in find_home().packages.iterdir():
        if not folder.name.startswith((".", f"{without or '.'}-")):
            (packages / folder.name).symlink_to(folder)
    take(workspace, packages)


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """A folder for packages. What is compiled of the user's serves it, or else all of that would be compiled anew."""
    folder = Path(tempfile.mkdtemp(prefix="packages-", dir=tmp_path))
    compiled = find_home().bytecode / folder.relative_to("/")
    compiled.parent.mkdir(parents=True, exist_ok=True)
    compiled.symlink_to(find_home().bytecode / find_home().packages.relative_to("/"))
    yield folder
    compiled.unlink()


def take(workspace: Workspace, packages: Path) -> None:
    """Give a home these packages."""
    (workspace.home / "packages").unlink()
    (workspace.home / "packages").symlink_to(packages)


def test_damaged_cache_and_a_package_that_is_gone(used: Workspace, catalog: Downstream, packages: Path) -> None:
    """The cached import is done again, in an environment that nothing else needs: it is installed."""
    own_packages(used, packages, without="opt_einsum")
    for path in blobs(used):
        flip(path)
    assert run(used, catalog, JAX).outcomes == {JAX: "pass"}
    assert any(folder.name.startswith("opt_einsum-") for folder in packages.iterdir())


@pytest.mark.parametrize(
    ("lock", "index", "reason"),
    [
        (PINNED, {}, "another hash than in the lock file"),
        (PINNED + "mlir-matrix-is-not-there==1.0 --hash=sha256:" + "0" * 64 + "\n", NOWHERE, ANY_OF_THEM),
    ],
    ids=["hash", "index"],
)  # fmt: skip
def test_package_that_cannot_be_had(
    lock: str, index: dict[str, str], reason: str, used: Workspace, catalog: Downstream, packages: Path
) -> None:
    """What needs it is an infra-error, the other tests pass, the exit code is 3, and no trace of it stays."""
    own_packages(used, packages)
    workspace = Workspace(used.home, more=index)
    mine = with_environment(catalog, lock)
    before = set(os.listdir(packages))
    report = run(workspace, catalog, mine, TEST, code=3)
    assert report.outcomes == {mine: "infra-error", TEST: "pass"}
    assert re.search(reason, report.tests[mine]["reason"]), report.tests[mine]["reason"]
    assert set(os.listdir(packages)) - {".locks"} == before
    assert processes(command=str(workspace.home)) == []


def test_no_mirror_of_debian(packages: Path, tmp_path: Path) -> None:
    """What needs Debian's packages is skipped and counted; the tests beside it pass, and the exit code is 0."""
    hidden = ("unshare", "--mount", "sh", "-c", '[ ! -d /etc/apt ] || mount -t tmpfs none /etc/apt && exec "$@"', "sh")
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("apt's configuration cannot be hidden: no mount namespace")
    workspace = Workspace(new_home(tmp_path / "home"))
    own_packages(workspace, packages, without="llvm-22.1.8")
    env = {**os.environ, **workspace.env, "MATRIX_DEB_MIRROR": ""}

    def without(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*hidden, *workspace.command(*words)]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)

    reason = (
        "unavailable on this machine: llvm 22.1.8: its Debian packages need a mirror, and apt's configuration (/etc/apt) "
        "has none; set MATRIX_DEB_MIRROR to the URL of one, or name a folder with the packages: matrix toolchain fetch --from DIR"
    )
    done = without("run", "mlir/linalg-to-{loops,openmp}/ir/*")
    assert f"\n  1 skipped: {reason}\n" in done.stdout
    assert done.stdout.splitlines()[-2] == "3 tests: 2 pass, 1 skipped"
    assert done.stdout.splitlines()[-1] == "all as expected; 0 of 2 from the cache, 4 actions run"
    assert done.returncode == 0
    named = without("run", "mlir/linalg-to-openmp/ir/rows", "--quiet")
    assert (named.returncode, named.stderr) == (2, f"matrix: no test ran: {reason}\n")


def test_no_lock_for_this_python(used: Workspace, catalog: Downstream) -> None:
    """Skipped, naming what would serve; the tests beside it pass."""
    other = "cp312" if TAG == "cp311" and not shutil.which("python3.12") else "cp399"
    mine = with_environment(catalog, lock_of("numpy"), tag=other)
    report = run(used, catalog, mine, TEST)
    assert report.outcomes == {mine: "skipped", TEST: "pass"}
    assert re.search(
        "environment mine.*(no lock file; make one with|locked for CPython 3.12)", report.tests[mine]["reason"]
    )


def damaged_home(workspace: Workspace, packages: Path, name: str, path: str) -> None:
    """Give a home packages of its own, one of them without a file."""
    for folder in find_home().packages.iterdir():
        if folder.name.startswith(f"{name}-") and f"-{TAG}-" in folder.name:
            shutil.copytree(folder, packages / folder.name)
            (packages / folder.name / path).unlink()
        elif not folder.name.startswith("."):
            (packages / folder.name).symlink_to(folder)
    take(workspace, packages)


def test_truncated_package(fresh: Fresh, catalog: Downstream, packages: Path) -> None:
    """Nobody's verdict: the package is named, with what to do."""
    workspace = fresh("home")
    damaged_home(workspace, packages, "opt_einsum", "opt_einsum/paths.py")
    catalog.write("matrix/workloads/mine/linalg.mlir", "func.func @main() {\n  return\n}\n")
    report = run(workspace, catalog, JAX, TEST, code=1)
    assert report.outcomes == {JAX: "infra-error", TEST: "import-failed"}
    assert re.search("opt_einsum.*paths.py is missing.*remove that folder", report.tests[JAX]["reason"])
    (bad,) = [path for path in packages.iterdir() if path.name.startswith("opt_einsum")]
    shutil.rmtree(bad)
    bad.symlink_to(find_home().packages / bad.name)
    assert run(workspace, catalog, JAX).outcomes == {JAX: "pass"}


# Being ended


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGINT,
        signal.SIGTERM,
        # Only a namespace ends with the process that made it, whatever is in it.
        pytest.param(signal.SIGKILL, marks=pytest.mark.namespaces),
    ],
)
def test_ended_while_actions_run(how: signal.Signals, fresh: Fresh, catalog: Downstream) -> None:
    """Nothing that the run started outlives it, not even what hides in a session of its own."""
    workspace = fresh("home")
    catalog.workload(
        "mine", jax="import os, time\nif os.fork() == 0: os.setsid()\n" + NAME + "while True: time.sleep(1)"
    )
    with workspace.start("run", JAX, "--catalog", catalog.root, "--quiet") as process:
        assert wait_until(lambda: len(processes(name=LEFT)) == 2)
        process.send_signal(how)
        process.communicate(timeout=120)
    assert wait_until(lambda: not processes(name=LEFT, command=str(workspace.home)))
    assert process.returncode == (-how if how == signal.SIGKILL else 128 + how)


def test_workers_that_are_killed(fresh: Fresh, catalog: Downstream) -> None:
    """One after the other, before they have begun anything: the environment gets another one after a while."""
    workspace = fresh("home")
    killed: set[int] = set()

    def kill_workers() -> bool:
        for line in processes(command=str(workspace.home)):
            pid = int(line.split()[0])
            if "--module jax.numpy" in line and os.getsid(pid) == pid and pid not in killed and len(killed) < 2:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        return len(killed) == 2

    with workspace.start("run", JAX, "--catalog", catalog.root, "--format", "json", "--quiet") as process:
        assert wait_until(kill_workers)
        stdout, stderr = process.communicate(timeout=300)
    report = Report(Finished(process.returncode, stdout, stderr))
    assert (process.returncode, report.outcomes) == (0, {JAX: "pass"}), report.tests


def locks_of(pid: int, packages: Path) -> set[str]:
    """Return the lock files of packages that a process has open: to hold them, or to wait for who does."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.readlink(descriptor))
    return {path for path in found if path.startswith(str(packages / ".locks"))}


def test_interrupted_while_installing(fresh: Fresh, catalog: Downstream, tmp_path: Path) -> None:
    """Ctrl-C ends pip, too, and at once; half an installation is none. Also while another run holds the lock."""
    workspace = fresh("home")
    packages = tmp_path / "packages"
    packages.mkdir()
    take(workspace, packages)
    words = ("run", JAX, "--catalog", catalog.root, "--quiet")
    with workspace.start(*words) as first:
        assert wait_until(lambda: list(packages.glob(".new-*")))
        with workspace.start(*words) as second:
            assert wait_until(lambda: locks_of(first.pid, packages) & locks_of(second.pid, packages))
            for process in (second, first):
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=120)
                assert process.returncode == 130
    assert wait_until(lambda: not processes(command=str(packages)))
    assert list(packages.glob(".new-*")) == []


# Surroundings


def test_a_home_with_an_odd_name(fresh: Fresh, catalog: Downstream) -> None:
    workspace = fresh("-dash with space, mît-ünïcode-目, quo'te\"s, $(id)")
    assert run(workspace, catalog, TEST).outcomes == {TEST: "pass"}


def test_relative_home(fresh: Fresh, catalog: Downstream, tmp_path: Path) -> None:
    workspace = Workspace(fresh("home").home, more={"MATRIX_HOME": "home"})
    done = workspace("run", TEST, "--catalog", catalog.root, "--format", "json", "--quiet", cwd=tmp_path)
    assert (done.code, Report(done).outcomes) == (0, {TEST: "pass"})
    assert not (REPOSITORY / "home").exists()


def bare(command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    """A command in an environment that holds next to nothing: no HOME, no TERM, no LANG."""
    whole = {"PATH": os.environ["PATH"], **env}
    return subprocess.run(
        command, env=whole, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip


def test_without_home_and_term(tmp_path: Path) -> None:
    """Neither MATRIX_HOME nor HOME: the password database has a home."""
    (tmp_path / "bytecode").symlink_to(find_home().bytecode)
    command = Workspace(tmp_path).command("plan", "mlir/linalg-loops/x86_64/mlp")
    done = bare(command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "mlp" in done.stdout
    assert "mlp" in bare(command, MATRIX_HOME=str(tmp_path)).stdout


def test_the_launcher_without_home() -> None:
    done = bare([str(REPOSITORY / "tools" / "matrix"), "--help"])
    assert done.returncode == 3
    assert done.stderr.startswith("matrix: neither HOME nor MATRIX_HOME is set")


def test_the_launcher_with_a_relative_home() -> None:
    """It finds what the absolute one has."""
    absolute = find_home().cache
    assert bare([str(REPOSITORY / "tools" / "matrix"), "--version"], MATRIX_HOME=str(absolute)).returncode == 0
    home = os.path.relpath(absolute, REPOSITORY)
    done = bare([str(REPOSITORY / "tools" / "matrix"), "--version"], MATRIX_HOME=home)
    assert (done.returncode, done.stderr) == (0, "")


CLOSED = (
    "no network, or no package index or proxy that can be reached (see: pip config list; HTTPS_PROXY); pip reports: "
)
PROXY = {"HTTPS_PROXY": "http://127.0.0.1:9", "PIP_INDEX_URL": "https://index.invalid/simple"}
INDEX = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}


def test_the_launcher_without_packages(tmp_path: Path) -> None:
    """One sentence, no output of pip."""
    env = {"PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "1", "MATRIX_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = bare([str(REPOSITORY / "tools" / "matrix"), "--version"], **env, **PROXY)
    first, second = done.stderr.splitlines()
    assert "first use" in first
    assert second.startswith(f"matrix: its packages (tools/requirements.txt) cannot be installed: {CLOSED}'ProxyError(")
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("before", "more", "reason"),
    [
        ("setarch i686", INDEX, "they are locked for x86_64 and aarch64, and this machine is i686"),
        ("", INDEX, CLOSED + "'NewConnectionError("),
        ("", {"PIP_NO_INDEX": "1"}, CLOSED + "ERROR: Could not find a version that satisfies the requirement numpy"),
    ],
    ids=["architecture", "index", "no index"],
)
def test_why_the_launcher_has_no_packages(before: str, more: dict[str, str], reason: str, tmp_path: Path) -> None:
    """The architecture, the index: one sentence each of what the real pip reports."""
    env = {"PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "1", "MATRIX_HOME": str(tmp_path), "HOME": str(tmp_path)}
    log = tmp_path / "pip.log"
    failed = bare([sys.executable, "-m", "pip", "download", "--dest", str(tmp_path), "numpy"], **env, **more)
    log.write_text(failed.stdout + failed.stderr)
    code = '. "$(dirname -- "$0")/environment.sh"; why_not "$1"'
    done = bare([*before.split(), "sh", "-c", code, str(REPOSITORY / "tools" / "matrix"), str(log)], **env)
    (line,) = done.stdout.splitlines()
    assert line.startswith(reason)


def test_damaged_bytecode(link_kit: Path, tmp_path: Path) -> None:
    """That of the program, of workers and of what both start from; a full disk cut it short."""
    for name in ("packages", "tool"):
        (tmp_path / name).symlink_to(find_home().cache / name)
    command = [str(REPOSITORY / "tools" / "matrix"), "run", "mlir/linalg-loops/x86_64/transpose", "--quiet"]
    copy_link_kit(link_kit, tmp_path / "actions")
    first = bare(command, MATRIX_HOME=str(tmp_path))
    assert first.returncode == 0, first.stderr
    made = [path for path in (tmp_path / "bytecode").rglob("*.pyc") if path.stat().st_size > 300]
    assert len({path.name.split(".")[0] for path in made} & {"bisect", "run_tests", "worker", "_methods"}) == 4
    for path in made:
        os.truncate(path, 300)
    shutil.rmtree(tmp_path / "actions")
    copy_link_kit(link_kit, tmp_path / "actions")
    again = bare(command, MATRIX_HOME=str(tmp_path))
    assert (again.returncode, again.stderr, again.stdout) == (0, first.stderr, first.stdout)
    assert all(path.stat().st_size > 300 for path in made)


@pytest.mark.parametrize(
    ("verb", "closed"),
    [("plan", "<&- >&- 2>&-"), ("run", "<&-"), ("run", ">&-"), ("run", "2>&-"), ("run", "<&- >&- 2>&-")],
)
def test_closed_streams(verb: str, closed: str, warm: Workspace) -> None:
    command = warm.command(verb, "mlir/linalg-loops/x86_64/transpose")
    shell = " ".join(f"'{word}'" for word in command) + " " + closed
    done = subprocess.run(
        ["sh", "-c", shell], capture_output=True, text=True, timeout=300, env={**os.environ, **warm.env}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_streams_that_take_nothing(warm: Workspace) -> None:
    """What cannot be said is the machine's trouble, and no traceback."""
    command = warm.command("run", "mlir/linalg-loops/x86_64/transpose", "--format", "json")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            env={**os.environ, **warm.env},
            check=False,
        )
    assert done.returncode == 3, done.stderr
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_unwritable_state(warm: Workspace, catalog: Downstream, tmp_path: Path) -> None:
    """The folder of failures cannot be made: the results are printed all the same."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("packages", "bytecode", "tool", "actions"):
        (home / name).symlink_to(warm.home / name)
    (home / "state").write_text("x")
    catalog.workload("mine", linalg="nothing")
    done = Workspace(home)("run", TEST, "--catalog", catalog.root, "--format", "json", "--quiet")
    assert done.code == 1, done.stderr
    assert json.loads(done.stdout)["tests"][0]["outcome"] == "import-failed"
    assert "state" in done.stderr
