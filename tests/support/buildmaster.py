"""A Buildbot master with workers, on ports and in folders of their own, and what its REST API says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

from support.loopback import choose_port
from support.workspace import REPOSITORY, Workspace, wait_until

_TOOL = "import sys; from {}.scripts.runner import run; run()"


class Master:
    """A running master; leave it to end it and its workers."""

    def __init__(
        self, folder: Path, workspace: Workspace, config: str, workers: list[str], *, most_s: float = 120
    ) -> None:
        """``config`` may use WWW and WORKER, the ports; ``most_s``: how long is waited for a build."""
        self._folder, self._workspace, self._most_s = folder, workspace, most_s
        self._stack = ExitStack()
        self._www, self._port = choose_port(), choose_port()
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        #: Numbers of builders by name, once they have been asked for.
        self._builders: dict[str, int] = {}
        self._call("buildbot", "create-master", "-q", "master")
        master = folder / "master"
        (master / "master.cfg").write_text(
            f"WWW, WORKER = {self._www}, 'tcp:{self._port}:interface=127.0.0.1'\n{config}"
        )
        (master / "passwords").mkdir()
        for name in workers:
            (master / "passwords" / name).write_text(f"secret-{name}")
            (master / "passwords" / name).chmod(0o600)
        self._start_master()
        for name in workers:
            where = ("--buildbot", folder / name, "--master", f"127.0.0.1:{self._port}", "--name", name)
            made = workspace("machine", "init", *where, "--password-file", master / "passwords" / name)
            assert made.code == 0, made.stderr
            self.start_worker(name)

    def __enter__(self) -> Master:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def restart(self) -> None:
        """End the master as ``buildbot stop`` does, and start it again; its workers stay."""
        self._process.terminate()
        assert self._process.wait(60) == 0, self.log()[-6000:]
        self._start_master()

    def _start_master(self) -> None:
        self._process = self._start("buildbot", "master")
        assert wait_until(self._answers, 60), self.log()

    def start_worker(self, name: str) -> None:
        self.workers[name] = self._start("buildbot_worker", name)

    def log(self) -> str:
        return (self._folder / "master" / "twistd.log").read_text(errors="replace")

    def get(self, path: str) -> Any:
        """Return what the REST API has at a path."""
        return json.loads(self.raw(path))

    def raw(self, path: str) -> bytes:
        """Ask again where the server closes the connection between head and body of its answer, which it does at times."""
        for _ in range(4):
            with (
                suppress(IncompleteRead),
                urllib.request.urlopen(f"http://127.0.0.1:{self._www}/api/v2/{path}", timeout=120) as answer,
            ):
                return bytes(answer.read())
        raise AssertionError(f"{path}: no whole answer")

    def force(self, form: str, builder: str, **values: str) -> int:
        """Fill in a form; return the number of the build set. Raise HTTPError if the form refuses a value."""
        parameters = {"builderid": self.builder(builder), "owner": "me <me@example.com>", **values}
        body = {"id": 1, "jsonrpc": "2.0", "method": "force", "params": parameters}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._www}/api/v2/forceschedulers/{form}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return int(json.load(answer)["result"][0])

    def builder(self, name: str) -> int:
        if name not in self._builders:
            self._builders |= {each["name"]: int(each["builderid"]) for each in self.get("builders")["builders"]}
        return self._builders[name]

    def builds(self, builder: str) -> list[Build]:
        """All builds of a builder, the first one first."""
        found = self.get(f"builders/{self.builder(builder)}/builds?order=number")["builds"]
        return [Build(self, each["buildid"]) for each in found]

    def wait(self, builder: str, count: int) -> Build:
        """Wait for the end of a builder's build of this number."""
        # One request each time: the master has other work to do.
        complete = f"builders/{self.builder(builder)}/builds?complete=true"
        self.until(lambda: len(self.get(complete)["builds"]) >= count)
        return self.builds(builder)[count - 1]

    def until(self, true: Callable[[], object]) -> None:
        """Wait for something that the REST API says; to ask all the time would slow the master down."""
        end = time.monotonic() + self._most_s
        while not true():
            assert time.monotonic() < end, "\n".join(
                line for line in self.log().splitlines() if "gitpoller" not in line
            )[-6000:]
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            return bool(self.get("builders")["builders"])
        except OSError:
            return False

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, **self._workspace.env, "PYTHONPATH": str(REPOSITORY / "tools")}

    def _call(self, package: str, *words: str) -> None:
        command = [sys.executable, "-c", _TOOL.format(package), *words]
        subprocess.run(command, cwd=self._folder, env=self._environment(), check=True, capture_output=True, timeout=60)

    def _start(self, package: str, folder: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _TOOL.format(package), "start", "--nodaemon", folder]
        process = self._stack.enter_context(
            subprocess.Popen(
                command, cwd=self._folder, env=self._environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
        self._stack.callback(process.kill)
        return process


class Build:
    """A build, as the REST API tells it."""

    def __init__(self, master: Master, number: int) -> None:
        self._master, self.id = master, number

    @property
    def _entry(self) -> Any:
        return self._master.get(f"builds/{self.id}")["builds"][0]

    @property
    def complete(self) -> bool:
        return bool(self._entry["complete"])

    @property
    def results(self) -> int:
        return int(self._entry["results"])

    @property
    def text(self) -> str:
        return str(self._entry["state_string"])

    @property
    def properties(self) -> dict[str, Any]:
        found = self._master.get(f"builds/{self.id}/properties")["properties"][0]
        return {name: value for name, (value, _source) in found.items()}

    @property
    def steps(self) -> dict[str, Any]:
        """Its steps by name, in their order."""
        return {each["name"]: each for each in self._master.get(f"builds/{self.id}/steps")["steps"]}

    def logs(self, step: str) -> dict[str, str]:
        """The text of each log of a step."""
        logs = self._master.get(f"steps/{self.steps[step]['stepid']}/logs")["logs"]
        assert len({each["name"] for each in logs}) == len(logs), "a log is there twice"
        assert all(each["complete"] for each in logs)
        return {each["name"]: self._master.raw(f"logs/{each['logid']}/raw_inline").decode() for each in logs}

    def data(self, name: str) -> bytes:
        return self._master.raw(f"builds/{self.id}/data/{name}/value")
