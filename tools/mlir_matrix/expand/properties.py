"""Resolve the metamorphic property of a test: the route of the test that it is compared with, or why it is unsupported.

A property that makes no sense for a workload in any cell is an error in the suite (:func:`senseless`). If only a cell does not
support it, the test is ``unsupported``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from mlir_matrix.base.names import TestId, did_you_mean
from mlir_matrix.catalog.models.base import FLOATS, Output, TensorInput, Workload
from mlir_matrix.catalog.models.suites import Agreement, Batch, Permutation, PropertyKind, SameIr, Scaling
from mlir_matrix.expand.recipes import READS_IR, ResolvedStep, Unsupported
from mlir_matrix.expand.routes import Connector, Route, word_list
from mlir_matrix.expand.test_sets import TestProperty


def resolve_property(
    connector: Connector, stated: TestProperty, test: TestId, route: Route
) -> TestProperty | Unsupported:
    """Return a property of one test, whose route is ``route``; or why it is unsupported."""
    framework, pipeline, target, workload, pins = test
    property_kind = stated.property_kind
    if route.judges:
        return Unsupported(f"target {target} judges programs itself: there are no outputs to compare")
    if route.compile_only and not isinstance(property_kind, SameIr):
        return Unsupported(f"target {target} only compiles: there are no outputs to compare")
    if isinstance(property_kind, Batch):
        fixed = connector.catalog.frameworks[framework].document.fixed_shapes
        if fixed and property_kind.dim not in connector.catalog.workloads[workload].document.dynamic:
            size = f"{route.source} of {workload} fixes the size of {property_kind.dim}"
            return Unsupported(f"{size}: it cannot be imported for half a batch; an open dimension could")
    if not isinstance(property_kind, (Agreement, SameIr)):
        return stated
    asked = property_kind.cell
    cell = (asked["framework"] or framework, asked["pipeline"] or pipeline, asked.get("target") or target)
    other = connector.route(*cell, workload, pins)
    if isinstance(other, Unsupported):
        return Unsupported(f"the other test, {'/'.join(cell)}/{workload}, is unsupported: {other.reason}")
    if (other.compile_only or other.judges) and isinstance(property_kind, Agreement):
        return Unsupported(f"the other test, {'/'.join(cell)}/{workload}, has no outputs")
    if isinstance(property_kind, SameIr) and (why := _not_same(property_kind.at, test, route, cell, other)):
        return Unsupported(why)
    return replace(stated, cell=cell, route=other)


def _not_same(at: str, test: TestId, route: Route, cell: tuple[str, str, str], other: Route) -> str:
    """Return why the IR of two routes at a kind cannot be compared; empty if it can."""
    for names, each in ((test[:3], route), (cell, other)):
        if place(each, at) is None:
            passed = word_list(dict.fromkeys(each.kinds))
            return f"the route of {'/'.join(names)}/{test[3]} does not pass {at}, only {passed}"
    if reader(route, at) is None:
        return f"the artifact at {at} on the route of {'/'.join(test[:3])} is not IR, so it cannot be compared"
    return ""


def in_words(tested_property: TestProperty) -> str:
    """Describe a property in one sentence for reports."""
    property_kind = tested_property.property_kind
    if isinstance(property_kind, SameIr):
        return f"the IR at {property_kind.at} is that of {'/'.join(tested_property.cell or ())}"
    if isinstance(property_kind, Scaling):
        text = f"{_times(property_kind.inputs)} gives {_times(property_kind.outputs) or 'the same outputs'}"
    elif isinstance(property_kind, Permutation):
        text = f"renumbering {property_kind.dim} renumbers it in the outputs"
    elif isinstance(property_kind, Batch):
        text = f"a batch along {property_kind.dim} gives what its halves give"
    else:
        text = f"the outputs are those of {'/'.join(tested_property.cell or ())}"
    return text + (", exactly" if property_kind.within == "exact" else ", within the sum of both tolerances")


def _times(factors: Mapping[str, int | float]) -> str:
    return ", ".join(f"{name} times {factor}" for name, factor in factors.items())


def place(route: Route, kind: str) -> int | None:
    """Return after how many steps a route is at a kind for the last time; None if it never reaches it."""
    return max((number for number, each in enumerate(route.kinds) if each == kind), default=None)


def reader(route: Route, kind: str) -> ResolvedStep | None:
    """Return the step whose environment reads a route's IR at a kind: the next step that transforms it, else the last."""
    end = place(route, kind)
    if end is None:
        return None
    steps = [step.resolved_step for step in route.steps]
    after = [step for step in steps[end:] if step.tool in READS_IR]
    before = [step for step in steps[:end] if step.tool in READS_IR]
    if after:
        return after[0]
    return before[-1] if before and before[-1].tool == "passes" else None


def senseless(workload: Workload, property_kind: PropertyKind) -> str:
    """Return why a property makes no sense for a workload, in one sentence; empty if it does."""
    if workload.source and isinstance(property_kind, (Scaling, Permutation, Batch)):
        return "its program's own code declares its inputs; only 'agrees' and 'same-ir' do not depend on these"
    if isinstance(property_kind, Scaling):
        return _scaling(workload, property_kind)
    if isinstance(property_kind, (Permutation, Batch)):
        return _dimension(workload, property_kind)
    return ""


def axes(tensor: TensorInput | Output, dim: str) -> list[int]:
    """Return the positions of a named dimension in a shape."""
    return [axis for axis, size in enumerate(tensor.shape) if size == dim]


def _dimension(workload: Workload, property_kind: Permutation | Batch) -> str:
    dim = property_kind.dim
    if dim not in workload.dims:
        return f"it has no dimension '{dim}'{did_you_mean(dim, workload.dims)}"
    if workload.dims[dim] < 2:
        what = "renumbering" if isinstance(property_kind, Permutation) else "halving"
        return f"the dimension '{dim}' is {workload.dims[dim]}: {what} it tests nothing"
    if not any(axes(tensor, dim) for tensor in workload.inputs.values()):
        return f"the dimension '{dim}' is in no input's shape"
    if isinstance(property_kind, Batch):
        if without := [name for name, output in workload.outputs.items() if not axes(output, dim)]:
            return f"the output '{without[0]}' has no dimension '{dim}', so that it has no halves"
        tensors: list[tuple[str, TensorInput | Output]] = [*workload.inputs.items(), *workload.outputs.items()]
        if twice := [name for name, tensor in tensors if len(axes(tensor, dim)) > 1]:
            return f"'{twice[0]}' has the dimension '{dim}' twice; a batch has one"
    return ""


def _scaling(workload: Workload, property_kind: Scaling) -> str:
    factors = [("input", *each) for each in property_kind.inputs.items()]
    factors += [("output", *each) for each in property_kind.outputs.items()]
    for what, name, factor in factors:
        tensors: Mapping[str, TensorInput | Output] = workload.inputs if what == "input" else workload.outputs
        if name not in tensors:
            return f"it has no {what} '{name}'{did_you_mean(name, tensors)}"
        if tensors[name].dtype == "bool":
            return f"the {what} '{name}' is boolean and cannot be multiplied"
        if tensors[name].dtype not in FLOATS and factor != int(factor):
            return f"the {what} '{name}' holds whole numbers, and {factor} is not one"
    if property_kind.within == "exact":
        for name, factor in property_kind.inputs.items():
            # Only multiplication by a power of two is exact.
            if workload.inputs[name].dtype in FLOATS and math.frexp(abs(factor))[0] != 0.5:
                return f"'{name}' times {factor} is rounded; take a power of two, or write within: tolerance"
    return ""


def selfish(property_kind: PropertyKind, cells: Iterable[tuple[str, ...]]) -> str:
    """Return why a property would compare tests with themselves, or "". ``cells`` are their names on the three axes."""
    if not isinstance(property_kind, (Agreement, SameIr)):
        return ""
    asked = property_kind.cell
    # 'agrees' names up to three axes, 'same-ir' two.
    if all(name is None or name in names for name, names in zip(asked.values(), cells, strict=False)):
        itself = " and ".join(filter(None, asked.values()))
        return f"tests through {itself} would be compared with themselves; leave them out of 'tests'"
    return ""
