"""Plan tests of properties: up to the kernel, the actions of the test without the property; then a run on other inputs and a
comparison.

The comparison follows from the workload's named dimensions and the two routes; see ``expand/properties``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mlir_matrix.actions.contract import PARTS, Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import (
    Bounds,
    JudgedOutput,
    Op,
    RelateParams,
    SameIrParams,
    TransformInput,
    TransformParams,
)
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import FLOATS, Output, TensorInput, Workload
from mlir_matrix.catalog.models.suites import Agreement, Batch, Permutation, SameIr, Scaling
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.properties import axes, in_words, place, reader
from mlir_matrix.expand.tolerances import Resolved
from mlir_matrix.plan.chains import Chains
from mlir_matrix.plan.graph import Produced
from mlir_matrix.plan.parameters import VERDICT, add_inputs, bounds_of, choose_backend, judged, label
from mlir_matrix.plan.programs import is_prepared

#: A function that resolves the tolerances of a test's output. The caller passes it, so that planning knows no file formats.
Tolerate = Callable[[Test, str], Resolved]


class PropertyPlanner:
    """Adds tests of properties to a graph."""

    def __init__(self, chains: Chains, catalog: Catalog, tolerate: Tolerate, numpy: str) -> None:
        """Add to the graph of ``chains``. ``numpy`` is the environment that makes inputs and compares."""
        self._chains, self._catalog, self._tolerate, self._numpy = chains, catalog, tolerate, numpy

    def add(self, test: Test) -> str:
        """Add the actions of a test of a property and return the last one."""
        assert test.tested_property is not None
        property_kind = test.tested_property.property_kind
        workload = self._catalog.workloads[test.workload]
        if isinstance(property_kind, SameIr):
            return self._same_ir(test, property_kind)
        if isinstance(property_kind, Agreement):
            return self._agreement(test)
        if isinstance(property_kind, Batch):
            return self._batch(test, property_kind, workload)
        document = workload.document
        if isinstance(property_kind, Scaling):
            given, gives = _scale(property_kind.inputs), _scale(property_kind.outputs)
        else:
            given, gives = _permute(document.inputs, property_kind), _permute(document.outputs, property_kind)
        artifact = self._chains.compile(test)
        runs = [self._chains.run(test, artifact, arguments=self._transformed(workload, given))]
        return self._relate(test, runs, self._chains.run(test, artifact), gives)

    def _other(self, test: Test) -> Test:
        """Return the test with which a test is compared."""
        stated = test.tested_property
        assert stated is not None
        assert stated.cell is not None
        framework, pipeline, target = stated.cell
        test = replace(test, framework=framework, pipeline=pipeline, target=target, route=stated.route)
        return replace(test, tested_property=None, expectation=None)

    def _agreement(self, test: Test) -> str:
        other = self._other(test)
        runs = [self._chains.run(each, self._chains.compile(each)) for each in (test, other)]
        return self._relate(test, runs[:1], runs[1], {}, other=other)

    def _batch(self, test: Test, property_kind: Batch, workload: Entry[Workload]) -> str:
        document = workload.document
        size = document.dims[property_kind.dim]
        whole, runs = self._chains.compile(test), []
        for start, stop in ((0, (size + 1) // 2), ((size + 1) // 2, size)):
            dims = {**document.dims, property_kind.dim: stop - start}
            part = replace(workload, document=document.model_copy(update={"dims": dims}))
            artifact = whole
            if property_kind.dim not in document.dynamic:
                artifact = self._chains.lower(test, 0, self._chains.enter(test, part))
            ops: dict[str, Op] = {
                name: {"kind": "slice", "axis": found[0], "start": start, "stop": stop}
                for name, tensor in document.inputs.items()
                if (found := axes(tensor, property_kind.dim))
            }
            made = self._transformed(workload, ops)
            runs.append(self._chains.run(test, artifact, workload=part, arguments=made))
        join = {name: axes(output, property_kind.dim)[0] for name, output in document.outputs.items()}
        return self._relate(test, runs, self._chains.run(test, whole), {}, join=join)

    def _transformed(self, workload: Entry[Workload], ops: Mapping[str, Op]) -> dict[str, Produced]:
        """Return a workload's inputs, some of them changed."""
        made = add_inputs(self._chains.graph, workload, self._numpy)
        tensors = workload.document.inputs
        inputs: list[TransformInput] = [
            {"name": name, "dtype": tensors[name].dtype, "op": op} for name, op in ops.items()
        ]
        changed = self._chains.graph.add(
            f"transform/{workload.name}",
            tool="transform",
            stage=Stage.IMPORT,
            environment=self._numpy,
            params=TransformParams(inputs=inputs),
            inputs={name: made[name] for name in ops},
            outputs={name: f"{name}.npy" for name in ops},
        )
        return made | {name: Produced(changed, name) for name in ops}

    def _relate(
        self,
        test: Test,
        runs: Sequence[str],
        base: str,
        ops: Mapping[str, Op],
        *,
        other: Test | None = None,
        join: Mapping[str, int] | None = None,
    ) -> str:
        assert test.tested_property is not None
        workload = self._catalog.workloads[test.workload]
        params: RelateParams = {
            "relation": in_words(test.tested_property),
            "outputs": self._specs(test, other or test, ops),
            "ops": dict(ops),
            "join": dict(join or {}),
            "parts": len(runs),
            "same": list(runs) == [base],
        }
        if is_prepared(self._catalog, workload):
            params["bounds"] = self._program_bounds(test, other or test)
        related = {Role.OTHER: base, **dict(zip(PARTS, runs, strict=False))}
        return self._chains.relate(test, related, params)

    def _program_bounds(self, test: Test, other: Test) -> dict[str, Bounds]:
        """Return the bounds of a program in a foreign form, by dtype; none if all of its outputs must be equal."""
        assert test.tested_property is not None
        property_kind = test.tested_property.property_kind
        if not isinstance(property_kind, Agreement) or property_kind.within == "exact":
            return {}
        return {
            dtype: bounds_of(self._catalog, _sum(self._tolerate(test, dtype), self._tolerate(other, dtype), 1.0))
            for dtype in sorted(FLOATS)
        }

    def _specs(self, test: Test, other: Test, ops: Mapping[str, Op]) -> list[JudgedOutput]:
        """Return the specification of each output: equal, or within the sum of both tests' tolerances."""
        assert test.tested_property is not None
        document = self._catalog.workloads[test.workload].document
        property_kind = test.tested_property.property_kind
        exact = not isinstance(property_kind, SameIr) and property_kind.within == "exact"
        bounds = []
        for name in document.outputs:
            own, op = self._tolerate(test, name), ops.get(name)
            scale = max(1.0, abs(op["factor"])) if op and op["kind"] == "scale" else 1.0
            bounds.append(_equal(own) if exact else _sum(own, self._tolerate(other, name), scale))
        specs = judged(self._catalog, document, bounds)
        for spec in specs if exact else ():
            spec["compare"] = spec["compare"].replace("numeric", "exact")
        return specs

    def _same_ir(self, test: Test, property_kind: SameIr) -> str:
        assert test.tested_property is not None
        ends = [
            self._chains.lower(each, 0, self._chains.enter(each), place(each.known_route, property_kind.at))
            for each in (test, self._other(test))
        ]
        resolved_step = reader(test.known_route, property_kind.at)
        assert resolved_step is not None
        params: SameIrParams = {
            "relation": in_words(test.tested_property),
            "other": "/".join(test.tested_property.cell or ()),
            "same": ends[0] == ends[1],
            "backend": "bindings",
        }
        choose_backend(params, resolved_step)
        return self._chains.graph.add(
            f"same-ir/{label(self._catalog.workloads[test.workload])}",
            tool="same_ir",
            stage=Stage.JUDGE,
            environment=resolved_step.environment,
            params=params,
            inputs={"ir": ends[0], "other": ends[1]},
            outputs=VERDICT,
        )


def _scale(factors: Mapping[str, float]) -> dict[str, Op]:
    return {name: {"kind": "scale", "factor": factor} for name, factor in factors.items()}


def _permute(tensors: Mapping[str, TensorInput | Output], property_kind: Permutation) -> dict[str, Op]:
    return {
        name: {"kind": "permute", "axes": found}
        for name, tensor in tensors.items()
        if (found := axes(tensor, property_kind.dim))
    }


def _equal(own: Resolved) -> Resolved:
    """Return the bounds of an output that must be equal."""
    return replace(
        own, atol=0, rtol=0, atol_text="0", rtol_text="0", max_ulp=None, location="",
        rationale="equal, as the suite requires",
    )  # fmt: skip


def _sum(own: Resolved, its: Resolved, scale: float) -> Resolved:
    """Return the bounds on a difference of two runs that both have errors, at the size of the scaled result."""
    atol = f"{own.atol_text} + {its.atol_text}"
    given = [each for each in (own, its) if each.max_ulp is not None]
    return replace(
        own,
        atol=scale * (own.atol + its.atol),
        rtol=own.rtol + its.rtol,
        atol_text=f"{scale:g} * ({atol})" if scale > 1 else atol,
        rtol_text=f"{own.rtol_text} + {its.rtol_text}",
        rationale=f"Two runs, of which each may be off: {own.rationale}",
        max_ulp=sum(each.max_ulp or 0.0 for each in given) if given else None,
        max_ulp_text=" + ".join(str(each.max_ulp_text) for each in given),
    )
