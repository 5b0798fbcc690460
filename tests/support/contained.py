"""What is tried with actions in containers, whichever daemon runs these."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlir_matrix.containers.reaper import LABEL
from support.daemon import Daemon
from support.downstream import Downstream, processes, tree
from support.hostile import CELLS, GOOD, JAX, LEFT, NAME
from support.workspace import Report, Workspace, new_home, wait_until

MEMORY_MB = 1024
CELL = CELLS["jax"]
#: A test of two actions, in a small image.
SMALL = "mlir/linalg-named-canonical/ir/named"

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
        "import-failed", rf"out of memory: the processes that it started exceeded the limit of {MEMORY_MB} MiB",
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
    "fills_its_folder": (
        "import os\nfor n in range(300):\n    os.makedirs(f'a/{n}')\n    open(f'out/{n}', 'w').close()\nos.chmod('.', 0)" + GOOD,
        "import-failed|pass", "",
    ),
}  # fmt: skip
#: What no container and no Bazel has a part in: the worker that sees what a program raises, returns or claims is the same.
BY_THE_WORKER = (
    "raises_at_import", "exits", "exits_inside", "interrupts", "base_exception", "no_text", "escape_codes", "long_message",
    "syntax", "null_bytes", "nothing", "no_function", "dtype", "count", "none", "text", "recursion", "endless", "sleeps_in_c",
    "stops_itself", "aborts", "stack", "prints", "deep_folders", "threads", "asks", "claims_skipped", "claims_ok",
    "outcome_garbage", "outcome_folder", "log_pipe", "output_device",
)  # fmt: skip
CASES = {name: case for name, case in (JAX | ELSEWHERE | MORE).items() if name not in BY_THE_WORKER}
#: Takes a thousand processes to be made: Podman's tests have time for that.
SLOW = "forks_without_end"


def served(folder: Path, daemon: Daemon) -> Workspace:
    """A workspace with a daemon, once that has the images that most tests need ."""
    made = Workspace(new_home(folder / "home"), more={"DOCKER_HOST": daemon.host})
    test = f"{CELL}/transpose"
    for words in (("container", "build", test), ("run", test, "--executor", "docker", "--timeout", "900", "--quiet")):
        done = made(*words)
        assert done.code == 0, done.stderr + done.stdout
    return made


def apart(workspace: Workspace, folder: Path) -> Workspace:
    """A home of its own with the same daemon."""
    return replace(workspace, home=new_home(folder))


def run(workspace: Workspace, *words: str | Path) -> Report:
    """Run tests in containers, and read the results document."""
    done = workspace("run", *words, "--executor", "docker", "--format", "json", "--quiet")
    assert done.code == 0, (done.code, done.stderr, done.stdout[-3000:])
    return Report(done)


def left(daemon: Daemon) -> list[str]:
    """The containers of ours that there are."""
    return daemon.docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()


def start_endless(workspace: Workspace, folder: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start a run that would not end, and whose action hides in a session of its own."""
    catalog = Downstream(folder)
    catalog.workload("mine", jax=NAME + "import os, time\nif os.fork() == 0: os.setsid()\nwhile True: time.sleep(1)")
    return workspace.start("run", f"{CELL}/mine", "--catalog", catalog.root, "--executor", "docker", "--quiet")


def check_ended(how: signal.Signals, workspace: Workspace, folder: Path, daemon: Daemon) -> None:
    """A run ends at once, with what it runs. What a killed run could not remove the next one does."""
    with start_endless(workspace, folder) as process:
        assert wait_until(lambda: processes(name=LEFT))
        process.send_signal(how)
        _, err = process.communicate(timeout=120)
    check_end(process.returncode, err, how)
    if how == signal.SIGKILL:
        assert left(daemon), "nobody is there to remove it"
        run(workspace, SMALL)
    check_nothing_stays(workspace, daemon)


def check_end(code: int, err: str, how: signal.Signals) -> None:
    """A run has ended by a signal, and what it ran has, too."""
    assert code == (-how if how == signal.SIGKILL else 128 + how)
    assert "Traceback" not in err
    assert wait_until(lambda: not processes(name=LEFT))


def check_nothing_stays(workspace: Workspace, daemon: Daemon) -> None:
    """There are no containers, and no folders of actions."""
    assert left(daemon) == []
    assert os.listdir(workspace.actions / "scratch") == []


@dataclass(frozen=True)
class Aftermath:
    """What was left by runs with many hostile programs at once."""

    tests: Mapping[str, Any]
    workspace: Workspace
    #: The folder that none may change, before and after.
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def check_nothing_left(self, daemon: Daemon) -> None:
        """No container, no process, no folder, and no change."""
        assert left(daemon) == []
        assert processes(name=LEFT) == []
        assert os.listdir(self.workspace.actions / "scratch") == []
        assert self.before == self.after

    def check(self, name: str) -> None:
        """A program has the outcome that it is to get."""
        _, outcome, reason = CASES.get(name, ("", "pass", ""))
        result = self.tests[f"{CELL}/{name}"]
        assert re.fullmatch(outcome, result["outcome"]), result
        assert re.search(reason, result["reason"]), result


def attempt(workspace: Workspace, folder: Path, names: Collection[str]) -> Aftermath:
    """Run some of the programs, and good ones where no program is called so."""
    victim, catalog = folder / "victim", Downstream(folder / "catalog")
    victim.mkdir()
    (victim / "kept").write_text("kept")
    for name in names:
        source = CASES[name][0] if name in CASES else GOOD
        text = source.replace("VICTIM", str(victim)).replace("PORT", "9").replace("HOME", str(Path.home()))
        catalog.workload(name, jax=text.replace("STABLEHLO", "stablehlo.mlir"))
    before = tree(victim)
    endless = [name for name in names if name in CASES and CASES[name][1] == "timed-out"]
    tests = workspace.run_with_endless(
        [f"{CELL}/{name}" for name in names if name not in endless],
        [f"{CELL}/{name}" for name in endless],
        "--catalog", catalog.root, "--executor", "docker", "--memory", str(MEMORY_MB), "--jobs", "4",
    )  # fmt: skip
    return Aftermath(tests, workspace, before, tree(victim))
