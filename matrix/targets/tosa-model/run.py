"""Run a flatbuffer by TOSA's reference model."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy
import tosa_reference_model

from mlir_matrix.actions.api import Action, ActionFailed, run_program

#: Its precise mode gives float64 for these.
FLOATS = {"f32": numpy.float32, "f16": numpy.float16, "bf16": ml_dtypes.bfloat16}

SCHEMA = Path(tosa_reference_model.__file__).parents[1] / "bin/tosa.fbs"


def run(action: Action) -> None:
    """Call the model, whose inputs and outputs have numbers for names, and write its outputs in the declared dtypes."""
    arguments, results = action.params["arguments"], action.params["results"]
    files = [f"out{index}.npy" for index in range(len(results))]
    description = {
        "tosa_file": action.inputs["artifact"],
        "ifm_name": [f"TosaInput_{index}" for index in range(len(arguments))],
        "ifm_file": [_argument(action.inputs[f"arg-{each['name']}"], each["dtype"]) for each in arguments],
        "ofm_name": [f"TosaOutput_{index}" for index in range(len(results))],
        "ofm_file": files,
        "expected_failure": False,
    }
    # Its options cannot say that there are no inputs.
    Path("desc.json").write_text(json.dumps(description), encoding="utf-8")
    said = run_program(
        "tosa_reference_model",
        [
            "--test_desc=desc.json",
            f"--operator_fbs={SCHEMA}",
            f"--precise_mode={int(action.params['parameters']['precise'])}",
            "--flatbuffer_dir=.",
            "--output_dir=.",
        ],
    )
    for file, each in zip(files, results, strict=True):
        if not Path(file).is_file():
            raise ActionFailed(f"the model left no output {each['name']}", diagnostics=said)
        array = numpy.load(file)
        if action.params["parameters"]["precise"] and each["dtype"] in FLOATS:
            array = array.astype(FLOATS[each["dtype"]])
        # NumPy reads bf16 as two bytes without a meaning.
        array = array.view(numpy.uint16) if each["dtype"] == "bf16" else array
        numpy.save(action.outputs[f"out-{each['name']}"], array)


def _argument(path: str, dtype: str) -> str:
    """Return the path of an argument as the model takes it: bf16 by name, not by its bits."""
    if dtype != "bf16":
        return path
    file = f"{Path(path).stem}.npy"
    numpy.save(file, numpy.load(path).view(ml_dtypes.bfloat16))
    return file
