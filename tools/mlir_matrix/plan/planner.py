"""From chosen tests to the graph of actions that they need. Tests that share a prefix share its actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlir_matrix.actions.template import fill
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models import ParameterValue, Step, Workload
from mlir_matrix.connect import Argument, Road, RoadStep
from mlir_matrix.expansion import Test
from mlir_matrix.plan.graph import File, Graph, Input, Produced
from mlir_matrix.plan.workloads import add_inputs, file_of, judged, signature
from mlir_matrix.tolerance import Resolved

#: Tools whose output is IR again; what others give is called by its kind (``object``).
_KEEPS_IR = frozenset({"passes", "check"})
#: The one driver, relative to this repository: kernels of every catalog are linked with it.
DRIVER_SOURCES = tuple(
    f"tools/driver/{name}"
    for name in (
        "call.c", "call.h", "driver.c", "fail.c", "fail.h", "memory.c", "memory.h",
        "memref.c", "memref.h", "missing.c", "npy.c", "npy.h", "spec.c", "spec.h",
    )
)  # fmt: skip
#: What many actions share is one object.
_NO_PARAMS: Mapping[str, Any] = {}
_KERNEL = {"kernel": "kernel"}
_VERDICT = {"verdict": "verdict.json"}
#: Resolves the tolerances of one test's output; given by the caller so that planning knows no file formats.
Tolerate = Callable[[Test, str], Resolved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The tests of a run, and for each that can run the action that gives its verdict."""

    tests: tuple[Test, ...]
    graph: Graph
    #: Test identifier to the identifier of its last action.
    verdicts: Mapping[str, str]


def make_plan(
    catalog: Catalog, tests: Iterable[Test], tolerate: Tolerate, *, swaps: Mapping[str, str] = MappingProxyType({})
) -> Plan:
    """Plan the tests, which are those chosen. Decided ones (unsupported) need no action.

    ``swaps`` names environments that stand in for others; actions keep the name that the recipe uses.
    """
    planner = _Planner(catalog, tolerate, swaps)
    chosen = tuple(tests)
    verdicts = {test.id: planner.add(test) for test in chosen if test.outcome is None}
    return Plan(tests=chosen, graph=planner.graph, verdicts=verdicts)


@dataclass(slots=True, eq=False, kw_only=True)
class _Use:
    """A step with its parameters, as roads use it: what its actions have in common, and those that are there already."""

    name: str
    step: Step
    params: Mapping[str, Any]
    files: Mapping[str, Input]
    #: What it gives: the name of the output, and its file.
    output: str
    outputs: Mapping[str, str]
    #: By what comes in.
    made: dict[Input, Produced] = field(default_factory=dict)


class _Planner:
    """Adds tests to one graph; remembers what an earlier test already added."""

    def __init__(self, catalog: Catalog, tolerate: Tolerate, swaps: Mapping[str, str]) -> None:
        self._swaps = swaps
        self.graph = Graph()
        self._catalog = catalog
        self._tolerate = tolerate
        self._made: dict[Any, Any] = {}
        #: By identity, because tests of a cell share their road, and comparing roads costs more than planning a step.
        self._roads: dict[int, tuple[Road, tuple[_Use, ...]]] = {}
        self._uses: dict[RoadStep, _Use] = {}

    def add(self, test: Test) -> str:
        """Add what a test needs and return its last action."""
        return self._ir_test(test) if test.is_ir else self._execution_test(test)

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _execution_test(self, test: Test) -> str:
        assert test.road is not None
        workload = self._catalog.workloads[test.workload]
        artifact = self._import(test.framework, test.road, workload)
        for use in self._uses_of(test.road):
            artifact = use.made.get(artifact) or self._new_step(use, artifact)
        kernel = self._once(("link", artifact, test.target), lambda: self._link(artifact, test.target))
        results = self._once(("run", kernel, test.workload), lambda: self._run(kernel, workload, test.target))
        return self._judge(test, workload, results)

    def _import(self, framework: str, road: Road, workload: Entry[Workload]) -> Produced:
        return self._once((framework, road.kind, workload.name), lambda: self._new_import(framework, road, workload))  # type: ignore[no-any-return]

    def _new_import(self, framework: str, road: Road, workload: Entry[Workload]) -> Produced:
        document = self._catalog.frameworks[framework].document
        source = file_of(self._catalog, workload.root, workload.files[road.source])
        action = self.graph.add(
            f"import/{framework}/{workload.name}",
            tool=document.tool,
            stage="import",
            environment=document.environment,
            params={**self._signature(workload), **self._bindings(document.environment)},
            inputs={"source": source},
            outputs={"ir": self._catalog.kinds[road.kind].document.file},
        )
        return Produced(action, "ir")

    def _signature(self, workload: Entry[Workload]) -> dict[str, Any]:
        return self._once(("signature", workload.name), lambda: signature(workload.document))  # type: ignore[no-any-return]

    def _bindings(self, environment: str) -> dict[str, str]:
        module = self._catalog.environments[self._swaps.get(environment, environment)].document.bindings
        return {"bindings": module} if module else {}

    def _uses_of(self, road: Road) -> tuple[_Use, ...]:
        known = self._roads.get(id(road))
        if known is None:
            known = self._roads[id(road)] = (road, tuple(self._use(step) for step in road.steps))
        return known[1]

    def _use(self, road_step: RoadStep) -> _Use:
        if road_step not in self._uses:
            self._uses[road_step] = self._new_use(road_step)
        return self._uses[road_step]

    def _new_use(self, use: RoadStep) -> _Use:
        """Parameters and files of a step; the same for whatever comes in."""
        entry = self._catalog.steps[use.name]
        step: Step = entry.document
        params: dict[str, Any] = {**self._bindings(step.environment)}
        if step.passes is not None:
            params["passes"] = fill(" ".join(step.passes.split()), use.parameters)
        if step.tool != "passes" or step.schedule is not None:
            params["parameters"] = {name: _plain(value) for name, value in use.parameters.items()}
        files: dict[str, Input] = {
            name: file_of(self._catalog, entry.root, entry.folder / path)
            for name, path in (
                ("schedule", step.schedule),
                ("patterns", step.patterns),
                ("directives", step.directives),
            )
            if path is not None
        }
        output = "ir" if step.tool in _KEEPS_IR else use.gives
        outputs = {output: self._catalog.kinds[use.gives].document.file}
        return _Use(name=use.name, step=step, params=params, files=files, output=output, outputs=outputs)

    def _new_step(self, use: _Use, artifact: Input) -> Produced:
        action = self.graph.add(
            use.name,
            tool=use.step.tool,
            stage=use.step.stage,
            environment=use.step.environment,
            params=use.params,
            inputs={"ir": artifact, **use.files},
            outputs=use.outputs,
            native=use.step.native,
        )
        made = use.made[artifact] = Produced(action, use.output)
        return made

    def _link(self, kernel: Produced, target: str) -> Produced:
        document = self._catalog.targets[target].document
        kit = self._once(("kit", target), lambda: self._kit(document.triple, document.linker_environment))
        action = self.graph.add(
            "link",
            tool="link",
            stage="codegen",
            environment=document.linker_environment,
            params=_NO_PARAMS,
            inputs={"object": kernel, **kit},
            outputs=_KERNEL,
        )
        return Produced(action, "kernel")

    def _kit(self, triple: str, environment: str) -> dict[str, Input]:
        """What every kernel of a target is linked with. Two actions: the driver changes, the C library does not."""
        sources: Mapping[str, Mapping[str, Input]] = {
            "runtime": {},
            "driver": {Path(path).name: File(0, path) for path in DRIVER_SOURCES},
        }
        return {
            name: Produced(
                self.graph.add(
                    f"{name}/{triple}",
                    tool="link_kit",
                    stage="codegen",
                    environment=environment,
                    params={"triple": triple},
                    inputs=files,
                    outputs={name: f"{name}.o"},
                ),
                name,
            )
            for name, files in sources.items()
        }

    def _run(self, kernel: Produced, workload: Entry[Workload], target: str) -> str:
        arguments, params, outputs = self._once(("running", workload.name), lambda: self._running(workload))
        return self.graph.add(
            f"run/{workload.name}",
            tool="run",
            stage="run",
            environment=self._catalog.targets[target].document.runner_environment,
            params=params,
            inputs={"kernel": kernel, **arguments},
            outputs=outputs,
        )

    def _running(self, workload: Entry[Workload]) -> tuple[dict[str, Input], dict[str, Any], dict[str, str]]:
        """What all runs of a workload have in common: the arguments' files, the parameters, the outputs."""
        made = add_inputs(self.graph, workload)
        described = self._signature(workload)
        return (
            {f"arg-{name}": Produced(made, name) for name in workload.document.inputs},
            {"arguments": described["inputs"], "results": described["outputs"]},
            {f"out-{name}": f"{name}.npy" for name in workload.document.outputs},
        )

    def _judge(self, test: Test, workload: Entry[Workload], results: str) -> str:
        names = workload.document.outputs
        bounds = tuple(self._tolerate(test, name) for name in names)
        # Tests of a workload that the same layers apply to are judged by the same parameters.
        key = (test.workload, tuple((bound.location, bound.atol, bound.rtol) for bound in bounds))
        params = self._once(key, lambda: {"outputs": judged(self._catalog, workload.document, bounds)})
        expected = self._once(("golden", test.workload), lambda: self._goldens(workload))
        files: dict[str, Input] = {}
        for name in names:
            files[f"actual-{name}"] = Produced(results, f"out-{name}")
            files[f"expected-{name}"] = expected[name]
        return self.graph.add(
            f"judge/{workload.name}",
            tool="judge",
            stage="judge",
            environment="numpy",
            params=params,
            inputs=files,
            outputs=_VERDICT,
        )

    def _goldens(self, workload: Entry[Workload]) -> dict[str, File]:
        return {
            name: file_of(self._catalog, workload.root, workload.golden / f"{name}.npy", optional=True)
            for name in workload.document.outputs
        }

    def _ir_test(self, test: Test) -> str:
        entry = self._catalog.steps[test.pipeline]
        case = file_of(self._catalog, entry.root, entry.cases[test.workload])
        use = self._once(("alone", entry.name), lambda: self._new_use(_alone(entry)))
        return self.graph.add(
            f"filecheck/{entry.name}/{test.workload}",
            tool="irtest",
            stage="judge",
            environment="filecheck",
            params=_NO_PARAMS,
            inputs={"ir": self._new_step(use, case), "test": case},
            outputs={"report": "report.json"},
        )


def _alone(entry: Entry[Step]) -> RoadStep:
    """A step as its IR tests use it: by itself, with the defaults of its parameters."""
    step = entry.document
    arguments = tuple(
        Argument(name, parameter.default, entry.source.position("parameters", name, "default"), default=True)
        for name, parameter in step.parameters.items()
    )
    takes = step.accepts[0]
    return RoadStep(entry.name, takes, step.gives or takes, arguments, entry.source.position())


def _plain(value: ParameterValue) -> Any:
    return list(value) if isinstance(value, tuple) else value
