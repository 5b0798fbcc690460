"""``--executor docker``, by a real daemon: the same results as here, and whatever an action tries stays in its container."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.containers.layers import PACKAGES
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from support.contained import (
    CASES,
    CELL,
    SLOW,
    SMALL,
    Aftermath,
    apart,
    attempt,
    check_end,
    check_ended,
    check_nothing_stays,
    left,
    run,
    start_endless,
)
from support.daemon import Daemon, dockerd
from support.downstream import Downstream, processes
from support.hostile import GOOD, LEFT, NAME
from support.workspace import Report, Workspace, new_home, wait_until

INNOCENT = [f"good_{number}" for number in range(3)]
TRIED = [*(name for name in CASES if name != SLOW), *INNOCENT]


# What actions try


@pytest.fixture(scope="module")
def aftermath(containers: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    """Of one run with all of them at once."""
    folder = tmp_path_factory.mktemp("hostile")
    return attempt(apart(containers, folder / "home"), folder, TRIED)


@pytest.mark.parametrize("name", TRIED)
def test_each_gets_its_own_outcome(aftermath: Aftermath, name: str) -> None:
    aftermath.check(name)


def test_nothing_is_left(aftermath: Aftermath, daemon: Daemon) -> None:
    aftermath.check_nothing_left(daemon)
    strangers = [path for path in aftermath.workspace.actions.rglob("*") if path.lstat().st_uid != os.geteuid()]
    assert strangers == []


def test_containers_are_locked_down(own: Workspace, daemon: Daemon, tmp_path: Path) -> None:
    """Those of actions, and before them, where nothing is known of an image yet, the one that compiles its bytecode."""
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax="while True: pass")
    seen: dict[str, Any] = {}
    with own.start("run", f"{CELL}/mine", "--catalog", catalog.root, "--executor", "docker", "--quiet") as process:
        assert wait_until(lambda: ["/work/action"] in map(writable, look(daemon, seen)))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    for found in seen.values():
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
        assert writable(found) in (["/work/action"], ["/matrix/bytecode"])


def look(daemon: Daemon, seen: dict[str, Any]) -> Collection[Any]:
    """All containers of ours that were seen, with those that are there now."""
    for container in left(daemon):
        # It may be gone by now.
        with suppress(subprocess.CalledProcessError):
            seen[container] = json.loads(daemon.docker("inspect", container))[0]
    return seen.values()


def writable(container: Any) -> list[str]:
    """The mounts that a container may write to."""
    return [mount["Destination"] for mount in container["Mounts"] if mount["RW"]]


# Being ended


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_ended(how: signal.Signals, own: Workspace, daemon: Daemon, current: Session, tmp_path: Path) -> None:
    """At once, with what it runs. What a killed run could not remove the next one does, and nobody else's."""
    stranger = daemon.docker(
        "run", "--detach", "--network", "none", images_of(daemon, "jax")[0], *forever(current)
    ).strip()
    check_ended(how, own, tmp_path / "catalog", daemon)
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


def test_two_runs_at_once(own: Workspace, daemon: Daemon, tmp_path: Path) -> None:
    """One does not remove the other's, which ends by Ctrl-C with all that it runs."""
    with start_endless(own, tmp_path / "catalog") as process:
        assert wait_until(lambda: processes(name=LEFT))
        before = set(processes(name=LEFT))
        run(own, SMALL)
        assert process.poll() is None
        assert left(daemon), "the other's containers stay"
        assert before <= set(processes(name=LEFT)), "with what runs in them"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    check_end(process.returncode, err, signal.SIGINT)
    check_nothing_stays(own, daemon)


# A machine that does not do its part


def test_no_daemon(own: Workspace, tmp_path: Path) -> None:
    workspace = replace(own, more={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    done = workspace("run", "mlir/linalg-loops/x86_64/mlp", "--executor", "docker")
    assert (done.code, done.stdout) == (3, "")
    assert re.search("no container daemon answers at .*none.sock; start one", done.stderr)


def test_known_results_need_no_daemon(own: Workspace, tmp_path: Path) -> None:
    run(own, SMALL)
    workspace = replace(own, more={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert run(workspace, SMALL).executed == 0


@pytest.fixture
def mortal(current: Session, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that a test may kill."""
    with dockerd(current, tmp_path / "docker") as running:
        yield running


def test_daemon_that_dies(own: Workspace, mortal: Daemon, tmp_path: Path) -> None:
    """Infra-errors with the reason, exit 3, and what was finished is kept."""
    workspace = replace(own, more={"DOCKER_HOST": mortal.host})
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax=NAME + "import time\ntime.sleep(8)" + GOOD)
    with under_way(workspace, f"{CELL}/mine", "--catalog", catalog.root) as process:
        before = workspace.count()
        os.kill(mortal.pid, signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 3, (out, err)
    (test,) = json.loads(out)["tests"]
    assert test["outcome"] == "infra-error"
    assert re.search("container daemon", test["reason"])
    assert workspace.count() >= before


@contextmanager
def under_way(workspace: Workspace, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A run of one test whose action has begun."""
    with workspace.start("run", *words, "--executor", "docker", "--format", "json", "--quiet") as process:
        assert wait_until(lambda: processes(name=LEFT))
        yield process


def test_image_that_vanishes(own: Workspace, daemon: Daemon, tmp_path: Path) -> None:
    """While a run is under way; the next one makes it again."""
    catalog, test = Downstream(tmp_path / "catalog"), "jax/linalg-loops/x86_64/mine"
    catalog.workload("mine", jax=NAME + "import time\ntime.sleep(20)" + GOOD)
    # It makes the images, if no test before has.
    run(own, SMALL)
    assert images_of(daemon, "mlir")
    with under_way(own, test, "--catalog", catalog.root) as process:
        # By then it has looked for all images.
        time.sleep(8)
        for image in images_of(daemon, "mlir"):
            # Those that run cannot be removed.
            with suppress(subprocess.CalledProcessError):
                daemon.docker("rmi", "--force", image)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 3, (out, err)
    (result,) = json.loads(out)["tests"]
    assert result["outcome"] == "infra-error"
    assert re.search("environment [a-z-]+.*[Nn]o such image", result["reason"]), result["reason"]
    again = run(own, test, "--catalog", catalog.root)
    assert again.outcomes == {test: "pass"}


def test_full_disk(containers: Workspace, small_disk: Path, tmp_path: Path) -> None:
    """Never a verdict, never kept; with room again the same command gives the verdict."""
    workspace = replace(containers, home=new_home(tmp_path / "home"), cache=small_disk / "cache")
    run(workspace, "mlir/linalg-loops/x86_64/transpose")
    ActionCache(workspace.actions).prepare()
    (small_disk / "ballast").write_bytes(b"x" * max(0, shutil.disk_usage(small_disk).free - (200 << 10)))
    test = "mlir/linalg-loops/x86_64/mlp"
    done = workspace("run", test, "--executor", "docker", "--format", "json", "--quiet")
    assert done.code == 3, (done.stdout[-2000:], done.stderr)
    assert Report(done).outcomes == {test: "skipped"}
    assert {entry["outcome"]["outcome"] for entry in workspace.kept().values()} == {"ok"}
    (small_disk / "ballast").unlink()
    assert run(workspace, test).outcomes == {test: "pass"}


def test_container_that_is_removed(own: Workspace, daemon: Daemon, tmp_path: Path) -> None:
    """By somebody else: the action is tried again, and has its verdict."""
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("mine", jax=NAME + "import time\ntime.sleep(4)" + GOOD)
    with under_way(own, f"{CELL}/mine", "--catalog", catalog.root) as process:
        containers = left(daemon)
        for container in containers:
            # The run that loses it removes it too, and may be first.
            with suppress(subprocess.CalledProcessError):
                daemon.docker("rm", "--force", container)
        assert containers
        assert wait_until(lambda: not {*containers} & {*left(daemon)})
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (out, err)


def test_what_a_person_sees(own: Workspace, daemon: Daemon) -> None:
    """Images that are made are told."""
    daemon.docker("rmi", "--force", *images_of(daemon, "numpy"))
    done = own("run", f"{CELL}/transpose", "--executor", "docker")
    assert done.code == 0
    assert "image of numpy" in done.stderr
