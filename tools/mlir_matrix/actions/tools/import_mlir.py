"""Import hand-written MLIR: parse, verify, compare its ``@main`` with what the workload declares, write it normalised.

Parameters: ``inputs`` and ``outputs`` (lists of ``name``, ``shape``, ``dtype`` and, for inputs, ``dynamic``: axes that
must be open), ``backend``, optionally ``bindings``. Input: ``source``. Output: ``ir``.
"""

from __future__ import annotations

from mlir_matrix.actions.params import ImportParams
from mlir_matrix.actions.runtime.contract import Action
from mlir_matrix.actions.tools import backend
from mlir_matrix.actions.tools.interface import complaints, refuse

preload = backend.preload


def run(action: Action[ImportParams]) -> None:
    """Read ``source``, write ``ir``. Raise ActionFailed where the file differs from the workload's declaration."""
    taken, given = backend.backend_of(action).take_in(action)
    refuse(complaints(action.params, taken, given))
