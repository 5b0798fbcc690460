"""Run a function of a target's ``run.py`` in a second interpreter, by the loader and the C library of the environment's prefix.

A library of a Debian package needs the C library that it was built for, and a process has only one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlir_matrix.actions.contract import (
    Action,
    ActionCrashed,
    ActionFailed,
    MachineFailed,
    prefixes,
    sites,
    write_json,
)
from mlir_matrix.actions.runtime import child, programs

#: In the folder of the action: what the second interpreter is to run, and its outcome.
_REQUEST, _OUTCOME = "second.json", "second-outcome.json"
#: How it starts, as bootstrap.py does: an installed program has other packages beside it.
_START = """\
import sys
package = sys.modules["mlir_matrix"] = type(sys)("mlir_matrix")
package.__path__ = [sys.argv[1]]
from mlir_matrix.actions.runtime import bytecode
bytecode.keep_as_told()
from mlir_matrix.actions.runtime.other_loader import perform_request
perform_request()
"""


def run_with_libraries(
    action: Action[Any], function: Callable[[Action[Any]], None], *, variables: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Call a function of a ``run.py`` with the action in a process that has the libraries of the environment's first prefix.

    Raise what it raised; ActionCrashed if a signal ended it.
    """
    request = {
        "stage": "run", "tool": "python_file", "params": {**action.params, "function": function.__name__},
        "inputs": {**action.inputs, "tool": function.__code__.co_filename}, "outputs": action.outputs,
        "sites": sites, "prefixes": prefixes,
    }  # fmt: skip
    write_json(_REQUEST, request)
    options = [word for name, value in sys._xoptions.items() for word in ("-X", f"{name}={value}")]
    package = Path(__file__).absolute().parents[2]
    words = ["-B", "-P", "-s", "-S", *options, "-c", _START, str(package)]
    printed = programs.execute(programs.PYTHON, words, libraries=True, variables=variables, recorded=False)
    print(printed, end="")
    if not os.path.exists(_OUTCOME):
        raise ActionFailed("the program ended its process", diagnostics=printed)
    with open(_OUTCOME, encoding="utf-8") as file:
        outcome = json.load(file)
    match outcome["outcome"]:
        case "ok":
            return
        case "infra-error":
            raise MachineFailed(outcome["reason"])
        case "crashed":
            raise ActionCrashed(outcome["signal"], diagnostics=outcome["diagnostics"])
    raise ActionFailed(outcome["reason"], diagnostics=outcome["diagnostics"])


def perform_request() -> None:
    """Run the request in the current folder, and write its outcome. End this process."""
    with open(_REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    sites.extend(request.pop("sites"))
    prefixes.update(request.pop("prefixes"))
    sys.path.extend(sites)
    write_json(_OUTCOME, child.perform(request))
    sys.stdout.flush()
    # Libraries under test may not survive the end of an interpreter.
    os._exit(0)
