"""Plant one mutation in IR of loops, or count the sites of each.

params   ``mutation`` and ``site``, from 0; without them sites are counted
inputs   ``ir``
outputs  ``ir``: text; or ``sites``: JSON, by mutation the number of its sites, if it has any
"""

from __future__ import annotations

import json
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.mlir import bindings
from mlir_matrix.actions.mlir.bindings import ReportingContext
from mlir_matrix.actions.mutation.ir_mutations import LIBERTIES, MISTAKES, Editor
from mlir_matrix.actions.mutation.loops import IrOperation
from mlir_matrix.actions.params import MutateParams

preload = bindings.preload

_FINDERS = {**MISTAKES, **LIBERTIES}


def run(action: Action[MutateParams]) -> None:
    """Plant a mutation or count sites. Raise ActionFailed for invalid IR and for an unknown site."""
    package = bindings.load(action.params.get("bindings", ""))
    with package.session() as session:
        module = session.parse(action.inputs["ir"])
        if "mutation" in action.params:
            plant(session, module, action.params["mutation"], action.params["site"])
            Path(action.outputs["ir"]).write_text(session.text(module), encoding="utf-8")
        else:
            counts = json.dumps(sites(session, module), sort_keys=True) + "\n"
            Path(action.outputs["sites"]).write_text(counts, encoding="utf-8")


def sites(session: ReportingContext, module: IrOperation) -> dict[str, int]:
    edit = Editor(ir=session.bindings.ir)
    counts = {name: len(find(edit, module.operation)) for name, find in _FINDERS.items()}
    return {name: count for name, count in counts.items() if count}


def plant(session: ReportingContext, module: IrOperation, mutation: str, site: int) -> None:
    """Change the module in one place."""
    if mutation not in _FINDERS:
        raise ActionFailed(f"unknown mutation {mutation!r}; expected one of {', '.join(_FINDERS)}")
    found = _FINDERS[mutation](Editor(ir=session.bindings.ir), module.operation)
    if not 0 <= site < len(found):
        raise ActionFailed(f"{mutation} has {len(found)} sites here; site {site} does not exist")
    found[site]()
