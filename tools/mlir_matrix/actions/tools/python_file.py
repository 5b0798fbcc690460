"""Run the Python file of a catalog's tool: ``importer.py``, ``tool.py`` or ``run.py`` with a function ``run(action)``.

params   those of the tool (docs/writing-a-tool.md); ``tool``: the path of the file in its catalog
inputs   ``tool``: the file; all others are the tool's
outputs  the tool's

IR that it writes as ``out`` is held against the contract of its kind. An exception of the file outside ``under_test()`` is an
infra-error: the tool is wrong, not the program under test.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from mlir_matrix.actions import api
from mlir_matrix.actions.contract import Action, ToolError, own_files
from mlir_matrix.actions.mlir import emitted
from mlir_matrix.actions.params import ToolParams
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.runtime.prepared import opened

#: The name of the file as a module, by which dataclasses and pickling look it up.
_MODULE = "catalog_tool"


def run(action: Action[ToolParams]) -> None:
    """Execute the file and call its ``run``, whose exceptions pass through. Raise ToolError if there is none."""
    path = action.inputs["tool"]
    own_files.add(path)
    programs.folders.extend(action.params.get("programs", ()))
    module = ModuleType(_MODULE)
    module.__file__ = path
    sys.modules[_MODULE] = module
    try:
        # Compiled under its relative name, which tracebacks show. Not imported, because its folder is no folder of modules.
        code = compile(Path(path).read_bytes(), path, "exec")
    except (SyntaxError, ValueError) as error:
        raise ToolError(f"does not parse: {getattr(error, 'msg', error)}") from error
    exec(code, module.__dict__)
    name = action.params.get("function", "run")
    function = getattr(module, name, None)
    if not callable(function):
        raise ToolError(f"defines no function {name}(action)")
    inputs = {name: each for name, each in action.inputs.items() if name != "tool"}
    with opened(api.Action(params=action.params, inputs=inputs, outputs=action.outputs)) as call:
        function(call)
    emitted.hold_output(action)
