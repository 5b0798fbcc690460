"""Run a Triton kernel by the driver of an NVIDIA GPU, which compiles its PTX."""

from __future__ import annotations

import ctypes
import json
import re
from typing import Any

import numpy

from mlir_matrix.actions.api import Action, ActionFailed, GpuDevice, Tensor, read_text, storage_type

#: The line in which the step triton-gpu writes how to launch the kernel.
LAUNCH = re.compile(r"^// launch: (.+)$", re.MULTILINE)
PARAMETER = re.compile(r"^\s*\.param ", re.MULTILINE)
#: What results hold before: NaN in every type of floating point, -1 in integers. Elements that are left out show.
UNWRITTEN = 0xFF


def run(action: Action) -> None:
    text = read_text(action.inputs["artifact"], "the assembly")
    line = LAUNCH.search(text)
    if line is None:
        raise ActionFailed("the assembly has no line '// launch: …', which the step triton-gpu writes")
    launch = json.loads(line[1])
    device = GpuDevice("cuda")
    device.load(text.encode(), [launch["name"]])
    arguments = [numpy.load(action.inputs[f"arg-{each['name']}"]) for each in action.params["arguments"]]
    results = {each["name"]: unwritten(each) for each in action.params["results"]}
    addresses = []
    for array in (*arguments, *results.values()):
        addresses.append(device.allocate(array.nbytes))
        ctypes.memmove(addresses[-1], array.ctypes.data, array.nbytes)
    # Triton adds parameters for scratch memory, which a kernel that needs none does not read.
    values = (ctypes.c_void_p * len(PARAMETER.findall(text)))(*addresses)
    places = [ctypes.addressof(values) + at * ctypes.sizeof(ctypes.c_void_p) for at in range(len(values))]
    vector = (ctypes.c_void_p * len(places))(*places)
    device.launch(launch["name"], launch["grid"], launch["block"], launch["shared_bytes"], vector)
    for (name, array), address in zip(results.items(), addresses[len(arguments) :], strict=True):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
        numpy.save(action.outputs[f"out-{name}"], array)


def unwritten(declared: Tensor) -> Any:
    """Return an array for a result that no kernel has written."""
    dtype = storage_type(declared["dtype"])
    size = int(numpy.prod(declared["shape"])) * dtype.itemsize
    return numpy.full(size, UNWRITTEN, numpy.uint8).view(dtype).reshape(declared["shape"])
