"""The command line as a user with folders of their own calls it, and what comes out of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from mlir_matrix.base.paths import Home, find_home
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.schema.export import adapter
from support import fork_server

REPOSITORY = Path(__file__).resolve().parents[2]
#: What a catalog consists of, and the driver's sources, which every kernel is linked with.
ROOMS = ("matrix", "recipes", "golden", "toolchains", "tools/driver")


def results(cache: Path) -> Iterator[Path]:
    """The files of an action cache that hold results, each called like its key."""
    return (path for path in Path(ActionCache(cache).results).glob("??/*") if "." not in path.name)


def entry_of(path: Path) -> dict[str, Any]:
    """What a file of results says; the line below it is its checksum."""
    entry: dict[str, Any] = json.loads(path.read_text().splitlines()[0])
    return entry


def wait_until(true: Callable[[], object], seconds: float = 120) -> bool:
    """Wait for something; returns whether it came true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @cached_property
    def document(self) -> Any:
        """Its stdout as JSON, which its schema allows."""
        found = json.loads(self.stdout)
        for document in found if isinstance(found, list) else [found]:
            if "$schema" not in document:
                adapter(document["schema"].split("/")[1]).validate_json(json.dumps(document))
        return found


#: Limits in seconds: one that no test of ours meets, and one to wait for.
ENDS_S, ENDLESS_S = 300, 10


@dataclass(frozen=True)
class Workspace:
    """Somebody's folders, and the command line as they call it."""

    home: Path
    #: The catalog (``MATRIX_ROOT``); None: the repository's own.
    root: Path | None = None
    #: An action cache other than the home's.
    cache: Path | None = None
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        env = {
            "MATRIX_HOME": str(self.home),
            "PYTHONPYCACHEPREFIX": str(self.home / "bytecode"),
            "CI": "true",
            "COLUMNS": "120",
        }
        return env | ({"MATRIX_ROOT": str(self.root)} if self.root else {}) | dict(self.more)

    def with_copy(self, root: Path) -> Workspace:
        """Return this home with a copy of the catalog that a test may change."""
        for room in ROOMS:
            shutil.copytree(REPOSITORY / room, root / room)
        return Workspace(self.home, root=root)

    @property
    def actions(self) -> Path:
        """Where the action cache is."""
        return self.cache or self.home / "actions"

    @property
    def folders(self) -> Home:
        """The same folders for what is called in this process."""
        return Home(cache=self.home, state=self.home / "state", actions=self.actions)

    def failure(self, test: str) -> Path:
        """The folder of a failed test, of the last run that has one."""
        return max((self.home / "state" / "failures").glob(f"*/{test}"))

    def words(self, *arguments: str | Path) -> list[str]:
        """The arguments of the command line."""
        takes_cache = self.cache is not None and arguments[:1] in (("run",), ("golden",))
        return [*map(str, arguments), *(["--cache-dir", str(self.cache)] if takes_cache else [])]

    def command(self, *arguments: str | Path) -> list[str]:
        """The command line, without the launcher's shell."""
        program = str(REPOSITORY / "tools" / "mlir_matrix" / "__main__.py")
        return [sys.executable, "-P", "-s", program, *self.words(*arguments)]

    def __call__(self, *arguments: str | Path, cwd: Path | None = None) -> Finished:
        """Call ``matrix`` to its end. Whatever happens, no traceback may come out of it."""
        done = self.finish(self.words(*arguments), cwd or REPOSITORY)
        assert "Traceback" not in done.stderr, done.stderr
        assert "internal error" not in done.stderr, done.stderr
        return Finished(done.returncode, done.stdout, done.stderr)

    def finish(self, words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        """Call the program to its end."""
        return fork_server.call(words, cwd=cwd, env={**os.environ, **self.env}, timeout_s=900)

    def run(self, *tests: str, code: int | None = 0, catalog: Path | None = None) -> Report:
        """Run tests and read the results document."""
        extra: tuple[str | Path, ...] = ("--catalog", catalog) if catalog else ()
        done = self("run", *tests, *extra, "--format", "json", "--quiet")
        report = Report(done)
        assert code is None or done.code == code, report.told()
        return report

    def run_with_endless(self, tests: Sequence[str], endless: Sequence[str], *words: str | Path) -> dict[str, Any]:
        """Run tests of which some fail, and those that never end apart with a short limit; the results by test.

        One limit for both would be too long to wait for, or too short for a good test on a busy machine.
        """
        found = {}
        for names, limit_s in ((tests, ENDS_S), (endless, ENDLESS_S)):
            if names:
                done = self("run", *names, *words, "--timeout", str(limit_s), "--format", "json", "--quiet")
                report = Report(done)
                assert done.code == 1, report.told()
                found |= report.tests
        return found

    def plan(self, *tests: str) -> Any:
        """The plan document."""
        done = self("plan", *tests, "--format", "json")
        assert done.code == 0, done.stderr
        return done.document

    @contextlib.contextmanager
    def start(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """Start ``matrix`` as the leader of a process group and a session; kill it in the end, also where a test fails."""
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **self.env},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def kept(self) -> dict[str, dict[str, Any]]:
        """What the action cache holds: outcome and outputs (by digest) of every action, by its key."""
        entries = {path.name: entry_of(path) for path in results(self.actions)}
        return {key: {"outcome": entry["outcome"], "outputs": entry["outputs"]} for key, entry in entries.items()}

    def count(self) -> int:
        """How many results the action cache holds."""
        return sum(1 for _ in results(self.actions))


@dataclass(frozen=True)
class Report:
    """A finished run with its results document."""

    finished: Finished

    @property
    def document(self) -> Any:
        return self.finished.document

    @cached_property
    def tests(self) -> dict[str, Any]:
        return {test["id"]: test for test in self.document["tests"]}

    @cached_property
    def outcomes(self) -> dict[str, str]:
        return {identifier: test["outcome"] for identifier, test in self.tests.items()}

    @property
    def executed(self) -> int:
        return int(self.document["executed"])

    @property
    def actions(self) -> set[str]:
        """The actions that were executed."""
        return set(self.document["executed_actions"])

    def check(self, wanted: Mapping[str, tuple[str, str]]) -> None:
        """These tests ran and no others; each has its outcome, and a reason with a text in it."""
        assert self.tests.keys() == wanted.keys()
        found = {name: (test["outcome"], test["reason"]) for name, test in self.tests.items()}
        wrong = {
            name: found[name]
            for name, (outcome, reason) in wanted.items()
            if found[name][0] != outcome or reason not in found[name][1]
        }
        assert not wrong

    def told(self) -> str:
        """What to show where the exit code is not the one that a test wants."""
        if not self.finished.stdout:
            return f"exit code {self.finished.code}: {self.finished.stderr}"
        lines = [f"{name}: {self.outcomes[name]}: {self.tests[name]['reason']}" for name in sorted(self.surprises())]
        return "\n".join([f"exit code {self.finished.code}, {len(lines)} not as expected", *lines[:8]])

    def surprises(self) -> set[str]:
        """The tests that are not as expected."""
        return {identifier for identifier, test in self.tests.items() if not test["expected"]}


def new_home(folder: Path) -> Path:
    """Make a home that shares the user's packages and their layers, and with other homes Bazel's servers and kept catalogs."""
    real = find_home().cache
    folder.mkdir(parents=True)
    for name in ("packages", "bytecode", "layers", "tool"):
        (real / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(real / name, target_is_directory=True)
    (folder / "bazel").symlink_to(bazel_folder(), target_is_directory=True)
    kept = real / "tests" / "kept-catalogs"
    kept.mkdir(parents=True, exist_ok=True)
    (folder / "kept-catalogs").symlink_to(kept, target_is_directory=True)
    return folder


@cache
def bazel_folder() -> Path:
    """Make the folder of this process's Bazel servers; what they keep of results is shared with later sessions."""
    made, results = Path(tempfile.mkdtemp(prefix="bazel-")), find_home().cache / "bazel" / "results"
    results.mkdir(parents=True, exist_ok=True)
    (made / "results").symlink_to(results, target_is_directory=True)
    return made


def bazel_servers(folder: Path) -> set[int]:
    """Return the processes of the Bazel servers below the ``bazel`` folder of a home."""
    found = {int(file.read_text()) for file in (folder / "root").glob("*/server/server.pid.txt")}
    return {pid for pid in found if Path("/proc", str(pid)).exists()}


def end_bazel(folder: Path) -> None:
    """End the Bazel servers below a folder, and remove it."""
    for pid in bazel_servers(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not bazel_servers(folder))
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        shutil.rmtree(folder)
