"""Take in hand-written MLIR: parse, verify, hold its ``@main`` against what the workload declares, write it normalised.

Parameters: ``inputs`` and ``outputs`` (lists of ``name``, ``shape``, ``dtype`` and, for inputs, ``dynamic``: axes that
must be open), optionally ``bindings``. Input: ``source``. Output: ``ir``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlir_matrix.actions import bindings
from mlir_matrix.actions.contract import Action, ActionFailed

preload = bindings.preload

#: MLIR's integers are signless here, as in the dialects that every pipeline lowers through.
_ELEMENTS = {
    "f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16",
    "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8", "u8": "i8", "bool": "i1",
}  # fmt: skip


def run(action: Action) -> None:
    """Read ``source``, write ``ir``; ActionFailed when the file is not what the workload declares."""
    package = bindings.load(str(action.params.get("bindings") or bindings.default_root()))
    source = Path(action.inputs["source"]).read_bytes()
    with package.session() as session:
        module = session.parse(source, "the file")
        found, given = _signature(package.ir, module)
        complaints = [
            *_compare("input", action.params["inputs"], found),
            *_compare("output", action.params["outputs"], given),
        ]
        if complaints:
            text = "".join(f"{each}\n" for each in complaints)
            raise ActionFailed(f"@main is not what the workload declares: {complaints[0]}", diagnostics=text)
        text = session.text(module)
    Path(action.outputs["ir"]).write_text(text, encoding="utf-8")


def _signature(ir: Any, module: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Types of @main's arguments and results."""
    for each in module.body.operations:
        operation = each.operation
        if operation.name == "func.func" and operation.attributes["sym_name"].value == "main":
            kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
            return list(kind.inputs), list(kind.results)
    raise ActionFailed("the file has no func.func @main")


def _compare(role: str, declared: Sequence[Mapping[str, Any]], found: Sequence[Any]) -> list[str]:
    if len(declared) != len(found):
        return [f"{len(declared)} {role}s are declared and @main has {len(found)}"]
    checks = (_tensor(f"{role} {each['name']}", each, kind, role) for each, kind in zip(declared, found, strict=True))
    return [complaint for complaint in checks if complaint]


def _tensor(who: str, declared: Mapping[str, Any], found: Any, role: str) -> str:
    """A complaint about one tensor, or nothing. Results may be open where the declaration gives a size."""
    wanted = _ELEMENTS[declared["dtype"]]
    shape, open_axes = list(declared["shape"]), set(declared.get("dynamic", ()))
    mark = "x".join([*("?" if axis in open_axes else str(size) for axis, size in enumerate(shape)), wanted])
    right = f"{who} must be tensor<{mark}>, it is {found}"
    if not str(found).startswith("tensor<") or not getattr(found, "has_rank", False):
        return right
    if str(found.element_type) != wanted or found.rank != len(shape):
        return right
    for axis, size in enumerate(shape):
        is_open = found.is_dynamic_dim(axis)
        if (axis in open_axes and not is_open) or (is_open and role == "input" and axis not in open_axes):
            return right
        if not is_open and found.get_dim_size(axis) != size:
            return right
    return ""
