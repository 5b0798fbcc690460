"""Add the chain of actions from a workload's source to its outputs: import, steps, run.

The planner, properties, audits and calibrations share these chains: what two tests have in common is one action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir_matrix.actions.params import ImportParams, PassesParams, StepParams
from mlir_matrix.actions.runtime.outcomes import Stage
from mlir_matrix.actions.runtime.template import fill
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import ParameterValue, Step, Workload
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import KEEPS_IR, ResolvedStep
from mlir_matrix.expand.routes import Argument, Route, RouteStep
from mlir_matrix.plan.graph import Graph, Input, Produced, cached
from mlir_matrix.plan.parameters import choose_backend, file_of, json_value, signature
from mlir_matrix.plan.run_kernels import Kernels


@dataclass(slots=True, eq=False, kw_only=True)
class _Use:
    """A step with its parameters, as routes use it: what its actions have in common, and those that are there already."""

    name: str
    step: Step
    resolved_step: ResolvedStep
    params: StepParams
    files: Mapping[str, Input]
    #: What it gives: the name of the output, and its file; and whether that depends on the CPU of this machine.
    output: str
    outputs: Mapping[str, str]
    native: bool
    #: By what comes in.
    made: dict[Input, Produced] = field(default_factory=dict)


class Chains:
    """Adds imports, steps and runs to one graph; remembers those that an earlier test added."""

    def __init__(self, catalog: Catalog, graph: Graph, numpy: str) -> None:
        """``numpy`` is the environment that makes inputs."""
        self.graph = graph
        self._catalog = catalog
        self._kernels = Kernels(catalog, graph, numpy)
        self._imports: dict[tuple[str | int, ...], Produced] = {}
        self._signatures: dict[tuple[str | int, ...], ImportParams] = {}
        #: By identity, because tests of a cell share their route, and comparing routes costs more than planning a step.
        self._routes: dict[int, tuple[Route, tuple[_Use, ...]]] = {}
        self._uses: dict[RouteStep, _Use] = {}
        #: The uses of steps by themselves, by step.
        self._alone: dict[str, _Use] = {}

    def enter(self, test: Test, workload: Entry[Workload] | None = None) -> Produced:
        """Import a test's workload by its framework; ``workload``: the same with dimensions of other sizes."""
        assert test.route is not None
        return self._import(test.framework, test.route, workload or self._catalog.workloads[test.workload])

    def lower(self, test: Test, begin: int, artifact: Produced, end: int | None = None) -> Produced:
        """Apply the steps of a test's route from number ``begin`` to before ``end`` (None: all) to an artifact."""
        assert test.route is not None
        for use in self._uses_of(test.route)[begin:end]:
            artifact = use.made.get(artifact) or self._new_step(use, artifact)
        return artifact

    def compile(self, test: Test) -> Produced:
        """Return what a test's whole route makes of its workload."""
        return self.lower(test, 0, self.enter(test))

    def run(
        self,
        test: Test,
        artifact: Produced,
        *,
        draw: int = 0,
        workload: Entry[Workload] | None = None,
        arguments: Mapping[str, Produced] | None = None,
    ) -> str:
        """Add the action that calls a kernel with the inputs of draw ``draw``; its outputs are ``out-NAME``.

        ``workload``: the test's own with dimensions of other sizes; ``arguments``: by input, instead of those of the draw.
        """
        entry = workload or self._catalog.workloads[test.workload]
        return self._kernels.run(artifact, test, entry, draw=draw, arguments=arguments)

    def run_draws(self, test: Test, artifact: Produced, draws: Sequence[int]) -> str:
        """Add one action that calls a kernel with the inputs of several draws; its outputs are ``out-DRAW-NAME``, ``failures``."""
        return self._kernels.run_draws(artifact, test, self._catalog.workloads[test.workload], draws)

    def step(self, name: str, resolved_step: ResolvedStep, artifact: Input) -> Produced:
        """Apply a step by itself, with the defaults of its parameters."""
        use = cached(self._alone, name, lambda: self._new_use(_alone(self._catalog.steps[name], resolved_step)))
        return self._new_step(use, artifact)

    def _import(self, framework: str, route: Route, workload: Entry[Workload]) -> Produced:
        names = (framework, route.kind, workload.name, route.ingress.environment)
        key: tuple[str | int, ...] = (*names, *workload.document.dims.values())
        return cached(self._imports, key, lambda: self._new_import(framework, route, workload))

    def _new_import(self, framework: str, route: Route, workload: Entry[Workload]) -> Produced:
        source = file_of(self._catalog, workload.root, workload.files[route.source])
        params = self._signature(workload).copy()
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

    def _signature(self, workload: Entry[Workload]) -> ImportParams:
        key: tuple[str | int, ...] = (workload.name, *workload.document.dims.values())
        return cached(self._signatures, key, lambda: signature(workload.document))

    def _uses_of(self, route: Route) -> tuple[_Use, ...]:
        return cached(self._routes, id(route), lambda: (route, tuple(self._use(step) for step in route.steps)))[1]

    def _use(self, step: RouteStep) -> _Use:
        return cached(self._uses, step, lambda: self._new_use(step))

    def _new_use(self, use: RouteStep) -> _Use:
        """Parameters and files of a step; the same for whatever comes in."""
        entry = self._catalog.steps[use.name]
        step: Step = entry.document
        resolved_step = use.resolved_step
        params: StepParams = {}
        choose_backend(params, resolved_step)
        if resolved_step.passes is not None:
            params = PassesParams(**params, passes=fill(" ".join(resolved_step.passes.split()), use.parameters))
        if step.tool != "passes" or resolved_step.schedule is not None:
            params["parameters"] = {name: json_value(value) for name, value in use.parameters.items()}
        files: dict[str, Input] = {
            name: file_of(self._catalog, entry.root, entry.folder / path)
            for name, path in (
                ("schedule", resolved_step.schedule),
                ("patterns", resolved_step.patterns),
                ("directives", step.directives),
            )
            if path is not None
        }
        # What others give is called by its kind (``object``).
        output = "ir" if resolved_step.tool in KEEPS_IR else use.gives
        outputs = {output: self._catalog.kinds[use.gives].document.file}
        native = _is_native(step, resolved_step, use.parameters)
        return _Use(
            name=use.name, step=step, resolved_step=resolved_step, params=params, files=files, output=output,
            outputs=outputs, native=native,
        )  # fmt: skip

    def _new_step(self, use: _Use, artifact: Input) -> Produced:
        action = self.graph.add(
            use.name,
            tool=use.resolved_step.tool,
            stage=Stage(use.step.stage),
            environment=use.resolved_step.environment,
            params=use.params,
            inputs={"ir": artifact, **use.files},
            outputs=use.outputs,
            native=use.native,
        )
        made = use.made[artifact] = Produced(action, use.output)
        return made


def _is_native(step: Step, resolved_step: ResolvedStep, parameters: Mapping[str, ParameterValue]) -> bool:
    """Bindings cannot but generate code for the CPU that they are on; programs do so where they are told, else for any."""
    by_programs = resolved_step.tool == "object" and resolved_step.backend == "programs"
    return parameters.get("cpu") == "native" if by_programs else step.native


def _alone(entry: Entry[Step], resolved_step: ResolvedStep) -> RouteStep:
    """A step as its IR tests use it: by itself, with the defaults of its parameters."""
    step = entry.document
    arguments = tuple(
        Argument(name, parameter.default, entry.source.position("parameters", name, "default"), default=True)
        for name, parameter in step.parameters.items()
    )
    takes = step.accepts[0]
    return RouteStep(entry.name, takes, step.gives or takes, arguments, entry.source.position(), resolved_step)
