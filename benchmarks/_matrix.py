"""The real ``matrix``, as a person starts it, and the same with a report of what its process did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = str(ROOT / "tools" / "matrix")
#: The same in this interpreter.
PROGRAM = (sys.executable, "-P", "-s", str(ROOT / "tools" / "mlir_matrix" / "__main__.py"))

#: What ``tools/mlir_matrix/__main__.py`` does, and then, instead of leaving, a report.
_REPORTING = """
import json, os, resource, sys
leave = os._exit
def report(code):
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(sys.argv[1], "w") as file:
        json.dump({"own_s": own.ru_utime + own.ru_stime, "others_s": others.ru_utime + others.ru_stime,
                   "others_rss": others.ru_maxrss, "modules": sorted(sys.modules), "code": code}, file)
    leave(code)
os._exit = report
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
sys.path.insert(0, sys.argv[2])
from mlir_matrix.cli.main import main
main(sys.argv[3:])
"""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run of ``matrix``: its results document, and what its process and the processes under it did."""

    document: dict[str, Any]
    #: CPU seconds of the process itself, and of all processes that it started and that have ended.
    own_s: float
    others_s: float
    #: Kilobytes of the largest process that it started; 0 where it started none.
    others_rss: int
    modules: frozenset[str]


def matrix(*arguments: str) -> str:
    """Run the launcher; its stdout. Exit code 1 is fine: tests may fail here as anywhere."""
    done = subprocess.run([LAUNCHER, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"matrix {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def observed(*arguments: str, form: str = "json") -> Report:
    """Run ``matrix run … --format FORM`` in the same interpreter as the launcher does, and report on it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-P", "-s", *_bytecode(), "-c", _REPORTING, str(file), str(ROOT / "tools")]
        done = subprocess.run(
            [*command, "run", "--quiet", "--format", form, *arguments],
            cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False,
            env={**os.environ, "MATRIX_LAUNCHER": LAUNCHER},
        )  # fmt: skip
        if done.returncode not in (0, 1):
            raise SystemExit(f"matrix run {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        found = json.loads(file.read_text(encoding="utf-8"))
    return Report(
        document=json.loads(done.stdout) if form == "json" else {},
        own_s=found["own_s"],
        others_s=found["others_s"],
        others_rss=found["others_rss"],
        modules=frozenset(found["modules"]),
    )


def _bytecode() -> Sequence[str]:
    return ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
