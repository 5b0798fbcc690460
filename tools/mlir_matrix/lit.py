"""Run tests of the matrix as tests of lit.

A ``lit.cfg.py`` has three lines::

    import mlir_matrix.lit
    config.name = "acme"
    config.test_format = mlir_matrix.lit.Matrix(["nightly"], ["--catalog", "acme"])

lit lists each test of the matrix. One run of the matrix executes all that lit selects; so they share their actions. This module is
imported into the Python of lit, which may have no other package of ours: it needs the standard library and lit alone.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import lit.cl_arguments
import lit.Test

#: What the program prints where none of the tests can run here.
_NONE_RAN = re.compile(r"no test (?:can run|ran): ")


class Matrix:
    """The format of the tests in a suite of lit."""

    def __init__(
        self,
        tests: Sequence[str] = (),
        options: Sequence[str] = (),
        program: str | None = None,
        run_options: Sequence[str] = (),
    ) -> None:
        """Take suites, globs and identifiers, as ``matrix run`` does.

        ``options`` decide which tests there are, e.g. ``--pin``: both ``matrix plan`` and ``matrix run`` get them. ``run_options``
        are of ``matrix run`` alone, e.g. ``--jobs``. Paths among them are relative to the folder of ``lit.cfg.py``.
        """
        self.tests, self.options, self.run_options = list(tests), list(options), list(run_options)
        self.program = [program] if program else _program()
        self.folder = ""
        #: The tests for the run; empty: all of ``tests``.
        self.chosen: list[str] = []

    def getTestsInDirectory(self, suite: Any, path: Sequence[str], lit_config: Any, config: Any) -> Iterator[Any]:  # noqa: N802
        """Yield the tests of the suite, all of them in its top folder."""
        if path:
            return
        done = self._call("plan", "--format", "ids", *self.options, *self.tests, where=suite.source_root)
        if done.returncode != 0:
            lit_config.fatal(f"{shlex.join(done.args)}: {done.stderr.strip()}")
        names = done.stdout.splitlines()
        selected = _selected(suite.name, names)
        self.chosen = selected if len(selected) < len(names) else []
        self.folder = tempfile.mkdtemp(prefix="mlir-matrix-lit-")
        atexit.register(_remove, self.folder, os.getpid())
        for name in names:
            yield lit.Test.Test(suite, tuple(name.split("/")), config)

    def getTestsForPath(self, suite: Any, path: Sequence[str], lit_config: Any, config: Any) -> Iterator[Any]:  # noqa: N802
        """Yield nothing: tests are no files. ``lit --filter`` selects some."""
        yield from ()

    def execute(self, test: Any, lit_config: Any) -> Any:
        """Return the result of a test. The process that comes first runs the matrix, and the others wait for it."""
        if lit_config.noExecute:
            return lit.Test.Result(lit.Test.PASS)
        with open(f"{self.folder}/lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not os.path.exists(f"{self.folder}/report.json"):
                self._run(test.suite.source_root)
        name = "/".join(test.path_in_suite)
        report = _read(f"{self.folder}/report.json")
        entry = report["tests"].get(name)
        if entry is not None:
            return _result(entry)
        code = lit.Test.UNSUPPORTED if _NONE_RAN.search(report["stderr"]) else lit.Test.UNRESOLVED
        return lit.Test.Result(code, f"{report['command']}\nexit code {report['code']}: {report['stderr']}")

    def _run(self, where: str) -> None:
        """Run the tests; write what :func:`_read` reads."""
        results = f"{self.folder}/results.json"
        suites = [word for word in self.tests if "/" not in word]
        tests = [*suites, *map(_glob_of, self.chosen)] if self.chosen else self.tests
        options = (*self.options, *self.run_options)
        done = self._call("run", "--quiet", "--results", results, *options, *tests, where=where)
        entries = json.loads(Path(results).read_bytes())["tests"] if os.path.exists(results) else []
        report = {
            "command": shlex.join(done.args),
            "code": done.returncode,
            "stderr": done.stderr.strip(),
            "tests": {entry["id"]: entry for entry in entries},
        }
        written = f"{self.folder}/report.new"
        Path(written).write_text(json.dumps(report))
        os.replace(written, f"{self.folder}/report.json")

    def _call(self, *words: str, where: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.program, *words], cwd=where, capture_output=True, text=True, check=False)


def _program() -> list[str]:
    """Return the words that start the program that this module belongs to."""
    package = Path(__file__).resolve().parent
    # In a checkout, and in an installed program.
    for program in (package.parent / "matrix", package.parent / "../../../bin/matrix"):
        if os.access(program, os.X_OK):
            return [os.path.normpath(program)]
    return [sys.executable, "-m", "mlir_matrix"]


def _selected(suite: str, names: Sequence[str]) -> list[str]:
    """Return the tests that ``--filter`` and ``--filter-out`` of lit's command line select.

    lit applies them after it has found the tests, and processes that execute one test do not know the others.
    """
    options = lit.cl_arguments.parse_args()
    wanted, unwanted = getattr(options, "filter", None), getattr(options, "filter_out", None)

    def is_selected(name: str) -> bool:
        full = f"{suite} :: {name}"
        if unwanted and unwanted.search(full):
            return False
        return not wanted or bool(wanted.search(full))

    return [name for name in names if is_selected(name)]


def _glob_of(name: str) -> str:
    """Return a glob that matches one test: naming a test that cannot run exactly is an error of the program."""
    place, _, called = name.rpartition("/")
    workload = re.split("[~@]", called)[0]
    return f"{place}/{{{workload}}}{called.removeprefix(workload)}"


@cache
def _read(path: str) -> Any:
    return json.loads(Path(path).read_bytes())


def _result(test: dict[str, Any]) -> Any:
    """Return the result of a test by its entry in a results document."""
    return lit.Test.Result(_code(test), "\n".join(_lines(test)))


def _code(test: dict[str, Any]) -> Any:
    outcome, expected = test["outcome"], test["expected"]
    if outcome in ("unsupported", "skipped"):
        return lit.Test.UNSUPPORTED
    if outcome == "pass":
        return lit.Test.PASS if expected else lit.Test.XPASS
    if expected or "quarantine" in test:
        return lit.Test.XFAIL
    return {"timed-out": lit.Test.TIMEOUT, "infra-error": lit.Test.UNRESOLVED}.get(outcome, lit.Test.FAIL)


def _lines(test: dict[str, Any]) -> Iterable[str]:
    """Yield why a test has its result, and the commands that repeat it and that help next."""
    yield f"{test['outcome']}: {test['reason']}" if test["reason"] else test["outcome"]
    if test.get("diagnostics"):
        yield test["diagnostics"]
    for key in ("kept", "repeat", "next"):
        if test.get(key):
            yield f"{key}: {test[key]}"


def _remove(folder: str, owner: int) -> None:
    """Remove the folder of a run, in the process that has made it and not in those that it forks."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
