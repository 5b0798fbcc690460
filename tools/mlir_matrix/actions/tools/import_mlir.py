"""Import hand-written MLIR: parse, verify, compare ``@main`` with the workload's declaration, write it normalised."""

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
