"""What all tests share: the repository, the user's folders that hold the environments, and ways to call what is tested."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from mlir_matrix.actions.runtime import bytecode
from mlir_matrix.base.paths import find_home

# First, because what is imported then is compiled. Python itself would not notice a damaged file.
bytecode.keep_in(str(find_home().bytecode))

from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.base.events import Event, PackageProgress
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.installer import require
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.local_pool import WorkerProcess, start_worker
from mlir_matrix.execute.worker_process import Preload, worker_command
from mlir_matrix.plan.session import open_session
from support.groups import Durations, Groups, mark, order
from support.link_kit import build_link_kit
from support.machine import namespaces

#: How much property tests try: a hundred examples each, more by tools/test --hypothesis-profile thorough.
hypothesis.settings.register_profile(
    "usual", deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
hypothesis.settings.register_profile("thorough", hypothesis.settings.get_profile("usual"), max_examples=2000)
hypothesis.settings.load_profile("usual")

pytest_plugins = ["support.fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what concerns this suite alone."""
    parser.addoption(
        "--pairs", type=int, default=5, metavar="N", help="compose N programs (tests/system/test_pairs.py)"
    )
    parser.addoption(
        "--record-durations", action="store_true", help="write tests/durations.json, by which groups begin"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have what tests start obey Ctrl-C, also where a CI system starts us in the background, with SIGINT ignored."""
    if config.option.record_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs the network, and order all for the processes of pytest-xdist."""
    mark(items)
    if hasattr(config, "workerinput"):
        order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Have what the processes of pytest-xdist import before this file write nothing into the checkout."""
    for spec in specs:
        spec.dont_write_bytecode = True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Have groups decide which process a test runs in. Marks of pytest-xdist do not, with this pytest."""
    return Groups(config, log)


@pytest.fixture(scope="session")
def current() -> Session:
    """The repository's own catalog, with the user's folders."""
    return open_session()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot be tried here."""
    if item.get_closest_marker("namespaces") and not namespaces():
        pytest.skip("this kernel or container allows no namespaces")


@pytest.fixture(scope="session")
def c_library(current: Session) -> Path:
    """The C library for this machine, installed: it takes half a minute to build."""
    environment = current.environment("zig")
    assert isinstance(environment, ResolvedEnvironment)
    library = CLibrary.of("x86_64-linux-musl", environment.packages)
    if library.find(current.home.packages) is None:
        build_link_kit(current)
    found = library.find(current.home.packages)
    assert found is not None
    return found


@dataclass(frozen=True)
class Performed:
    """An action that was run in its real environment."""

    outcome: dict[str, Any]
    folder: Path
    outputs: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return self.outcome["outcome"] == "ok"

    def read(self, name: str) -> bytes:
        """The bytes of an output."""
        return (self.folder / self.outputs[name]).read_bytes()

    def text(self, name: str) -> str:
        """An output as text."""
        return self.read(name).decode()


def _skip_unavailable(event: Event) -> None:
    """Skip a test that needs a package which this machine cannot have."""
    if isinstance(event, PackageProgress) and event.unavailable:
        pytest.skip(event.error)


class Environments:
    """Installs environments once, and runs actions in them: in a worker, or as plain commands, as a remote executor would."""

    def __init__(self, current: Session, scratch: Path) -> None:
        self._session = current
        self._home = find_home()
        self._scratch = scratch
        #: By environment and tool; most of the time that an action takes is that of importing what it needs.
        self._workers: dict[tuple[str, str], WorkerProcess] = {}

    @property
    def packages(self) -> Path:
        """Where packages are installed."""
        return self._home.packages

    def require(self, name: str) -> ResolvedEnvironment:
        """The environment, installed."""
        environment = self._session.environment(name)
        assert isinstance(environment, ResolvedEnvironment), environment.reason
        require(self._session, environment, _skip_unavailable)
        return environment

    def perform(
        self,
        environment: str,
        tool: str,
        folder: Path,
        *,
        params: Mapping[str, Any],
        inputs: Mapping[str, bytes | str | Path],
        outputs: Mapping[str, str],
        stage: str = "lower",
        plain: bool = False,
    ) -> Performed:
        """Run one action in ``folder``, a new folder below a test's own. A tool may be a Python file of the repository."""
        found = self.require(environment)
        if "/" in tool:
            params, inputs = {**params, "tool": tool}, {"tool": Path(__file__).parents[1] / tool, **inputs}
            tool = "python_file"
        (folder / "in").mkdir(parents=True)
        names = {}
        for name, content in inputs.items():
            base = content.name if isinstance(content, Path) else name
            names[name] = f"in/{base}"
            data = content.read_bytes() if isinstance(content, Path) else content
            (folder / names[name]).write_bytes(data.encode() if isinstance(data, str) else data)
        request = {"tool": tool, "stage": stage, "params": params, "inputs": names, "outputs": dict(outputs)}
        (folder / "action.json").write_text(json.dumps(request), encoding="utf-8")
        if plain:
            places = {"store": self._home.packages, "bytecode": self._home.bytecode}
            command = worker_command(found, **places, arguments=["action.json"])
            subprocess.run(command, cwd=folder, env=CLEAN_ENVIRONMENT, check=True, timeout=600)
        else:
            self._ask(found, tool, folder)
        return Performed(json.loads((folder / "outcome.json").read_text()), folder, dict(outputs))

    def _ask(self, environment: ResolvedEnvironment, tool: str, folder: Path) -> None:
        """Have a worker do the action in a folder."""
        worker = self._workers.get((environment.name, tool))
        if worker is None:
            places = {"store": self._home.packages, "bytecode": self._home.bytecode}
            scratch = self._scratch / f"{environment.name}-{tool}"
            scratch.mkdir()
            worker = start_worker(environment, Preload({tool}, set()), **places, scratch=scratch)
            self._workers[environment.name, tool] = worker
        worker.send(worker.request(str(folder), None, timeout_s=600, memory_mb=8192))
        answers: list[Any] = []
        alive = True
        while alive and not answers:
            answers, alive = worker.receive()
        assert answers, worker.last_output()

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers.values():
            worker.kill()
            worker.stop()


@pytest.fixture(scope="session")
def environments(current: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environments]:
    """Environments of the repository, installed when first asked for."""
    found = Environments(current, tmp_path_factory.mktemp("workers"))
    yield found
    found.close()
