"""The command line in a fork of a process that has imported the program, because importing takes longer than most commands do.

A fork sees what a new process would: its own arguments, variables, folder and streams. How the program starts, and what it then
imports, is for tests that start it themselves: those of the launcher, of installed programs and of the documents.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from mlir_matrix.base.paths import find_home

_TESTS = Path(__file__).resolve().parents[1]


def call(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Call ``matrix`` to its end, with nothing to read from stdin."""
    with TemporaryDirectory() as folder:
        process = _server().Process(target=_perform, args=(list(words), str(cwd), dict(env), folder))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(words), timeout_s)
        out, err = (Path(folder, name).read_text(encoding="utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess(list(words), process.exitcode, out, err)


@cache
def _server() -> ForkServerContext:
    """Start the process."""
    from multiprocessing.forkserver import ensure_running

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.preloaded"])
    path = os.pathsep.join([str(_TESTS), str(_TESTS.parent / "tools")])
    given = {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(find_home().bytecode), "PYDANTIC_DISABLE_PLUGINS": "1"}
    with mock.patch.dict(os.environ, given):
        ensure_running()
    return context


def _perform(words: list[str], cwd: str, env: dict[str, str], folder: str) -> None:
    """Become the program."""
    for descriptor, name in enumerate((os.devnull, f"{folder}/out", f"{folder}/err")):
        file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv[1:] = words
    sys.pycache_prefix = env.get("PYTHONPYCACHEPREFIX")
    from mlir_matrix.cli.main import main

    main(words)
