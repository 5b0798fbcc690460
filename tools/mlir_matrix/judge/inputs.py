"""Make the inputs of a workload, as files for other programs."""

from __future__ import annotations

import ast
import io
import json
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlir_matrix.actions.params import InputTensor, Tensor
from mlir_matrix.actions.tools.program import ARGUMENTS, INTERFACE
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.options import Limits
from mlir_matrix.judge.run import run_graph
from mlir_matrix.names import is_name, printable, why_not_a_name
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
    program = ""
    if is_prepared(current.catalog, workload):
        action = add_prepared(graph, current.catalog, current.pins, workload, draw)
        outputs = _outputs(current, graph, action, limits)
        program = current.catalog.sources[str(document.source)].document.gives
        files[program] = outputs["program"]
        try:
            entries = _unpacked(outputs, files)
        except (KeyError, IndexError, TypeError, ValueError, SyntaxError, zipfile.BadZipFile) as error:
            why = printable(f"{type(error).__name__}: {error}", 200)
            raise UsageError(f"{workload.name}: prepare.py wrote wrong interface or arguments: {why}") from None
    elif document.source is not None:
        raise UsageError(f"{workload.name}: programs in the form {document.source} have no inputs")
    else:
        made = add_inputs(graph, workload, current.pins.reference("numpy"), draw=draw)
        action = next((each.action for each in made.values()), "")
        outputs = _outputs(current, graph, action, limits) if made else {}
        entries = [_add(files, each, outputs[each["name"]]) for each in inputs_params(document, draw)["inputs"]]
    found: Inputs = {
        "schema": "mlir-matrix/inputs/v1",
        "summary": {"inputs": len(entries), "bytes": sum(len(files[each["file"]]) for each in entries)},
        "workload": workload.name,
        "draw": draw,
        "inputs": entries,
    }
    return files, {**found, "program": program} if program else found


def _unpacked(outputs: Mapping[str, bytes], files: dict[str, bytes]) -> list[WrittenInput]:
    """Add the inputs of a prepared program to files."""
    with zipfile.ZipFile(io.BytesIO(outputs[ARGUMENTS])) as bundle:
        declared = json.loads(outputs[INTERFACE])["inputs"]
        return [_add(files, each, bundle.read(each["name"])) for each in declared]


def _add(files: dict[str, bytes], declared: Tensor | InputTensor, data: bytes) -> WrittenInput:
    name = declared["name"]
    # The program's own code may give any name.
    if not is_name(name):
        raise ValueError(why_not_a_name(name))
    files[f"{name}.npy"] = data
    return {
        "name": name,
        "file": f"{name}.npy",
        "shape": declared["shape"],
        "dtype": declared["dtype"],
        "stored": _stored(data),
    }


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
