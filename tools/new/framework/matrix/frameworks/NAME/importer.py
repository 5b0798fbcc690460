"""Import a source of a workload. The API: docs/writing-a-tool.md of mlir-matrix."""

from __future__ import annotations

from mlir_matrix.actions.api import Action, backend_of, complaints, refuse


def run(action: Action) -> None:
    """Read ``source``, write ``out``. Raise ActionFailed where the file differs from the workload's declaration."""
    taken, given = backend_of(action).take_in(action)
    refuse(complaints(action.params, taken, given))
