"""Add the chain of actions from a workload's source to its outputs: import, steps, run.

The planner, properties, audits and calibrations share these chains: what two tests have in common is one action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mlir_matrix.actions.params import PassesParams, StepParams
from mlir_matrix.actions.runtime.outcomes import Stage
from mlir_matrix.actions.runtime.template import fill
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import ParameterValue, Workload
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import KEEPS_IR, ResolvedStep
from mlir_matrix.expand.routes import Route, RouteStep
from mlir_matrix.plan.graph import Graph, Input, Produced, cached
from mlir_matrix.plan.parameters import choose_backend, file_of, json_value, signature
from mlir_matrix.plan.run_kernels import Kernels

#: Applies a step with its parameters to an artifact.
_Step = Callable[[Input], Produced]


class Chains(Kernels):
    """Adds imports, steps and runs to one graph; keeps those that an earlier test added."""

    def __init__(self, catalog: Catalog, graph: Graph, numpy: str) -> None:
        """``numpy`` is the environment that makes inputs."""
        super().__init__(catalog, graph, numpy)
        self._imports: dict[tuple[str | int, ...], Produced] = {}
        #: By identity, because tests of a cell share their route, and comparing routes costs more than planning a step.
        self._routes: dict[int, tuple[Route, tuple[_Step, ...]]] = {}
        self._steps: dict[RouteStep, _Step] = {}
        #: Steps by themselves.
        self._alone: dict[ResolvedStep, _Step] = {}

    def enter(self, test: Test, workload: Entry[Workload] | None = None) -> Produced:
        """Import a test's workload by its framework; ``workload``: the same with dimensions of other sizes."""
        assert test.route is not None
        framework, route, entry = test.framework, test.route, workload or self._catalog.workloads[test.workload]
        names = (framework, route.kind, entry.name, route.ingress.environment)
        key: tuple[str | int, ...] = (*names, *entry.document.dims.values())
        return cached(self._imports, key, lambda: self._new_import(framework, route, entry))

    def lower(self, test: Test, begin: int, artifact: Produced, end: int | None = None) -> Produced:
        """Apply the steps of a test's route from number ``begin`` to before ``end`` (None: all) to an artifact."""
        route = test.route
        assert route is not None
        steps = cached(self._routes, id(route), lambda: (route, tuple(map(self._route_step, route.steps))))[1]
        for apply in steps[begin:end]:
            artifact = apply(artifact)
        return artifact

    def compile(self, test: Test) -> Produced:
        """Apply all steps of a test's route to its workload."""
        return self.lower(test, 0, self.enter(test))

    def step(self, name: str, resolved_step: ResolvedStep, artifact: Input) -> Produced:
        """Apply a step by itself, with the defaults of its parameters."""
        step = self._catalog.steps[name].document
        defaults = {key: parameter.default for key, parameter in step.parameters.items()}
        gives = step.gives or step.accepts[0]
        make = partial(self._new_step, name, gives, resolved_step, defaults)
        return cached(self._alone, resolved_step, make)(artifact)

    def _new_import(self, framework: str, route: Route, workload: Entry[Workload]) -> Produced:
        source = file_of(self._catalog, workload.root, workload.files[route.source])
        params = signature(workload.document)
        choose_backend(params, route.ingress)
        action = self.graph.add(
            f"import/{framework}/{workload.name}",
            tool=route.ingress.tool,
            stage=Stage.IMPORT,
            environment=route.ingress.environment,
            params=params,
            inputs={"source": source},
            outputs={"ir": self._catalog.kinds[route.kind].document.file},
        )
        return Produced(action, "ir")

    def _route_step(self, step: RouteStep) -> _Step:
        return cached(
            self._steps, step, lambda: self._new_step(step.name, step.gives, step.resolved_step, step.parameters)
        )

    def _new_step(
        self, name: str, gives: str, resolved_step: ResolvedStep, parameters: Mapping[str, ParameterValue]
    ) -> _Step:
        """Return a function that adds a step's action, once for each artifact."""
        entry = self._catalog.steps[name]
        step, tool = entry.document, resolved_step.tool
        params: StepParams = {}
        choose_backend(params, resolved_step)
        if resolved_step.passes is not None:
            params = PassesParams(**params, passes=fill(" ".join(resolved_step.passes.split()), parameters))
        if step.tool != "passes" or resolved_step.schedule is not None:
            params["parameters"] = {key: json_value(value) for key, value in parameters.items()}
        named = {"schedule": resolved_step.schedule, "patterns": resolved_step.patterns, "directives": step.directives}
        files = {key: file_of(self._catalog, entry.root, entry.folder / path) for key, path in named.items() if path}
        # The output of other tools is named by its kind (``object``).
        output = "ir" if tool in KEEPS_IR else gives
        # Bindings always generate code for the CPU that they run on; programs do so where told, else for any.
        by_programs = tool == "object" and resolved_step.backend == "programs"
        stage = Stage.JUDGE if tool == "check" else Stage(step.stage)
        native = parameters.get("cpu") == "native" if by_programs else step.native
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
