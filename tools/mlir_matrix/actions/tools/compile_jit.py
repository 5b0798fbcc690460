"""Compile a kernel in memory by MLIR's own runner without calling it, so that compile errors have their own stage.

The runner is ``mlir-runner``, up to release 19 ``mlir-cpu-runner``. It keeps no object, so ``run_jit`` compiles the same module
again, which takes a tenth of a second.

params   ``parameters`` with ``opt-level`` (0 to 3)
inputs   ``ir``: the kernel in the LLVM dialect; ``driver``: the library that ``link_kit`` makes
outputs  ``ir``: the module with an entry point that gives the driver the address of the kernel's C interface
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from mlir_matrix.actions.contract import Action, ActionFailed, read_text
from mlir_matrix.actions.mlir import interface
from mlir_matrix.actions.params import CodegenParams
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.runtime.driver import execute

_RUNNERS = ("mlir-runner", "mlir-cpu-runner")
_DEFINED = re.compile(r"^ *llvm\.func (?:\S+ )*@([\w.$]+)\(.*\{$", re.MULTILINE)
#: A string, whose content is not a name, or the name of a function.
_NAME = re.compile(r'"(?:[^"\\]|\\.)*"|@([\w.$]+)')
#: The end of the module. Resources and locations may follow.
_END = re.compile(r"^\}$", re.MULTILINE)
_MISSING = re.compile(r"Symbols not found: \[ (.+) \]")
#: Two entry points. The first does nothing: the runner compiles the whole module before it calls it. The second calls the kernel.
READY, START = "matrix_ready", "matrix_start"
#: Opaque pointers are valid in all releases, also in 15 and 16, which have typed pointers, too.
_ENTRIES = f"""\
  llvm.func @matrix_drive(!llvm.ptr)
  llvm.func @{READY}() {{
    llvm.return
  }}
  llvm.func @{START}() {{
    %kernel = llvm.mlir.addressof @{interface.ENTRY} : !llvm.ptr
    llvm.call @matrix_drive(%kernel) : (!llvm.ptr) -> ()
    llvm.return
  }}
"""


def run(action: Action[CodegenParams]) -> None:
    """Raise ActionFailed if the module does not compile, ActionCrashed where the compiler crashes."""
    level = interface.opt_level(action)
    module = Path(action.outputs["ir"])
    module.write_text(with_entries(read_text(action.inputs["ir"], "the IR")), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="jit-", dir=".") as folder:
        code, printed, complaint = call(READY, module, action.inputs["driver"], level, Path(folder))
    if code:
        refuse(code, printed + complaint)


def call(
    entry: str, module: Path, driver: str, level: int, folder: Path, environment: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Compile a module and call an entry point of it. Return the printed text, which is equal on all machines."""
    words = programs.command(next((each for each in _RUNNERS if programs.has(each)), _RUNNERS[0]))
    command = [
        *words, "-e", entry, "--entry-point-result=void", f"-O{level}",
        f"--shared-libs={Path(driver).absolute()}", str(module),
    ]  # fmt: skip
    # The compiler writes a record for profilers, by default to the user's home.
    variables = {"JITDUMPDIR": str(folder.absolute()), **(environment or {})}
    code, printed, complaint = execute(command, folder, variables)
    programs.check_started(words, code, complaint)
    return code, programs.clean(printed), programs.clean(complaint)


def with_entries(module: str) -> str:
    """Add a function that passes the kernel to the driver, and one that does nothing.

    Rename the kernel's own functions, because LLVM would take a function ``round`` for the one of C.
    """
    ends = [found.start() for found in _END.finditer(module)]
    own = set(_DEFINED.findall(module))
    if not ends or interface.ENTRY not in own:
        raise interface.without_entry()
    renamed = {name: f"@kernel.{name}" for name in own - {interface.ENTRY}}

    def rename(found: re.Match[str]) -> str:
        return renamed.get(found[1], found[0])

    return _NAME.sub(rename, module[: ends[-1]]) + _ENTRIES + module[ends[-1] :]


def refuse(code: int, said: str) -> NoReturn:
    """Raise the error for a compiler that failed; ``said`` is its whole output."""
    missing = _MISSING.search(said)
    if missing:
        names = ", ".join(sorted(missing[1].split(", ")))
        raise ActionFailed(f"the kernel needs {names}, which neither the driver nor libm has", diagnostics=missing[0])
    programs.refuse(code, said, failure="the kernel cannot be compiled in memory")
