"""Run a function of a target's ``run.py`` in a second interpreter, by the loader and the C library of the environment's prefix.

A library of a Debian package needs the C library that it was built for, and a process has only one.
"""

import json
import os
import sys

#: In the folder of the action: what the second interpreter is to run, and what became of it.
_REQUEST, _OUTCOME = "second.json", "second-outcome.json"

if __name__ == "__main__":
    # As bootstrap.py does: an installed program has other packages beside it.
    _here = os.path.dirname(os.path.abspath(__file__))
    _package = sys.modules["mlir_matrix"] = type(sys)("mlir_matrix")
    _package.__path__ = [os.path.dirname(os.path.dirname(_here))]
    from mlir_matrix.actions.runtime import bytecode

    bytecode.keep_as_told()

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mlir_matrix.actions.contract import (
    Action,
    ActionCrashed,
    ActionFailed,
    MachineFailed,
    own_files,
    prefixes,
    sites,
    write_json,
)
from mlir_matrix.actions.runtime import programs


def run_with_libraries(
    action: Action[Any], function: str, *, variables: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Call ``function(action)`` of the same Python file in a process of its own, which has the libraries of the environment's prefix.

    Raise what it raised, ActionCrashed if a signal ended it.
    """
    (tool,) = own_files
    request = {
        "stage": "run", "tool": "python_file", "params": {**action.params, "function": function},
        "inputs": {**action.inputs, "tool": tool}, "outputs": action.outputs, "sites": sites, "prefixes": prefixes,
    }  # fmt: skip
    write_json(_REQUEST, request)
    options = [word for name, value in sys._xoptions.items() for word in ("-X", f"{name}={value}")]
    words = ["-B", "-P", "-s", "-S", *options, os.path.abspath(__file__)]
    said = programs.execute(programs.PYTHON, words, libraries=True, variables=variables, recorded=False)
    with open(_OUTCOME, encoding="utf-8") as file:
        outcome = json.load(file)
    print(said, end="")
    match outcome["outcome"]:
        case "ok":
            return
        case "infra-error":
            raise MachineFailed(outcome["reason"])
        case "crashed":
            raise ActionCrashed(outcome["signal"], diagnostics=outcome["diagnostics"])
    raise ActionFailed(outcome["reason"], diagnostics=outcome["diagnostics"])


def _main() -> None:
    """Run the request in the current folder, and write its outcome."""
    from mlir_matrix.actions.runtime.child import perform

    with open(_REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    sites.extend(request.pop("sites"))
    prefixes.update(request.pop("prefixes"))
    sys.path.extend(sites)
    write_json(_OUTCOME, perform(request))
    sys.stdout.flush()
    # Libraries under test may not survive the end of an interpreter.
    os._exit(0)


if __name__ == "__main__":
    _main()
