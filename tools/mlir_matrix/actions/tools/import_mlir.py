"""Take in hand-written MLIR: parse, verify, hold its ``@main`` against what the workload declares, write it normalised.

Parameters: ``inputs`` and ``outputs`` (lists of ``name``, ``shape``, ``dtype`` and, for inputs, ``dynamic``: axes that
must be open), optionally ``bindings``. Input: ``source``. Output: ``ir``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.contract import Action, ActionFailed
from mlir_matrix.actions.tools import bindings
from mlir_matrix.actions.tools.interface import complaints, refuse

preload = bindings.preload


def run(action: Action) -> None:
    """Read ``source``, write ``ir``; ActionFailed when the file is not what the workload declares."""
    package = bindings.load(str(action.params.get("bindings") or bindings.default_root()))
    with package.session() as session:
        module = session.parse(action.inputs["source"], "the file")
        taken, given = _signature(package.ir, module)
        refuse(complaints(action.params, taken, given))
        text = session.text(module)
    Path(action.outputs["ir"]).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Built:
    """A type of the bindings."""

    kind: Any

    @property
    def tensor(self) -> tuple[Sequence[int | None], str] | None:
        """Shape and element type; None for what is no ranked tensor."""
        if not str(self.kind).startswith("tensor<") or not getattr(self.kind, "has_rank", False):
            return None
        sizes = [
            None if self.kind.is_dynamic_dim(axis) else self.kind.get_dim_size(axis) for axis in range(self.kind.rank)
        ]
        return sizes, str(self.kind.element_type)

    def __str__(self) -> str:
        return str(self.kind)


def _signature(ir: Any, module: Any) -> tuple[Sequence[_Built], Sequence[_Built]]:
    """Types of @main's arguments and results."""
    for each in module.body.operations:
        operation = each.operation
        if operation.name == "func.func" and operation.attributes["sym_name"].value == "main":
            kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
            return [_Built(each) for each in kind.inputs], [_Built(each) for each in kind.results]
    raise ActionFailed("the file has no func.func @main")
