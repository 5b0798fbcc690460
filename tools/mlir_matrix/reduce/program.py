"""Read the interface of a candidate: what ``@main`` takes and gives, as inputs by formulas and results of a kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir_matrix.actions.mlir.interface import ELEMENTS
from mlir_matrix.actions.params import InputTensor, Tensor
from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.models.base import FLOATS
from mlir_matrix.reduction.search import Candidate
from mlir_matrix.reduction.tree import Module, Operation, attribute

#: ``tensor<4x?xf32>``, ``memref<4xf32, …>`` and ``!torch.vtensor<[4,?],f32>``.
_BUILTIN = re.compile(r"(?:tensor|memref)<((?:(?:\d+|\?)x)*)([a-z]+\d*)[,>].*")
_TORCH = re.compile(r"!torch\.vtensor<\[([\d?,]*)\],([su]?[a-z]+\d*)>")
_WORD = re.compile(r"[^\W\d]\w*")
#: The dtype of an element type; of an integer, the signed one.
_DTYPES = {element: dtype for dtype, element in reversed(ELEMENTS.items())} | {
    "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8", "si64": "i64", "si32": "i32", "si16": "i16", "si8": "i8",
    "ui64": "u64", "ui32": "u32", "ui16": "u16", "ui8": "u8",
}  # fmt: skip
#: The distance between the seeds of inputs that a test does not have.
_SEED = 7_001
#: Their formulas.
_NUMBERS, _INTEGERS = "normal(0, 1)", "integers(0, 2)"


@dataclass(frozen=True, kw_only=True)
class Interface:
    """What the kernel of a candidate takes and gives."""

    inputs: Sequence[InputTensor]
    results: Sequence[Tensor]
    #: Named dimensions, which formulas may use.
    dims: Mapping[str, int]


def main_of(module: Module) -> Operation | None:
    """Return the function ``@main`` of a module; None if it has none with one block."""
    (block,) = module.operation.regions[0]
    for each in block.operations:
        if attribute(each, "sym_name") == '"main"' and each.regions and len(each.regions[0]) == 1:
            return each
    return None


@dataclass(frozen=True, kw_only=True)
class KernelSignature:
    """What the kernel of a test takes and gives: its inputs by name, its dimensions, and the dtypes of results by type."""

    inputs: Mapping[str, InputTensor]
    dims: Mapping[str, int]
    dtypes: Mapping[str, str]


def interface_of(candidate: Candidate, test: KernelSignature) -> Interface | None:
    """Return the interface of a candidate of a test; None if it has none that a kernel can have."""
    main = main_of(candidate.module)
    if main is None:
        return None
    (block,) = main.regions[0]
    taken: list[InputTensor] = []
    for number, value in enumerate(block.arguments):
        known = test.inputs.get(value.input)
        found = _tensor(value.type, f"arg{number}", known["shape"] if known else ())
        if found is None:
            return None
        name, dtype = value.input or found["name"], found["dtype"]
        if known and ELEMENTS[known["dtype"]] == ELEMENTS[dtype]:
            dtype = known["dtype"]
        default, seed = _NUMBERS if dtype in FLOATS else _INTEGERS, _SEED + number
        if known:
            default, seed = known["formula"], known["seed"]
        formula = candidate.formulas.get(value.input, default)
        taken.append({"name": name, "shape": found["shape"], "dtype": dtype, "formula": formula, "seed": seed})
    given: list[Tensor] = []
    for number, value in enumerate(block.operations[-1].operands):
        found = _tensor(value.type, f"y{number}", ())
        if found is None:
            return None
        given.append({**found, "dtype": test.dtypes.get(value.type, found["dtype"])})
    words = {word for each in taken for word in _WORD.findall(each["formula"])}
    used = {name: size for name, size in test.dims.items() if name in words}
    # A workload has inputs.
    return Interface(inputs=taken, results=given, dims=used) if taken and given else None


def _tensor(kind: str, name: str, sizes: Sequence[int]) -> Tensor | None:
    """Return a ranked tensor as a workload declares it; None for another type. ``sizes``: those of its open axes, if known."""
    builtin, torch = _BUILTIN.fullmatch(kind), _TORCH.fullmatch(kind)
    found = builtin or torch
    if found is None or found[2] not in _DTYPES:
        return None
    words = [word for word in re.split("[x,]", found[1]) if word]
    dynamic = [axis for axis, word in enumerate(words) if word == "?"]
    shape: list[Any] = [None if word == "?" else int(word) for word in words]
    for axis in dynamic if len(sizes) == len(words) else ():
        shape[axis] = sizes[axis]
    return {"name": name, "shape": shape, "dtype": _DTYPES[found[2]], "dynamic": dynamic}


def named_inputs(module: Module, names: Sequence[str]) -> None:
    """Name the arguments of ``@main`` by the inputs of a test. Raise UsageError if their numbers differ."""
    main = main_of(module)
    if main is None:
        raise UsageError("the program has no function @main of one block")
    arguments = main.regions[0][0].arguments
    if len(arguments) != len(names):
        raise UsageError(f"@main takes {len(arguments)} arguments, and the test has {len(names)} inputs")
    for value, name in zip(arguments, names, strict=True):
        value.input = name
