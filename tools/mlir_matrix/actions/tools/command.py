"""Run the command of a catalog's tool: a program of the environment, and its arguments.

params   ``command``: words in which ``${NAME}`` stands for the path of an input or output, for a parameter, or for ``kind``; a
         word with ``${inputs}`` or ``${outputs}`` is repeated for each argument or result; ``programs``: folders of wheels
inputs   the tool's
outputs  the tool's

A program that fails, or that exits with 0 without writing an output, is a failure of its stage.
So is IR in ``out`` that breaks the contract of its kind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from mlir_matrix.actions.contract import Action, ActionFailed, Role, fill
from mlir_matrix.actions.mlir import emitted
from mlir_matrix.actions.params import RunToolParams
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.runtime.prepared import opened


def run(action: Action[RunToolParams]) -> None:
    """Run the command. Raise ActionFailed or ActionCrashed if the program fails or does not write an output."""
    with opened(action) as call:
        _call(call)
    emitted.hold_output(action)


def _call(action: Action[RunToolParams]) -> None:
    params = action.params
    programs.folders.extend(params.get("programs", ()))
    lists = {
        "inputs": [action.inputs[Role.ARGUMENT.of(each["name"])] for each in params.get("arguments", ())],
        "outputs": [action.outputs[Role.RESULT.of(each["name"])] for each in params.get("results", ())],
    }
    values = {**params.get("parameters", {}), "kind": params.get("kind", ""), **action.inputs, **action.outputs}
    program, *arguments = params["command"]
    said = programs.execute(program, [*_words(arguments, values, lists)])
    missing = [name for name, path in action.outputs.items() if not os.path.isfile(path)]
    if missing:
        raise ActionFailed(f"{program} exits with 0 and does not write {', '.join(missing)}", diagnostics=said)


def _words(words: Sequence[str], values: Mapping[str, object], lists: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for word in words:
        repeated = next((name for name in lists if f"${{{name}}}" in word), None)
        if repeated is None:
            yield fill(word, values)
        else:
            yield from (fill(word, {**values, repeated: path}) for path in lists[repeated])
