"""Write a program with a ``torch.nn.Module``, its inputs, and what is expected: what the module gives in double, with bounds.

A source whose programs are modules calls ``write_program`` of this file, which it names in ``files`` beside ``error_bounds.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
import torch
from torch.utils import _pytree as pytree

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, under_test

DTYPES = {getattr(torch, name): dtype for dtype, name in api.FRAMEWORK_NAMES.items()}
#: How many times its bound PyTorch itself may be off.
FAR = 100
#: A seed that no draw has; a module that draws numbers gives something else with it.
OTHER_SEED = 4_294_967_291


class Program(Protocol):
    """A module and the tensors that it computes with."""

    @property
    def state(self) -> Mapping[str, torch.Tensor]:
        """The parameters and buffers of the module."""

    @property
    def tensors(self) -> Sequence[torch.Tensor]:
        """The tensors that the module is called with."""

    @property
    def inputs(self) -> Sequence[tuple[str, torch.Tensor]]:
        """The inputs of the program with their names."""

    def double(self) -> None:
        """Convert the state and the tensors to double, in place."""

    def call(self) -> Any:
        """Return what the module gives."""


@dataclass(frozen=True)
class Output:
    """A result: in the module's own dtypes, in double, and how far from it a correct program may be."""

    declared: dict[str, Any]
    expected: numpy.ndarray[Any, Any]
    bound: numpy.ndarray[Any, Any] | None
    rationale: str


def write_program(action: Action, text: str, build: Callable[[], Program], bounds: str) -> None:
    """Write the outputs of a source's ``prepare.py``.

    ``text`` is the program; ``build`` makes the same module and inputs each time; ``bounds`` is the path of ``error_bounds.py``.
    """
    outputs = _outputs(build, bounds)
    inputs = [
        (_declared(f"{at}-{_safe(name)}", name, tensor), _save(f"argument-{at}.npy", _stored(tensor)))
        for at, (name, tensor) in enumerate(build().inputs)
    ]
    wanted = [
        api.Expected(
            declared=each.declared,
            file=_save(f"expected-{at}.npy", each.expected),
            bound="" if each.bound is None else _save(f"bound-{at}.npy", each.bound),
            rationale=each.rationale,
        )
        for at, each in enumerate(outputs)
    ]
    api.write_prepared(action, text, inputs, wanted)


def _outputs(build: Callable[[], Program], bounds: str) -> list[Output]:
    """Run a module as it is, twice, and in double. Each is built anew: modules with tensors of their own cannot be copied."""
    bounds_of = api.load(bounds, "run_with_bounds")
    built, again, double = build(), build(), _doubled(build())
    tensors = zip((*double.state.values(), *double.tensors), (*built.state.values(), *built.tensors), strict=True)
    own = [(ours, theirs.dtype) for ours, theirs in tensors]
    with torch.no_grad(), under_test(any_frame=True):
        returned = built.call()
        # Not torch.manual_seed, which formats the stack for each kind of device: 15 ms.
        for seed in (random.seed, numpy.random.seed, torch.default_generator.manual_seed):
            seed(OTHER_SEED)
        plain, other = (pytree.tree_flatten_with_path(each)[0] for each in (returned, again.call()))
    declared: dict[int, dict[str, Any]] = {}
    for place, (path, value) in enumerate(plain):
        if isinstance(value, torch.Tensor):
            declared[place] = _declared(_key(path, len(declared)), f"output {len(declared)}", value)
    if not declared:
        raise ActionFailed(f"the module returns no tensor, but an object of type {type(returned).__name__}")
    found = bounds_of(double, [value for _, value in plain], own, lambda: _doubled(build()))
    if len(plain) != len(other) or any(not _same(plain[at][1], other[at][1]) for at in declared):
        raise ActionFailed("the module gives something else each time: it draws random numbers, or reads a clock")
    outputs = [Output(declared[at], *found[at]) for at in declared]
    for at, output in enumerate(outputs):
        if not output.expected.size:
            raise ActionFailed(f"output {at} has no elements, so nothing can be compared")
        if output.bound is not None:
            _check_reference(at, plain[list(declared)[at]][1], output.expected, output.bound)
    return outputs


def _doubled(built: Program) -> Program:
    with under_test(any_frame=True):
        built.double()
    return built


def _check_reference(
    at: int, plain: torch.Tensor, expected: numpy.ndarray[Any, Any], bound: numpy.ndarray[Any, Any]
) -> None:
    """Raise ActionFailed if PyTorch's own result is far from that in double, which is then of another program."""
    own = plain.detach().to(torch.complex128 if plain.is_complex() else torch.float64).resolve_conj().numpy()
    with numpy.errstate(all="ignore"):
        near = (
            (numpy.abs(own - expected) <= FAR * numpy.abs(bound))
            | (own == expected)
            | (numpy.isnan(own) & numpy.isnan(expected))
            | (~numpy.isfinite(own) & numpy.signbit(bound))
        )
    if not near.all():
        raise ActionFailed(
            f"{near.size - near.sum()} of {near.size} elements of output {at} are more than {FAR} times their bound from those of"
            " the module in float64, in PyTorch itself; so they are no reference"
        )


def _same(value: torch.Tensor, other: torch.Tensor) -> bool:
    # As bytes, because a NaN is equal to itself here.
    pair = [each.resolve_conj().contiguous().view(-1).view(torch.uint8) for each in (value, other)]
    return value.shape == other.shape and bool(torch.equal(*pair))


def _key(path: Sequence[Any], place: int) -> str:
    words = [str(getattr(part, "key", getattr(part, "idx", getattr(part, "name", "")))) for part in path]
    name = "-".join(_safe(word) for word in words if word)
    return f"{place}-{name}" if name else str(place)


def _safe(word: str) -> str:
    """Return a word without what a name of an input or output cannot have."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in word)


def _declared(name: str, what: str, tensor: torch.Tensor) -> dict[str, Any]:
    """Declare an input or output; ``what`` it is called in errors. Raise ActionFailed for what kernels do not take."""
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        raise ActionFailed(f"{what} is sparse, nested or quantized; kernels take and give dense tensors")
    if tensor.device.type != "cpu":
        raise ActionFailed(f"{what} is on the device {tensor.device}; expected cpu")
    if tensor.dtype not in DTYPES:
        raise ActionFailed(f"{what} has the dtype {tensor.dtype}; known: {', '.join(map(str, DTYPES))}")
    return {"name": name, "shape": list(tensor.shape), "dtype": DTYPES[tensor.dtype], "dynamic": []}


def _stored(tensor: torch.Tensor) -> numpy.ndarray[Any, Any]:
    plain = tensor.detach().resolve_conj().contiguous()
    bits: numpy.ndarray[Any, Any] = (plain.view(torch.uint16) if plain.dtype == torch.bfloat16 else plain).numpy()
    return bits


def _save(path: str, array: numpy.ndarray[Any, Any]) -> str:
    # Not ascontiguousarray, which gives a scalar a dimension.
    numpy.save(path, numpy.asarray(array, order="C"))
    return path
