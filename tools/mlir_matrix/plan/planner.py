"""From chosen tests to the graph of actions that they need. Tests that share a prefix share its actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlir_matrix.actions.template import fill
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models import ParameterValue, Step, Workload
from mlir_matrix.connect import Argument, Road, RoadStep
from mlir_matrix.expansion import Test
from mlir_matrix.plan.graph import File, Graph, Input, Produced
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


def file_of(catalog: Catalog, root: Path, path: Path, *, optional: bool = False) -> File:
    """A catalog's file as plans name it: without the folder that the catalog happens to be in."""
    return File(catalog.roots.index(root), path.relative_to(root).as_posix(), optional)


def sizes(shape: Iterable[int | str], dims: Mapping[str, int]) -> list[int]:
    """A shape with its named dimensions replaced by their sizes."""
    return [size if isinstance(size, int) else dims[size] for size in shape]


def inputs_params(workload: Workload) -> dict[str, Any]:
    """Parameters of the action that makes a workload's inputs."""
    made = [
        {"name": name, "shape": sizes(t.shape, workload.dims), "dtype": t.dtype, "formula": t.formula, "seed": t.seed}
        for name, t in workload.inputs.items()
    ]
    return {"inputs": made, "dims": dict(workload.dims)}


def add_inputs(graph: Graph, workload: Entry[Workload]) -> str:
    """Add the action that makes a workload's inputs; its outputs have the inputs' names."""
    return graph.add(
        f"inputs/{workload.name}",
        tool="inputs",
        stage="import",
        environment="numpy",
        params=inputs_params(workload.document),
        inputs={},
        outputs={name: f"{name}.npy" for name in workload.document.inputs},
    )


def signature(workload: Workload) -> dict[str, Any]:
    """What an ingress must know of a workload: inputs and outputs, with the positions of dimensions left open."""

    def described(tensors: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "shape": sizes(tensor.shape, workload.dims),
                "dtype": tensor.dtype,
                "dynamic": [axis for axis, size in enumerate(tensor.shape) if size in workload.dynamic],
            }
            for name, tensor in tensors.items()
        ]

    return {
        "inputs": described(workload.inputs),
        "outputs": described(workload.outputs),
        "dims": dict(workload.dims),
        "dim_names": {name: [str(size) for size in tensor.shape] for name, tensor in workload.inputs.items()},
    }


class _Planner:
    """Adds tests to one graph; remembers what an earlier test already added."""

    def __init__(self, catalog: Catalog, tolerate: Tolerate, swaps: Mapping[str, str]) -> None:
        self._swaps = swaps
        self.graph = Graph()
        self._catalog = catalog
        self._tolerate = tolerate
        self._made: dict[Any, Any] = {}

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
        for step in test.road.steps:
            artifact = self._step(step, artifact)
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

    def _step(self, use: RoadStep, artifact: Input) -> Produced:
        spec = self._once(("step", use), lambda: self._step_spec(use))
        return self._once((use, artifact), lambda: self._new_step(use, spec, artifact))  # type: ignore[no-any-return]

    def _step_spec(self, use: RoadStep) -> tuple[dict[str, Any], dict[str, Input]]:
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
        return params, files

    def _new_step(self, use: RoadStep, spec: tuple[dict[str, Any], dict[str, Input]], artifact: Input) -> Produced:
        step: Step = self._catalog.steps[use.name].document
        params, files = spec
        output = "ir" if step.tool in _KEEPS_IR else use.gives
        action = self.graph.add(
            use.name,
            tool=step.tool,
            stage=step.stage,
            environment=step.environment,
            params=params,
            inputs={"ir": artifact, **files},
            outputs={output: self._catalog.kinds[use.gives].document.file},
            native=step.native,
        )
        return Produced(action, output)

    def _link(self, kernel: Produced, target: str) -> Produced:
        document = self._catalog.targets[target].document
        kit = self._once(("kit", target), lambda: self._kit(document.triple, document.linker_environment))
        action = self.graph.add(
            "link",
            tool="link",
            stage="codegen",
            environment=document.linker_environment,
            params={},
            inputs={"object": kernel, **kit},
            outputs={"kernel": "kernel"},
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
        made = self._once(("inputs", workload.name), lambda: add_inputs(self.graph, workload))
        described = self._signature(workload)
        return self.graph.add(
            f"run/{workload.name}",
            tool="run",
            stage="run",
            environment=self._catalog.targets[target].document.runner_environment,
            params={"arguments": described["inputs"], "results": described["outputs"]},
            inputs={"kernel": kernel, **{f"arg-{name}": Produced(made, name) for name in workload.document.inputs}},
            outputs={f"out-{name}": f"{name}.npy" for name in workload.document.outputs},
        )

    def _judge(self, test: Test, workload: Entry[Workload], results: str) -> str:
        outputs = []
        files: dict[str, Input] = {}
        for name, output in workload.document.outputs.items():
            bound = self._tolerate(test, name)
            outputs.append(
                {
                    "name": name,
                    "dtype": output.dtype,
                    "shape": sizes(output.shape, workload.document.dims),
                    "compare": output.compare,
                    "atol": bound.atol,
                    "rtol": bound.rtol,
                    "atol_text": bound.atol_text,
                    "rtol_text": bound.rtol_text,
                    "layer": bound.location,
                    "rationale": bound.rationale,
                }
            )
            files[f"actual-{name}"] = Produced(results, f"out-{name}")
            files[f"expected-{name}"] = file_of(
                self._catalog, workload.root, workload.golden / f"{name}.npy", optional=True
            )
        return self.graph.add(
            f"judge/{workload.name}",
            tool="judge",
            stage="judge",
            environment="numpy",
            params={"outputs": outputs},
            inputs=files,
            outputs={"verdict": "verdict.json"},
        )

    def _ir_test(self, test: Test) -> str:
        entry = self._catalog.steps[test.pipeline]
        case = file_of(self._catalog, entry.root, entry.cases[test.workload])
        result = self._step(self._once(("alone", entry.name), lambda: _alone(entry)), case)
        return self.graph.add(
            f"filecheck/{entry.name}/{test.workload}",
            tool="irtest",
            stage="judge",
            environment="filecheck",
            params={},
            inputs={"ir": result, "test": case},
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
