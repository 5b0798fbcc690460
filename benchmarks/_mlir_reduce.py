"""``mlir-reduce`` of LLVM's releases on the same programs."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from _matrix import matrix

from mlir_matrix.reduce.run import operations_of
from mlir_matrix.reduction.tree import parse

#: The exit codes of a process that a signal ended, of a shell and of ``mlir-reduce`` itself.
_CODES = {"SIGFPE": "136", "SIGSEGV": "139", "SIGABRT": "134"}
_GENERIC = ("--mlir-print-op-generic", "--mlir-print-local-scope")


def programs_of(release: str) -> Path:
    """Return the folder of a release's programs."""
    return Path(matrix("toolchain", "which", f"mlir-opt@{release}").split()[-1]).parent


def mlir_reduce(programs: Path, source: Path, passes: str, said: str, seconds: float, folder: Path) -> int | str:
    """Return how many operations are left if a pass must fail; a word if no program comes out of it.

    ``said``: a signal, or what the error must have.
    """
    failing = shlex.join([str(programs / "mlir-opt"), f"--pass-pipeline=builtin.module({passes})"])
    shows = f"grep -qF {shlex.quote(said)} error && exit 1"
    if said in _CODES:
        shows = f"case $? in {_CODES[said]}) exit 1;; esac"
    script = folder / "test.sh"
    # Exit code 1 stands for a program that shows the failure.
    script.write_text(f'#!/bin/sh\n{failing} "$1" >/dev/null 2>error\n{shows}\nexit 0\n')
    script.chmod(0o755)
    reduced = folder / "by-mlir-reduce.mlir"
    tree = f"--reduction-tree=traversal-mode=0 test={script}"
    command = [str(each) for each in (programs / "mlir-reduce", source, tree, "-o", reduced)]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"nothing within {seconds:.0f} s"
    if done.returncode:
        return "crashes itself" if done.returncode < 0 or done.returncode > 128 else "fails"
    printed = subprocess.run([programs / "mlir-opt", *_GENERIC, reduced], capture_output=True, text=True, check=True)
    return operations_of(parse(printed.stdout))
