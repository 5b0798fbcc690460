"""Compile LLVM-dialect IR to an object file for the CPU of the machine this runs on.

Parameters: ``parameters`` with ``opt-level`` (0 to 3), and ``bindings``. Input: ``ir`` in the LLVM dialect. Output:
``object``, whose entry point is the C interface of ``@main``. The execution engine, all that bindings have to
generate code with, is used as a compiler only: nothing of the kernel runs here. It takes no CPU but the one that it is on.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.contract import Action
from mlir_matrix.actions.tools import bindings, kernel
from mlir_matrix.actions.tools.bindings import Session

preload = bindings.preload


def run(action: Action) -> None:
    """Read ``ir``, write ``object``."""
    level = kernel.opt_level(action)
    package = bindings.load(str(action.params.get("bindings") or bindings.default_root()))
    with package.session() as session:
        compile_object(session, action.inputs["ir"], level, Path(action.outputs["object"]))


def compile_object(session: Session, source: str, level: int, target: Path) -> None:
    """Write the object file; ActionFailed when the IR cannot be translated or has no C interface."""
    module = session.parse(source)
    undefined = _undefined(module)
    stand_in = ctypes.CFUNCTYPE(None)(_never_called)
    address = ctypes.cast(stand_in, ctypes.c_void_p)
    engine = session.bindings.needed("execution_engine").ExecutionEngine
    with session.compiling("code generation failed"):
        made = engine(module, opt_level=level, enable_object_dump=True)
        for name in undefined:
            made.raw_register_runtime(name, address)
        # Compilation is lazy: looking the symbol up is what makes the object. That what the code generator itself calls
        # (compiler-rt's conversions) may not be found in this process is of no matter: nothing is run here.
        made.raw_lookup(kernel.ENTRY)
        made.dump_to_object_file(str(target))
    if not target.is_file() or target.stat().st_size == 0:
        raise session.failed("code generation wrote no object file")


def _never_called() -> None:
    """Stands for what the driver supplies, so that the engine can finish linking in memory."""


def _undefined(module: Any) -> list[str]:
    """Functions that the kernel declares and the driver or libm defines; ActionFailed when it has no entry point."""
    functions = [each.operation for each in module.body.operations if each.operation.name == "llvm.func"]
    names = {str(each.attributes["sym_name"].value): bool(len(each.regions[0].blocks)) for each in functions}
    if not names.get(kernel.ENTRY):
        raise kernel.without_entry()
    return sorted(name for name, defined in names.items() if not defined)
