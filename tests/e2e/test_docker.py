"""``--executor docker``, by a real daemon: the same results as here, and whatever an action tries stays in its container."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from downstream import Downstream, processes, tree
from hostile import GOOD, JAX, LEFT, NAME
from house import House, Report, copy_runtime, new_home, wait_until

from daemon import Daemon, dockerd
from mlir_matrix.containers.images import PACKAGES
from mlir_matrix.containers.owner import LABEL
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.job import Done, Limits
from mlir_matrix.execute.store import Store
from mlir_matrix.report.progress import Silent
from mlir_matrix.runner import Means, run_plan
from mlir_matrix.select import choose
from mlir_matrix.session import Session, open_session

TIMEOUT_S, MEMORY_MB = 25, 1024
CELL = "jax/linalg-loops/x86_64"
Fresh = Callable[[str], House]

#: Where a container answers otherwise than this machine does: it has its own root, its own users and its own first process.
ELSEWHERE = {
    "kills_everyone": (JAX["kills_everyone"][0].replace("getppid() == 0", "getppid() == 1"), "pass", ""),
    "kills_its_parent": (JAX["kills_its_parent"][0], "pass", ""),
    "writes_elsewhere": (JAX["writes_elsewhere"][0], "import-failed", "No such file"),
    "writes_our_code": (JAX["writes_our_code"][0], "import-failed", "Permission denied"),
}
#: And what only a container can hold.
MORE = {
    "forks_without_end": (
        NAME + "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(600)",
        "import-failed", "it started more processes than the limit of 1024; BlockingIOError",
    ),
    "bombs_without_end": (
        NAME + "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "timed-out", "no answer within",
    ),
    "memory_of_many": (
        NAME + "import os\nfor _ in range(8):\n    if os.fork() == 0: break\n"
        "hog = b''.join(b'x' * (1 << 20) for _ in range(700))\nwhile True: pass",
        "import-failed", rf"out of memory: what it started took more than the limit of {MEMORY_MB} MiB",
    ),
    "reads_home": ("import os\nprint(os.listdir('HOME'))" + GOOD, "import-failed", "No such file"),
    "is_nobody": (
        "import os\nassert os.getuid() and os.getgid(), 'root'\n"
        "assert not int(open('/proc/self/status').read().partition('CapEff:')[2].split()[0], 16)" + GOOD, "pass", "",
    ),
    "writes_anywhere": (
        "import os\nfor base, _, _ in os.walk('/'):\n"
        "    if base.startswith(('/proc', os.getcwd())): continue\n"
        "    try: open(base + '/x', 'w')\n    except OSError: continue\n    raise ValueError(base)" + GOOD, "pass", "",
    ),
    "shares_memory": (
        "import ctypes\nassert ctypes.CDLL(None).shmget(1, 4096, 0o1666) < 0" + GOOD, "pass", "",
    ),
    "fills_its_folder": (
        "import os\nfor n in range(300):\n    os.makedirs(f'a/{n}')\n    open(f'out/{n}', 'w').close()\nos.chmod('.', 0)" + GOOD,
        "import-failed|pass", "",
    ),
}  # fmt: skip
CASES = JAX | ELSEWHERE | MORE
INNOCENT = [f"good_{number}" for number in range(6)]


def left(daemon: Daemon) -> list[str]:
    """The containers of ours that there are."""
    return daemon.docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()


@pytest.fixture
def own(containers: House, tmp_path: Path) -> House:
    """A home with the daemon, whose cache holds the C runtime alone."""
    made = replace(containers, home=new_home(tmp_path / "home"))
    copy_runtime(containers.actions, made.actions)
    return made


def run(house: House, *words: str | Path, code: int = 0) -> Report:
    done = house("run", *words, "--executor", "docker", "--format", "json", "--quiet")
    assert done.code == code, (done.code, done.stderr, done.stdout[-3000:])
    return Report(done)


# The same as here


def executed(session: Session, executor: str) -> Mapping[str, Done]:
    """What every action of a dozen tests came to."""
    tests = choose(session.catalog, ("mlir/linalg-{loops,vectorized}/x86_64/{mlp,conv2d,softmax,topk,gelu,argmax}",))
    plan = session.plan(tests.tests())
    assert len(plan.verdicts) >= 12
    done = run_plan(
        session, plan, means=Means(executor=executor), limits=Limits(jobs=2), fail_fast=False, progress=Silent
    )
    return done.done


def test_executors_agree(containers: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> None:
    """Every action has the same outcome, and every output the same bytes."""
    monkeypatch.setenv("DOCKER_HOST", daemon.host)
    found = []
    for executor in ("local", "docker"):
        copy_runtime(containers.actions, tmp_path / executor)
        done = executed(open_session(cache_dir=tmp_path / executor), executor)
        found.append({name: (each.result.outcome, each.result.outputs) for name, each in done.items()})
    assert len(found[0]) > 60
    assert found[0] == found[1]
    assert left(daemon) == []


# What actions try


@pytest.fixture(scope="module")
def aftermath(
    containers: House, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Report, House, Mapping[str, Any], Mapping[str, Any]]:
    """One run with all of them at once: its report, its house, and the victim's folder before and after."""
    folder = tmp_path_factory.mktemp("hostile")
    house = replace(containers, home=new_home(folder / "home"))
    copy_runtime(containers.actions, house.actions)
    victim = folder / "victim"
    victim.mkdir()
    (victim / "kept").write_text("kept")
    catalog = Downstream(folder / "catalog")
    for name, (source, _, _) in CASES.items():
        text = source.replace("VICTIM", str(victim)).replace("PORT", "9").replace("HOME", str(Path.home()))
        catalog.workload(name, jax=text.replace("STABLEHLO", "stablehlo.mlir"))
    for name in INNOCENT:
        catalog.workload(name, jax=GOOD)
    before = tree(victim)
    report = run(
        house, *(f"{CELL}/{name}" for name in (*CASES, *INNOCENT)), "--catalog", catalog.root,
        "--timeout", str(TIMEOUT_S), "--memory", str(MEMORY_MB), "--jobs", "4", code=1,
    )  # fmt: skip
    return report, house, before, tree(victim)


@pytest.mark.parametrize("name", [*CASES, *INNOCENT])
def test_each_gets_its_own_outcome(aftermath: tuple[Report, Any, Any, Any], name: str) -> None:
    _, outcome, reason = CASES.get(name, ("", "pass", ""))
    result = aftermath[0].tests[f"{CELL}/{name}"]
    assert re.fullmatch(outcome, result["outcome"]), result
    assert re.search(reason, result["reason"]), result


def test_nothing_is_left(aftermath: tuple[Report, House, Any, Any], daemon: Daemon) -> None:
    _, house, before, after = aftermath
    assert left(daemon) == []
    assert processes(name=LEFT) == []
    assert os.listdir(house.actions / "scratch") == []
    assert before == after
    strangers = [path for path in house.actions.rglob("*") if path.lstat().st_uid != os.geteuid()]
    assert strangers == []


def test_containers_are_locked_down(own: House, daemon: Daemon, tmp_path: Path) -> None:
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax="while True: pass")
    process = own.start("run", f"{CELL}/mine", "--catalog", catalog.root, "--executor", "docker", "--quiet")
    try:
        assert wait_until(lambda: left(daemon))
        found = json.loads(daemon.docker("inspect", left(daemon)[0]))[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    host = found["HostConfig"]
    assert (host["NetworkMode"], host["IpcMode"], host["ReadonlyRootfs"]) == ("none", "none", True)
    assert host["CapDrop"] == ["ALL"]
    assert not host["Privileged"]
    assert not host["CapAdd"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert 0 < host["Memory"] == host["MemorySwap"]
    assert host["PidsLimit"] > 0
    assert host["NanoCpus"] > 0
    assert found["Config"]["User"].split(":")[0] not in ("", "0", "root")
    assert [mount["Destination"] for mount in found["Mounts"] if mount["RW"]] == ["/work/action"]


# Being ended


@pytest.fixture
def endless(own: House, tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    """Starts a run that would not end, and whose action hides in a session of its own."""
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax=NAME + "import os, time\nif os.fork() == 0: os.setsid()\nwhile True: time.sleep(1)")

    def start() -> subprocess.Popen[str]:
        return own.start("run", f"{CELL}/mine", "--catalog", catalog.root, "--executor", "docker", "--quiet")

    return start


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended(
    how: signal.Signals, endless: Callable[[], subprocess.Popen[str]], own: House, daemon: Daemon, current: Session
) -> None:
    """At once, with what it runs. What a killed run could not remove the next one does, and nobody else's."""
    stranger = daemon.docker(
        "run", "--detach", "--network", "none", images_of(daemon, "jax")[0], *forever(current)
    ).strip()
    process = endless()
    try:
        assert wait_until(lambda: processes(name=LEFT))
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == (-how if how == signal.SIGKILL else 128 + how)
    assert "Traceback" not in err
    assert wait_until(lambda: not processes(name=LEFT), seconds=20)
    if how == signal.SIGKILL:
        assert left(daemon), "nobody is there to remove it"
        run(own, "mlir/linalg-loops/x86_64/transpose")
    assert left(daemon) == []
    assert os.listdir(own.actions / "scratch") == []
    assert daemon.docker("inspect", "--format", "{{.State.Running}}", stranger).strip() == "true"
    daemon.docker("rm", "--force", stranger)


def images_of(daemon: Daemon, name: str) -> list[str]:
    """The images of environments that are called so, or so at the end: two may be the same."""
    lines = daemon.docker("images", "--format", "{{.ID}} {{.Repository}}").splitlines()
    return [line.split()[0] for line in lines if line.endswith(name)]


def forever(session: Session) -> list[str]:
    """A command that waits, in the image of JAX."""
    environment = session.environment("jax", sealed=True)
    assert isinstance(environment, ResolvedEnvironment)
    python = environment.interpreter.command(session.home.packages, at=Path(PACKAGES))
    return [*python, "-S", "-c", "import time; time.sleep(600)"]


def test_two_runs_at_once(own: House, endless: Callable[[], subprocess.Popen[str]], daemon: Daemon) -> None:
    """One does not remove the other's."""
    process = endless()
    try:
        assert wait_until(lambda: processes(name=LEFT))
        before = set(processes(name=LEFT))
        run(own, "mlir/linalg-loops/x86_64/transpose")
        assert process.poll() is None
        assert left(daemon), "the other's containers stay"
        assert before <= set(processes(name=LEFT)), "with what runs in them"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


# A machine that does not do its part


def test_no_daemon(own: House, tmp_path: Path) -> None:
    house = replace(own, more={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    done = house("run", "mlir/linalg-loops/x86_64/mlp", "--executor", "docker")
    assert (done.code, done.stdout) == (3, "")
    assert re.search("no container daemon answers at .*none.sock: start one", done.stderr)


def test_known_results_need_no_daemon(own: House, tmp_path: Path) -> None:
    run(own, "mlir/linalg-loops/x86_64/mlp")
    house = replace(own, more={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert run(house, "mlir/linalg-loops/x86_64/mlp").executed == 0


@pytest.fixture
def mortal(current: Session, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that a test may kill."""
    with dockerd(current, tmp_path / "docker") as running:
        yield running


@pytest.mark.slow
def test_daemon_that_dies(own: House, mortal: Daemon, tmp_path: Path) -> None:
    """Infra-errors with the reason, exit 3, and what was finished is kept."""
    house = replace(own, more={"DOCKER_HOST": mortal.host})
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax=NAME + "import time\ntime.sleep(8)" + GOOD)
    with under_way(house, f"{CELL}/mine", "--catalog", catalog.root) as process:
        before = house.count()
        os.kill(mortal.pid, signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 3, (out, err)
    (test,) = json.loads(out)["tests"]
    assert test["outcome"] == "infra-error"
    assert re.search("container daemon", test["reason"])
    assert house.count() >= before


@contextmanager
def under_way(house: House, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A run of one test whose action has begun."""
    process = house.start("run", *words, "--executor", "docker", "--format", "json", "--quiet")
    try:
        assert wait_until(lambda: processes(name=LEFT))
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_image_that_vanishes(own: House, daemon: Daemon, tmp_path: Path) -> None:
    """While a run is under way; the next one makes it again."""
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax=NAME + "import time\ntime.sleep(20)" + GOOD)
    with under_way(own, f"{CELL}/mine", "--catalog", catalog.root) as process:
        # By then it has looked for all images.
        time.sleep(8)
        for image in images_of(daemon, ""):
            # Those that run cannot be removed.
            with suppress(subprocess.CalledProcessError):
                daemon.docker("rmi", "--force", image)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 3, (out, err)
    (test,) = json.loads(out)["tests"]
    assert test["outcome"] == "infra-error"
    assert re.search("environment [a-z-]+.*[Nn]o such image", test["reason"]), test["reason"]
    again = run(own, f"{CELL}/mine", "--catalog", catalog.root)
    assert again.outcomes == {f"{CELL}/mine": "pass"}


def test_full_disk(containers: House, small_disk: Path, tmp_path: Path) -> None:
    """Never a verdict, never kept; with room again the same command gives the verdict."""
    house = replace(containers, home=new_home(tmp_path / "home"), cache=small_disk / "cache")
    copy_runtime(containers.actions, house.actions)
    Store(house.actions).prepare()
    (small_disk / "ballast").write_bytes(b"x" * max(0, shutil.disk_usage(small_disk).free - (200 << 10)))
    test = "mlir/linalg-loops/x86_64/mlp"
    done = house("run", test, "--executor", "docker", "--format", "json", "--quiet")
    assert done.code == 3, (done.stdout[-2000:], done.stderr)
    assert Report(done).outcomes == {test: "infra-error"}
    assert {entry["outcome"]["outcome"] for entry in house.kept().values()} == {"ok"}
    (small_disk / "ballast").unlink()
    assert run(house, test).outcomes == {test: "pass"}


def test_container_that_is_removed(own: House, daemon: Daemon, tmp_path: Path) -> None:
    """By somebody else: the action is tried again, and has its verdict."""
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax=NAME + "import time\ntime.sleep(4)" + GOOD)
    with under_way(own, f"{CELL}/mine", "--catalog", catalog.root) as process:
        for container in left(daemon):
            daemon.docker("rm", "--force", container)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (out, err)


def test_what_a_person_sees(own: House, daemon: Daemon) -> None:
    """Images that are made are told."""
    daemon.docker("rmi", "--force", *images_of(daemon, "numpy"))
    done = own("run", "mlir/linalg-loops/x86_64/transpose", "--executor", "docker")
    assert done.code == 0
    assert "image of numpy" in done.stderr
