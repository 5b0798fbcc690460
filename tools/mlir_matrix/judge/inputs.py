"""Make the inputs of a workload, as files for other programs."""

from __future__ import annotations

import ast
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.tools.program import ARGUMENTS, INTERFACE
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.options import Limits
from mlir_matrix.judge.run import run_graph
from mlir_matrix.names import NAME_LENGTH, is_name, printable
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.parameters import add_inputs, inputs_params
from mlir_matrix.plan.programs import add_prepared, is_prepared
from mlir_matrix.session import Session

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.expect import Inputs, WrittenInput


def make_inputs(
    current: Session, workload: Entry[Workload], draw: int, limits: Limits
) -> tuple[dict[str, bytes], Inputs]:
    """Return the files with the inputs of a draw, and their description. Raise UsageError for a program that has none."""
    graph, document = Graph(), workload.document
    files: dict[str, bytes] = {}
    declared: list[Any]
    if is_prepared(current.catalog, workload):
        action = add_prepared(graph, current.catalog, current.pins, workload, draw)
        outputs = _outputs(current, graph, action, limits)
        declared = json.loads(outputs[INTERFACE])["inputs"]
        with zipfile.ZipFile(io.BytesIO(outputs[ARGUMENTS])) as bundle:
            arrays = {each["name"]: bundle.read(each["name"]) for each in declared}
        program = current.catalog.sources[str(document.source)].document.gives
        files[program] = outputs["program"]
    elif document.source is not None:
        raise UsageError(f"{workload.name}: programs in the form {document.source} have no inputs")
    else:
        program = ""
        made = add_inputs(graph, workload, current.pins.reference("numpy"), draw=draw)
        declared = list(inputs_params(document, draw)["inputs"])
        action = next((each.action for each in made.values()), "")
        outputs = _outputs(current, graph, action, limits) if made else {}
        arrays = {name: outputs[name] for name in made}
    entries: list[WrittenInput] = []
    for each in declared:
        name = str(each["name"])
        # The program's own code may give any name.
        if not is_name(name):
            raise UsageError(
                f"{workload.name}: input '{printable(name)}' is no name of a file of {NAME_LENGTH} characters"
            )
        files[f"{name}.npy"] = arrays[name]
        entries.append(
            {
                "name": name,
                "file": f"{name}.npy",
                "shape": each["shape"],
                "dtype": each["dtype"],
                "stored": _stored(arrays[name]),
            }
        )
    found: Inputs = {
        "schema": "mlir-matrix/inputs/v1",
        "summary": {"inputs": len(entries), "bytes": sum(map(len, arrays.values()))},
        "workload": workload.name,
        "draw": draw,
        "inputs": entries,
    }
    return files, {**found, "program": program} if program else found


def _outputs(current: Session, graph: Graph, action: str, limits: Limits) -> dict[str, bytes]:
    """Run the actions of a graph; return the outputs of one by name."""
    done: Done = run_graph(current, graph, limits=limits)[action]
    if not done.result.ok:
        outcome = done.result.outcome
        raise UsageError(f"{action}: {outcome['outcome']}: {outcome['reason']}")
    cache = ActionCache(current.home.actions)
    return {name: cache.read_blob(digest) for name, digest in done.result.outputs.items()}


def _stored(data: bytes) -> str:
    """Return the dtype in the header of a .npy file."""
    start = 10 if data[6] == 1 else 12
    size = int.from_bytes(data[8:start], "little")
    return str(ast.literal_eval(data[start : start + size].decode("latin-1").strip())["descr"])
