"""What all tests share: the repository, the user's folders that hold the environments, and ways to call what is tested."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.environments.install import Installer, PackageProgress
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.workers import worker_command
from mlir_matrix.home import find_home
from mlir_matrix.session import Session, open_session

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Its stdout as JSON."""
        return json.loads(self.stdout)

    def outcomes(self) -> dict[str, str]:
        """Outcome by test, from a results document."""
        return {test["id"]: test["outcome"] for test in self.document["tests"]}


def matrix_command(*arguments: str | Path) -> list[str]:
    """The command line of ``matrix``, without the launcher's shell."""
    return [sys.executable, "-P", "-s", str(REPOSITORY / "tools" / "mlir_matrix"), *map(str, arguments)]


def call_matrix(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 900
) -> Finished:
    """Run ``matrix`` to its end."""
    done = subprocess.run(
        matrix_command(*arguments),
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd or REPOSITORY,
        env={**os.environ, "CI": "true", "COLUMNS": "120", **(env or {})},
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "mistake in matrix itself" not in done.stderr, done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def matrix() -> Callable[..., Finished]:
    """Call the command line: ``matrix("run", "--format", "json")``."""
    return call_matrix


@pytest.fixture(scope="session")
def current() -> Session:
    """The repository's own catalog, with the user's folders."""
    return open_session()


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
        if environment.missing(self._home.packages):
            errors: list[str] = []

            def listen(progress: PackageProgress) -> None:
                if progress.error:
                    errors.append(progress.error)

            self._home.packages.mkdir(parents=True, exist_ok=True)
            installer = Installer(self._home.packages, listen)
            installer.request([environment])
            installer.finish()
            assert not errors, errors
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
        from mlir_matrix.actions.isolation import CLEAN_ENVIRONMENT

        subprocess.run(command, cwd=folder, env=CLEAN_ENVIRONMENT, check=True, timeout=600)
        return Performed(json.loads((folder / "outcome.json").read_text()), folder, dict(outputs))


@pytest.fixture(scope="session")
def environments(current: Session) -> Environments:
    """Environments of the repository, installed when first asked for."""
    return Environments(current)


def start_matrix(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start ``matrix`` in a process group of its own."""
    return subprocess.Popen(
        matrix_command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "CI": "true", **(env or {})},
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """End a process that a test started, at once and without warning."""
    process.send_signal(signal.SIGKILL)
    process.wait()
