"""Make the inputs of a workload, as files for other programs."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlir_matrix.actions.params import InputTensor, Tensor
from mlir_matrix.actions.runtime.prepared import ARGUMENTS, INTERFACE
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import is_name, printable, why_not_a_name
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.run_graph import outputs_of
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.parameters import add_inputs, inputs_params
from mlir_matrix.plan.programs import add_prepared, is_prepared
from mlir_matrix.plan.request import Limits

if TYPE_CHECKING:
    from mlir_matrix.golden.documents import Inputs, WrittenInput

#: The dtype in the header of a .npy file.
_STORED = re.compile(rb"'descr': '([^']+)'")


def make_inputs(
    current: Session, workload: Entry[Workload], draw: int, limits: Limits
) -> tuple[dict[str, bytes], Inputs]:
    """Return the files with the inputs of a draw, and their description. Raise UsageError for a program that has none."""
    graph, form = Graph(), workload.document.source
    files: dict[str, bytes] = {}
    if form is None:
        made = add_inputs(graph, workload, current.pins.reference("numpy"), draw=draw)
        action = next((each.action for each in made.values()), "")
        data = outputs_of(current, graph, action, workload.name, limits) if made else {}
        found = [_written(each, data[each["name"]]) for each in inputs_params(workload.document, draw)["inputs"]]
    elif is_prepared(current.catalog, workload):
        action = add_prepared(graph, current.catalog, current.pins, workload, draw)
        outputs = outputs_of(current, graph, action, workload.name, limits)
        found = _opened(workload.name, outputs)
        files[current.catalog.sources[form].document.gives] = outputs["program"]
    else:
        raise UsageError(f"{workload.name}: programs in the form {form} have no inputs")
    document: Inputs = {
        "schema": "mlir-matrix/inputs/v1",
        "summary": {"inputs": len(found), "bytes": sum(len(data) for _, data in found)},
        "workload": workload.name,
        "draw": draw,
        "inputs": [each for each, _ in found],
    }
    if files:
        (document["program"],) = files
    return files | {each["file"]: data for each, data in found}, document


def _opened(workload: str, outputs: Mapping[str, bytes]) -> list[tuple[WrittenInput, bytes]]:
    """Return the inputs that ``prepare.py`` wrote. Raise UsageError for what is no such output."""
    try:
        with zipfile.ZipFile(io.BytesIO(outputs[ARGUMENTS])) as bundle:
            return [_written(each, bundle.read(each["name"])) for each in json.loads(outputs[INTERFACE])["inputs"]]
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        why = printable(f"{type(error).__name__}: {error}", 200)
        raise UsageError(f"{workload}: prepare.py wrote wrong interface or arguments: {why}") from None


def _written(declared: Tensor | InputTensor, data: bytes) -> tuple[WrittenInput, bytes]:
    """Describe an input. Raise ValueError for a name that the program's own code gives, and that is none."""
    name, stored = declared["name"], _STORED.search(data[:200])
    if not (is_name(name) and stored):
        raise ValueError(why_not_a_name(name) if stored else f"{name} is no .npy file")
    return {
        "name": name, "file": f"{name}.npy", "shape": declared["shape"], "dtype": declared["dtype"],
        "stored": stored[1].decode(),
    }, data  # fmt: skip
