"""Benchmarks begin: each finds what it imports, as ``benchmarks/run`` starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mlir_matrix.base.paths import find_home

ROOT = Path(__file__).parents[2]
#: A process for each, because what one changes would hide what another lacks. What others have made takes long to import.
IMPORT = """\
import os, sys, traceback

import click, numpy, pydantic, rich.console, sqlalchemy, yaml

sys.path[0] = os.path.dirname(sys.argv[1])
from _start import start

for file in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            start([file], "imported")
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(os.path.basename(file))
"""


def test_benchmarks_find_what_they_import() -> None:
    assert "benchmarks/_start.py" in (ROOT / "benchmarks/run").read_text()
    files = sorted((ROOT / "benchmarks").glob("[a-z]*.py"))
    assert len(files) > 30
    command = [sys.executable, "-s", "-X", f"pycache_prefix={find_home().bytecode}", "-c", IMPORT, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == [], done.stderr
