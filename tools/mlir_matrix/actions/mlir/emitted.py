"""Hold IR that the tool of a catalog has written against the contract of its kind, by what the environment has."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.mlir import bindings, by_bindings, by_programs, generic_form, kinds
from mlir_matrix.actions.params import BackendParams, Contract
from mlir_matrix.actions.runtime import programs

#: How a module in generic form begins, after aliases.
_MODULE = '"builtin.module"('
_OPT = "mlir-opt"


def hold_output(action: Action[BackendParams]) -> None:
    """Raise ActionFailed if the output ``out`` of an action breaks the action's contract.

    Environments without MLIR can check the operations of IR in generic form, and nothing else. What they cannot parse is not
    checked, because the next step reads it.
    """
    params = action.params
    contract = params.get("contract")
    path = action.outputs.get("out", "")
    if contract is None or not os.path.isfile(path):
        return
    # An importer reads a source, a step IR.
    verb = "emits" if "source" in action.inputs else "left"
    if params.get("backend") == "programs" and programs.has(_OPT):
        by_programs.hold_file(contract, path, verb)
    elif bindings.installed():
        _by_bindings(contract, params.get("bindings", ""), path, verb)
    else:
        _by_text(contract, path, verb)


def _by_bindings(contract: Contract, root: str, path: str, verb: str) -> None:
    loaded = bindings.load(root)
    if not hasattr(loaded.ir.Module, "parseFile"):
        # Bindings as of LLVM 17, which an old JAX has.
        return
    with loaded.session() as session:
        try:
            module = session.parse(path)
        except ActionFailed:
            return
        kinds.hold(contract, session.text(module), by_bindings.InspectedModule(session, module), verb)


def _by_text(contract: Contract, path: str, verb: str) -> None:
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    if _MODULE in text:
        operations: Contract = {"kind": contract["kind"]}
        for key in ("allow", "forbid"):
            if key in contract:
                operations[key] = contract[key]
        kinds.hold(operations, text, _Text(text), verb)


@dataclass(frozen=True)
class _Text:
    """See ``kinds.Inspected``: IR in generic form, of which only operations are known."""

    text: str

    def operations(self) -> Mapping[str, int]:
        return Counter(each.name for each in generic_form.operations(self.text))

    def located(self) -> str:
        return self.text

    def after(self, _passes: str) -> str:
        return self.text

    def has_dialect(self, _name: str) -> bool:
        return True
