"""Add the chain of actions from a workload's source to its outputs: import, steps, run.

The planner, properties, audits and calibrations share these chains: equal parts of two tests are one action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mlir_matrix.actions.contract import Role, fill
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import (
    Contract,
    ImportParams,
    NoParams,
    PassesParams,
    RelateParams,
    ResizeParams,
    StepParams,
)
from mlir_matrix.actions.runtime.prepared import EXPECTED, INTERFACE, RESULTS
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import COMMAND, PYTHON_FILE, ParameterValue, Step, Workload
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.catalog.run_lines import Values
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.kinds import contract_of
from mlir_matrix.expand.recipes import KEEPS_IR, ResolvedStep
from mlir_matrix.expand.routes import Route, RouteStep
from mlir_matrix.plan.graph import Graph, Input, Produced, cached
from mlir_matrix.plan.parameters import (
    VERDICT,
    choose_backend,
    file_of,
    json_value,
    label,
    signature,
    tool_files,
    tool_params,
)
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.run_kernels import Kernels

#: Applies a step with its parameters to an artifact.
_Step = Callable[[Input], Produced]


class Chains(Kernels):
    """Adds imports, steps and runs to one graph, each once."""

    def __init__(self, catalog: Catalog, graph: Graph, numpy: str, pins: Pins) -> None:
        """Add to ``graph``. ``numpy`` is the environment that makes inputs."""
        super().__init__(catalog, graph, numpy, pins)
        self._imports: dict[tuple[str | int, ...], Input] = {}
        #: By identity of the route: tests of a cell share it, and comparing routes takes longer than planning a step.
        self._routes: dict[int, tuple[Route, tuple[_Step, ...]]] = {}
        self._steps: dict[RouteStep, _Step] = {}
        #: Steps outside of a route.
        self._alone: dict[tuple[ResolvedStep, Values, bool], _Step] = {}

    def enter(self, test: Test, workload: Entry[Workload] | None = None) -> Input:
        """Import a test's workload by its framework. ``workload``: the same workload with other sizes of dimensions.

        A framework without an importer adds no action: the file itself enters.
        """
        framework, route, entry = test.framework, test.known_route, workload or self._catalog.workloads[test.workload]
        names = (framework, route.kind, entry.name, route.ingress.environment if route.ingress else "")
        key: tuple[str | int, ...] = (*names, *entry.document.dims.values(), test.pins if entry.document.source else "")
        return cached(self._imports, key, lambda: self._new_import(test, route, entry))

    def lower(self, test: Test, begin: int, artifact: Input, end: int | None = None) -> Input:
        """Apply the steps of a test's route from number ``begin`` to before ``end`` (None: all) to an artifact."""
        route = test.known_route
        steps = cached(self._routes, id(route), lambda: (route, tuple(map(self._route_step, route.steps))))[1]
        for apply in steps[begin:end]:
            artifact = apply(artifact)
        return artifact

    def compile(self, test: Test) -> Input:
        """Apply all steps of a test's route to its workload."""
        return self.lower(test, 0, self.enter(test))

    def step(
        self, name: str, resolved_step: ResolvedStep, artifact: Input, given: Values = (), *, held: bool = True
    ) -> Produced:
        """Apply a step by itself, with some values of its parameters and the defaults of the others.

        ``held``: hold what it gives against the contract of the kind, but for ``@main``.
        """
        step = self._catalog.steps[name].document
        takes, values = step.accepts[0], {**resolved_step.parameters, **dict(given)}
        gives = step.kind_from(takes)
        contract = contract_of(self._catalog, gives, resolved_step, alone=True) if held else None
        make = partial(self._new_step, name, takes, gives, resolved_step, values, contract)
        return cached(self._alone, (resolved_step, given, held), make)(artifact)

    def relate(self, test: Test, related: Mapping[Role, str], params: RelateParams) -> str:
        """Add the action that compares runs of a test, by their roles. Return its identifier."""
        workload = self._catalog.workloads[test.workload]
        if is_prepared(self._catalog, workload):
            prepared = self.prepare(test, workload)
            inputs: dict[str, Input] = {name: Produced(prepared, name) for name in (INTERFACE, EXPECTED)}
            inputs |= {role: Produced(run, RESULTS) for role, run in related.items()}
        else:
            names = workload.document.outputs
            inputs = {
                role.of(name): Produced(run, Role.RESULT.of(name)) for role, run in related.items() for name in names
            }
        return self.graph.add(
            f"relate/{label(workload)}",
            tool="relate",
            stage=Stage.JUDGE,
            environment=self._numpy,
            params=params,
            inputs=inputs,
            outputs=VERDICT,
        )

    def _new_import(self, test: Test, route: Route, workload: Entry[Workload]) -> Input:
        framework = test.framework
        entry, ingress = self._catalog.frameworks[framework], route.ingress
        source: Input = file_of(self._catalog, workload.root, workload.files[route.source])
        prepared = self.prepare(test, workload) if is_prepared(self._catalog, workload) else ""
        if prepared:
            source = Produced(prepared, "program")
        elif workload.new_sizes and entry.document.fixed_shapes:
            source = self._resized(workload, source)
        if ingress is None:
            return source
        params = tool_params(ingress, entry.document, ingress.parameters, route.kind)
        if contract := contract_of(self._catalog, route.kind, ingress):
            params["contract"] = contract
        files = tool_files(self._catalog, entry, params)
        declared: ImportParams | NoParams = signature(workload.document)
        if prepared:
            declared = {}
            files[INTERFACE] = Produced(prepared, INTERFACE)
        action = self.graph.add(
            f"import/{framework}/{label(workload)}",
            tool=ingress.tool,
            stage=Stage.IMPORT,
            environment=ingress.environment,
            params={**declared, **params},
            inputs={"source": source, **files},
            outputs={"out": self._catalog.kinds[route.kind].document.file},
        )
        return Produced(action, "out")

    def _resized(self, workload: Entry[Workload], source: Input) -> Produced:
        """Add the action that writes a hand-written program in the size that a workload has."""
        action = self.graph.add(
            f"resize/{label(workload)}",
            tool="resize",
            stage=Stage.IMPORT,
            environment=self._numpy,
            params=ResizeParams(sizes={str(before): after for before, after in workload.new_sizes.items()}),
            inputs={"source": source},
            outputs={"source": "source.mlir"},
        )
        return Produced(action, "source")

    def _route_step(self, step: RouteStep) -> _Step:
        def make() -> _Step:
            contract = contract_of(self._catalog, step.gives, step.resolved_step)
            return self._new_step(step.name, step.takes, step.gives, step.resolved_step, step.parameters, contract)

        return cached(self._steps, step, make)

    def _new_step(
        self,
        name: str,
        takes: str,
        gives: str,
        resolved_step: ResolvedStep,
        values: Mapping[str, ParameterValue],
        contract: Contract | None,
    ) -> _Step:
        """Return a function that adds a step's action, once for each artifact. ``contract``: what its output is held to."""
        entry, tool = self._catalog.steps[name], resolved_step.tool
        if tool in (PYTHON_FILE, COMMAND):
            params = tool_params(resolved_step, entry.document, values, takes)
            # The name of its output does not depend on the kind of the output.
            output, native, files = "out", entry.document.native, tool_files(self._catalog, entry, params)
        else:
            params, output, native, files = self._own_tool(entry, gives, resolved_step, values)
        # FileCheck leaves the IR as it is.
        if contract and tool != "check":
            params["contract"] = contract
        stage = Stage.JUDGE if tool == "check" else Stage(entry.document.stage)
        outputs = {output: self._catalog.kinds[gives].document.file}
        made: dict[Input, Produced] = {}

        def apply(artifact: Input) -> Produced:
            found = made.get(artifact)
            if found is None:
                action = self.graph.add(
                    name,
                    tool=tool,
                    stage=stage,
                    environment=resolved_step.environment,
                    params=params,
                    inputs={"ir": artifact, **files},
                    outputs=outputs,
                    native=native,
                )
                found = made[artifact] = Produced(action, output)
            return found

        return apply

    def _own_tool(
        self, entry: Entry[Step], gives: str, resolved_step: ResolvedStep, values: Mapping[str, ParameterValue]
    ) -> tuple[Any, str, bool, dict[str, Input]]:
        """Return the parameters of one of our tools, the name of its output, whether it is native, and the step's files."""
        step, tool = entry.document, resolved_step.tool
        params: StepParams = {}
        choose_backend(params, resolved_step)
        if resolved_step.passes is not None:
            params = PassesParams(**params, passes=fill(" ".join(resolved_step.passes.split()), values))
        if tool != "passes" or resolved_step.schedule is not None:
            params["parameters"] = {key: json_value(value) for key, value in values.items()}
        named = {"schedule": resolved_step.schedule, "patterns": resolved_step.patterns, "directives": step.directives}
        files: dict[str, Input] = {
            key: file_of(self._catalog, entry.root, entry.folder / path) for key, path in named.items() if path
        }
        # Bindings always generate code for the CPU that they run on; programs only if a parameter says so.
        by_programs = tool == "object" and resolved_step.backend == "programs"
        native = values.get("cpu") == "native" if by_programs else step.native
        # The output of other tools is named by its kind (``object``).
        return params, "ir" if tool in KEEPS_IR else gives, native, files
