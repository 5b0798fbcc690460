"""What tools that make or call kernels share: the entry point, limits of the driver, LLVM's levels."""

from __future__ import annotations

from mlir_matrix.actions.params import CodegenParams
from mlir_matrix.actions.runtime.contract import Action, ActionFailed

#: The C interface of ``@main``, by which the driver calls a kernel.
ENTRY = "_mlir_ciface_main"
#: What the driver can pass to a kernel: a pointer for each argument and one for all results (tools/driver/call.h; 64 on
#: WebAssembly), so many results, and so many dimensions of a tensor (spec.h).
MAX_POINTERS = 2048
MAX_RANK = 32
#: The most elements of a tensor: 128 GiB of doubles.
MAX_ELEMENTS = 1 << 34
_LEVELS = (0, 1, 2, 3)


def opt_level(action: Action[CodegenParams]) -> int:
    """Return LLVM's optimisation level for an action. Raise ActionFailed for an invalid one."""
    level = action.params.get("parameters", {}).get("opt-level", 2)
    # True is 1 to Python.
    if level not in _LEVELS or isinstance(level, bool):
        raise ActionFailed(f"opt-level is {level!r}; it must be 0, 1, 2 or 3")
    return int(level)


def without_entry() -> ActionFailed:
    """Return the error for IR without the entry point."""
    return ActionFailed(f"the IR has no function {ENTRY}; is it lowered to the LLVM dialect with C wrappers?")
