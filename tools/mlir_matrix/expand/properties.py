"""Resolve the metamorphic property of a test: the road of the test that it is compared with, or why it is unsupported.

A property that makes no sense for a workload in any cell is an error in the suite (:func:`senseless`). One that only a
cell does not support is ``unsupported``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mlir_matrix.catalog.models.base import Output, Tensor, Workload
from mlir_matrix.catalog.models.suites import Agreement, Batch, Law, Permutation, SameIr, Scaling
from mlir_matrix.expand.recipes import Recipe, Unsupported
from mlir_matrix.expand.routes import Connector, Road, listed
from mlir_matrix.expand.test_sets import Key, Stated
from mlir_matrix.names import did_you_mean

_FLOATS = frozenset(("f64", "f32", "f16", "bf16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A property of a test, with the cell and the road of the test that it is compared with, where that is another one."""

    name: str
    law: Law
    #: ``file:line:column`` of the property.
    position: str
    cell: tuple[str, str, str] | None = None
    road: Road | None = None

    @classmethod
    def of(cls, stated: Stated) -> Relation:
        """The property by itself."""
        return cls(name=stated.name, law=stated.law, position=stated.position)


def relate(connector: Connector, stated: Stated, test: Key, road: Road) -> Relation | Unsupported:
    """Return a property of one test, which takes ``road``; or why it is unsupported."""
    framework, pipeline, target, workload, pins = test
    law = stated.law
    if isinstance(law, Batch):
        fixed = connector.catalog.frameworks[framework].document.fixed_shapes
        if fixed and law.dim not in connector.catalog.workloads[workload].document.dynamic:
            size = f"{road.source} of {workload} fixes the size of {law.dim}"
            return Unsupported(f"{size}: it cannot be imported for half a batch; an open dimension could")
        return Relation.of(stated)
    if not isinstance(law, (Agreement, SameIr)):
        return Relation.of(stated)
    cell = law.framework or framework, law.pipeline or pipeline, (isinstance(law, Agreement) and law.target) or target
    other = connector.road(*cell, workload, pins)
    if isinstance(other, Unsupported):
        return Unsupported(f"what it is compared with, {'/'.join(cell)}/{workload}, is unsupported: {other.reason}")
    if isinstance(law, SameIr):
        for where, each in (((framework, pipeline, target), road), (cell, other)):
            if place(each, law.at) is None:
                passed = listed(dict.fromkeys((each.kind, *(step.gives for step in each.steps))))
                return Unsupported(f"the road of {'/'.join(where)}/{workload} does not pass {law.at}, only {passed}")
        if reader(road, law.at) is None:
            return Unsupported(f"what {law.at} is on the road of {framework}/{pipeline}/{target} is no IR to compare")
    return Relation(name=stated.name, law=law, position=stated.position, cell=cell, road=other)


def in_words(relation: Relation) -> str:
    """Describe a property in one sentence for reports."""
    law = relation.law
    if isinstance(law, SameIr):
        return f"the IR at {law.at} is that of {'/'.join(relation.cell or ())}"
    if isinstance(law, Scaling):
        said = f"{_times(law.inputs)} gives {_times(law.outputs) or 'the same outputs'}"
    elif isinstance(law, Permutation):
        said = f"renumbering {law.dim} renumbers it in the outputs"
    elif isinstance(law, Batch):
        said = f"a batch along {law.dim} gives what its halves give"
    else:
        said = f"the outputs are those of {'/'.join(relation.cell or ())}"
    return said + (", exactly" if law.within == "exact" else ", within the sum of both tolerances")


def _times(factors: Mapping[str, int | float]) -> str:
    return ", ".join(f"{name} times {factor}" for name, factor in factors.items())


def place(road: Road, kind: str) -> int | None:
    """Return after how many steps a road is at a kind for the last time; None where it never is."""
    kinds = [road.kind, *(step.gives for step in road.steps)]
    return max((number for number, each in enumerate(kinds) if each == kind), default=None)


def reader(road: Road, kind: str) -> Recipe | None:
    """The step's recipe whose environment reads a road's IR at a kind: the next that transforms it, else the last; or None."""
    end = place(road, kind)
    if end is None:
        return None
    after = [step.recipe for step in road.steps[end:] if step.recipe.tool != "check"]
    before = [step.recipe for step in reversed(road.steps[:end]) if step.recipe.tool != "check"]
    if after:
        return after[0]
    return before[0] if before and before[0].tool == "passes" else None


def senseless(workload: Workload, law: Law) -> str:
    """Return why a property makes no sense for a workload, in one sentence; empty where it does."""
    if isinstance(law, Scaling):
        return _scaling(workload, law)
    if isinstance(law, (Permutation, Batch)):
        return _dimension(workload, law)
    return ""


def axes(tensor: Tensor | Output, dim: str) -> list[int]:
    """Return the positions of a named dimension in a shape."""
    return [axis for axis, size in enumerate(tensor.shape) if size == dim]


def _dimension(workload: Workload, law: Permutation | Batch) -> str:
    dim = law.dim
    if dim not in workload.dims:
        return f"it has no dimension '{dim}'{did_you_mean(dim, workload.dims)}"
    if workload.dims[dim] < 2:
        what = "renumbering" if isinstance(law, Permutation) else "halving"
        return f"the dimension '{dim}' is {workload.dims[dim]}: {what} it says nothing"
    if not any(axes(tensor, dim) for tensor in workload.inputs.values()):
        return f"the dimension '{dim}' is in no input's shape"
    if isinstance(law, Batch):
        if without := [name for name, output in workload.outputs.items() if not axes(output, dim)]:
            return f"the output '{without[0]}' has no dimension '{dim}', so that nothing is said of it"
        tensors: list[tuple[str, Tensor | Output]] = [*workload.inputs.items(), *workload.outputs.items()]
        if twice := [name for name, tensor in tensors if len(axes(tensor, dim)) > 1]:
            return f"'{twice[0]}' has the dimension '{dim}' twice, so that it has no halves"
    return ""


def _scaling(workload: Workload, law: Scaling) -> str:
    for what, factors, tensors in (
        ("input", law.inputs, workload.inputs),
        ("output", law.outputs, workload.outputs),
    ):
        if wrong := _factors(what, factors, tensors):
            return wrong
    rounded = {name: factor for name, factor in law.inputs.items() if not _power(factor)}
    inexact = [name for name in rounded if workload.inputs[name].dtype in _FLOATS]
    if inexact and law.within == "exact":
        factor = law.inputs[inexact[0]]
        return f"'{inexact[0]}' times {factor} is rounded: take a power of two, or say within: tolerance"
    return ""


def _factors(
    what: str, factors: Mapping[str, int | float], tensors: Mapping[str, Tensor] | Mapping[str, Output]
) -> str:
    for name, factor in factors.items():
        if name not in tensors:
            return f"it has no {what} '{name}'{did_you_mean(name, tensors)}"
        if tensors[name].dtype == "bool":
            return f"the {what} '{name}' is boolean and cannot be multiplied"
        if tensors[name].dtype not in _FLOATS and factor != int(factor):
            return f"the {what} '{name}' holds whole numbers; {factor} is none"
    return ""


def _power(factor: float) -> bool:
    """Return whether multiplying by a factor is exact: a power of two, of either sign."""
    return math.frexp(abs(factor))[0] == 0.5


def selfish(law: Law, cells: Iterable[tuple[str, ...]]) -> str:
    """Why a property compares tests with themselves; empty where it does not. ``cells`` are their names on the three axes."""
    if isinstance(law, (Agreement, SameIr)):
        asked = law.framework, law.pipeline, law.target if isinstance(law, Agreement) else None
        if all(name is None or name in names for name, names in zip(asked, cells, strict=True)):
            itself = " and ".join(name for name in asked if name)
            return f"tests through {itself} would be compared with themselves; leave them out of 'tests'"
    return ""
