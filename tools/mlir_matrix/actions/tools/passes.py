"""Run a pass pipeline on IR, after patterns and with a transform schedule where the step has them.

Parameters: ``passes`` (the pipeline, without ``builtin.module(…)`` around it), ``bindings`` (the package to use) and
``parameters`` (values for ``${name}`` in the step's files). Inputs: ``ir``, text or bytecode; optionally ``patterns``, a
module of ``pdl.pattern`` that is applied before the first pass, and ``schedule``, a module of
``transform.named_sequence`` that the pass ``transform-interpreter`` runs. Output: ``ir``, text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.contract import Action, ActionFailed, read_text
from mlir_matrix.actions.runtime.template import fill
from mlir_matrix.actions.tools import bindings
from mlir_matrix.actions.tools.bindings import Session

preload = bindings.preload

_SEQUENCE = "transform.named_sequence"
_PATTERN = "pdl.pattern"
#: The unit attribute that lets named sequences stand in a module.
_MARK = "transform.with_named_sequence"


def run(action: Action) -> None:
    """Read ``ir``, run the passes, write ``ir``; ActionFailed carries the compiler's diagnostics."""
    package = bindings.load(str(action.params.get("bindings") or bindings.default_root()))
    schedule, patterns = (_companion(action, name) for name in ("schedule", "patterns"))
    with package.session() as session:
        text = transform(session, action.inputs["ir"], str(action.params["passes"]), schedule, patterns)
    Path(action.outputs["ir"]).write_text(text, encoding="utf-8")


def _companion(action: Action, name: str) -> str | None:
    """A file that comes with the step, its parameters filled in; what is said of it has its lines."""
    if name not in action.inputs:
        return None
    text = read_text(action.inputs[name], f"the file of the {name}")
    filled = Path(f"{name}.mlir")
    filled.write_text(fill(text, action.params.get("parameters", {})), encoding="utf-8")
    return str(filled)


def transform(
    session: Session, source: str, passes: str, schedule: str | None = None, patterns: str | None = None
) -> str:
    """The IR after patterns and passes. The schedule is part of the module only while they run."""
    module = session.parse(source)
    if patterns is not None:
        library = session.parse(patterns, "the file of patterns")
        _only(library, _PATTERN, "the file of patterns")
        session.rewrite(module, library)
    if schedule is not None:
        _attach(session, module, schedule)
    session.run(module, " ".join(passes.split()))
    if schedule is not None:
        _detach(module)
    return session.text(module)


def _only(library: Any, wanted: str, what: str) -> None:
    for each in library.body.operations:
        if each.operation.name != wanted:
            raise ActionFailed(f"{what} holds {each.operation.name}; only {wanted} belongs there")


def _attach(session: Session, module: Any, schedule: str) -> None:
    """Move the schedule's sequences to where ``transform-interpreter`` looks for them."""
    if _MARK in module.operation.attributes:
        raise ActionFailed("the IR already holds a transform schedule")
    library = session.parse(schedule, "the schedule")
    _only(library, _SEQUENCE, "the schedule")
    for each in list(library.body.operations):
        module.body.append(each)
    module.operation.attributes[_MARK] = session.bindings.ir.UnitAttr.get()


def _detach(module: Any) -> None:
    for each in list(module.body.operations):
        if each.operation.name == _SEQUENCE:
            each.operation.erase()
    del module.operation.attributes[_MARK]
