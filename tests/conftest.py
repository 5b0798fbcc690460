"""What all tests share: the repository, the user's folders that hold the environments, and ways to call what is tested."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.worker_process import worker_command
from mlir_matrix.paths import find_home
from mlir_matrix.session import Session, open_session
from mlir_matrix.toolchains.names import require
from support.groups import distribute
from support.machine import namespaces

REPOSITORY = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--pairs``, the number of composed programs."""
    parser.addoption("--pairs", type=int, default=20, metavar="N", help="compose N programs (tests/e2e/test_pairs.py)")


def pytest_configure() -> None:
    """Have what tests start obey Ctrl-C, also where a CI system starts us in the background, with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Distribute tests over the processes of pytest-xdist, where there are several."""
    if hasattr(config, "workerinput"):
        distribute(items)


@pytest.fixture(scope="session")
def current() -> Session:
    """The repository's own catalog, with the user's folders."""
    return open_session()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot be tried here."""
    if item.get_closest_marker("namespaces") and not namespaces():
        pytest.skip("this kernel or container allows no namespaces")


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


class Environments:
    """Installs environments once, and runs actions in them as plain commands, as a remote executor would."""

    def __init__(self, current: Session) -> None:
        self._session = current
        self._home = find_home()

    @property
    def packages(self) -> Path:
        """Where packages are installed."""
        return self._home.packages

    def require(self, name: str) -> ResolvedEnvironment:
        """The environment, installed."""
        environment = self._session.environment(name)
        assert isinstance(environment, ResolvedEnvironment), environment.reason
        require(self._session, environment)
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
        limits: Sequence[str] = (),
    ) -> Performed:
        """Run one action in ``folder``, a new folder below a test's own."""
        found = self.require(environment)
        (folder / "in").mkdir(parents=True)
        names = {}
        for name, content in inputs.items():
            base = content.name if isinstance(content, Path) else name
            names[name] = f"in/{base}"
            data = content.read_bytes() if isinstance(content, Path) else content
            (folder / names[name]).write_bytes(data.encode() if isinstance(data, str) else data)
        request = {"tool": tool, "stage": stage, "params": params, "inputs": names, "outputs": dict(outputs)}
        (folder / "action.json").write_text(json.dumps(request), encoding="utf-8")
        command = worker_command(
            found, store=self._home.packages, bytecode=self._home.bytecode, arguments=["action.json", *limits]
        )
        from mlir_matrix.actions.runtime.isolation import CLEAN_ENVIRONMENT

        subprocess.run(command, cwd=folder, env=CLEAN_ENVIRONMENT, check=True, timeout=600)
        return Performed(json.loads((folder / "outcome.json").read_text()), folder, dict(outputs))


@pytest.fixture(scope="session")
def environments(current: Session) -> Environments:
    """Environments of the repository, installed when first asked for."""
    return Environments(current)
