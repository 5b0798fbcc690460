"""Call a kernel of a shared object through memref descriptors, with a fixed number of OpenMP's threads."""

from __future__ import annotations

import ctypes

from mlir_matrix.actions.api import Action, ActionFailed, MachineFailed, call_main, library

#: Threads that a machine of any size starts.
MOST = 1024


def run(action: Action) -> None:
    """Read ``artifact`` and ``arg-…``, write ``out-…``."""
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    runtime = ctypes.CDLL(library("libomp.so.5"), mode=ctypes.RTLD_GLOBAL)
    try:
        kernel = ctypes.CDLL(action.inputs["artifact"])
    except OSError as error:
        raise ActionFailed(f"the shared object does not load: {error}") from error
    threads = action.params["parameters"]["threads"]
    if not 1 <= threads <= MOST:
        raise ActionFailed(f"threads is {threads}; expected 1 to {MOST}")
    runtime.omp_set_dynamic(0)
    runtime.omp_set_num_threads(threads)
    if runtime.omp_get_max_threads() != threads:
        raise MachineFailed(f"OpenMP's runtime gives {runtime.omp_get_max_threads()} threads instead of {threads}")
    call_main(action, kernel)
