"""Add the actions that link a kernel with its driver and run it on a target."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import (
    CodegenParams,
    JudgesParams,
    LinkKitParams,
    NoParams,
    RunParams,
    RunToolParams,
    ToolParams,
)
from mlir_matrix.actions.runtime.prepared import ARGUMENTS, INTERFACE, RESULTS
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import CHECK, Target, Workload
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.routes import Route
from mlir_matrix.plan.graph import File, Graph, Input, Produced, cached
from mlir_matrix.plan.parameters import (
    VERDICT,
    add_inputs,
    file_of,
    json_value,
    label,
    signature,
    tool_files,
    tool_params,
)
from mlir_matrix.plan.programs import add_prepared, is_prepared

_DRIVER = "tools/driver/"
_COMMON_SOURCES = (
    "call.c", "call.h", "fail.c", "fail.h", "memref.c", "memref.h", "missing.c", "npy.c", "npy.h", "spec.c", "spec.h",
)  # fmt: skip
#: The driver, relative to this repository. Kernels of every catalog are linked with it.
DRIVER_SOURCES = tuple(
    f"{_DRIVER}{name}"
    for name in sorted(
        (*_COMMON_SOURCES, "driver.c", "driver.h", "jit.c", "main.c", "memory.c", "memory.h", "system.c", "system.h")
    )
)
#: The driver that measures kernels. The other forms do not read it, so that their keys stay where it changes.
BENCH_SOURCES = tuple(f"{_DRIVER}{name}" for name in sorted((*_COMMON_SOURCES, "arena.c", "arena.h", "bench.c")))
_KIT_SOURCES = {"runtime": (), "driver": DRIVER_SOURCES, "library": DRIVER_SOURCES, "bench": BENCH_SOURCES}
#: The tool of targets that compile a kernel in memory and call it there.
JIT = "run_jit"
_NO_PARAMS: NoParams = {}
_KERNEL = {"kernel": "kernel"}
#: Files of arguments, parameters, outputs.
_Shared = tuple[dict[str, Input], RunParams, dict[str, str]]
#: The tool of a :class:`TimedProgram` that is an executable, linked with ``tools/driver/bench.c``.
BENCH = "bench"


@dataclass(frozen=True, kw_only=True)
class TimedProgram:
    """What a run calls, to be timed: :data:`BENCH`, or the tool of the run, which then times itself."""

    tool: str
    environment: str
    params: RunParams
    #: ``kernel`` or ``artifact``, and arguments, by the names that the tool reads.
    inputs: Mapping[str, Input]
    outputs: Mapping[str, str]


class Kernels:
    """Adds links and runs to a graph. Tests with equal parameters and inputs share a run."""

    def __init__(self, catalog: Catalog, graph: Graph, numpy: str, pins: Pins) -> None:
        """``numpy`` is the environment that makes inputs."""
        self.graph = graph
        self._catalog, self._numpy, self._pins = catalog, numpy, pins
        #: Programs in a foreign form, by workload, draw and pins.
        self._prepared: dict[tuple[str, int, str], str] = {}
        self._runs: dict[tuple[object, ...], str] = {}
        #: Arguments, parameters and outputs of a workload on a target, and the parameters with a pipeline's values.
        self._shared: dict[tuple[object, ...], _Shared] = {}
        self._tool_params: dict[tuple[object, ...], RunParams] = {}
        #: Parameters and files of a target's own tool, by target, kind and a pipeline's values.
        self._own: dict[tuple[object, ...], tuple[ToolParams, dict[str, Input]]] = {}
        self._links: dict[tuple[Input, str, str, str], Produced] = {}
        #: Parts of the driver, by name, triple and environment.
        self._kits: dict[tuple[str, str, str], Produced] = {}

    def run(
        self,
        test: Test,
        artifact: Input,
        *,
        draw: int = 0,
        workload: Entry[Workload] | None = None,
        arguments: Mapping[str, Produced] | None = None,
    ) -> str:
        """Add the action that calls a kernel with the inputs of draw ``draw``; its outputs are ``out-NAME``.

        ``workload``: that of the test with other sizes of dimensions. ``arguments``: by input, instead of those of the draw.
        Tests with equal parameters and inputs share the action.
        """
        route = test.known_route
        entry = workload or self._catalog.workloads[test.workload]
        # Only a target that generates code when it runs a kernel reads these.
        values = self._catalog.pipelines[test.pipeline].document.codegen
        given = (draw, *entry.document.dims.values(), *(arguments or {}).items())
        key = (artifact, test.target, test.workload, route.linker, route.runner, tuple(values.items()), given)
        if key in self._runs:
            return self._runs[key]
        files, params, outputs = self._shared_parts(test, entry, draw, arguments)
        kernel: dict[str, Input]
        if route.runner.tool == "run":
            kernel = {"kernel": self._linked(artifact, test.target, route)}
            native = bool(self._catalog.targets[test.target].document.devices)
        else:
            kernel, params, native = self._own_parts(test, artifact, params)
        self._runs[key] = self.graph.add(
            f"run/{label(entry)}",
            tool=route.runner.tool,
            stage=Stage.RUN,
            environment=route.runner.environment,
            params=params,
            inputs={**kernel, **files},
            outputs=outputs,
            native=native,
        )
        return self._runs[key]

    def bench(self, test: Test, artifact: Input) -> TimedProgram:
        """Add the actions that make a kernel which can be timed, on the inputs of draw 0, and return how to call it."""
        route, entry = test.known_route, self._catalog.workloads[test.workload]
        files, params, outputs = self._shared_parts(test, entry, 0, None)
        kernel: dict[str, Input]
        if route.runner.tool == "run":
            tool, kernel = BENCH, {"kernel": self._linked(artifact, test.target, route, "bench")}
        else:
            tool = route.runner.tool
            kernel, params, _ = self._own_parts(test, artifact, params)
        return TimedProgram(
            tool=tool,
            environment=route.runner.environment,
            params=params,
            inputs={**kernel, **files},
            outputs=outputs,
        )

    def without_timer(self, test: Test) -> str:
        """Return why the program of a test cannot be timed; empty if it can, by what :meth:`bench` returns."""
        target = self._catalog.targets[test.target].document
        if test.without_outputs or test.route is None:
            return test.without_outputs
        if test.route.runner.tool == JIT:
            return f"target {test.target} compiles in memory and has no timer"
        if target.runner:
            return f"{target.runner[0]} emulates the target, and times of an emulator say nothing"
        if test.route.runner.tool != "run":
            return "" if target.timed else f"target {test.target} does not time its calls"
        workload = self._catalog.workloads[test.workload]
        if is_prepared(self._catalog, workload):
            # The driver does not read their bundle of inputs.
            return f"kernels of programs in the form {workload.document.source} are not timed"
        return ""

    def _shared_parts(
        self, test: Test, entry: Entry[Workload], draw: int, arguments: Mapping[str, Produced] | None
    ) -> _Shared:
        target = self._catalog.targets[test.target].document
        if is_prepared(self._catalog, entry):
            return self._prepared_inputs(test, entry, target, draw)
        return self._inputs(entry, target, draw, arguments)

    def _own_parts(self, test: Test, artifact: Input, common: RunParams) -> tuple[dict[str, Input], RunParams, bool]:
        """Return the kernel, the parameters and whether it is native, of a run that does not use the linked driver."""
        route, target = test.known_route, self._catalog.targets[test.target].document
        values = self._catalog.pipelines[test.pipeline].document.codegen
        settings = tuple(values.items())
        if route.runner.tool == JIT:
            library = self._kit(str(target.triple), route.linker, "library", "driver.so")
            codegen: CodegenParams = {"parameters": {name: json_value(value) for name, value in values.items()}}
            compiled = self._compile(artifact, library, route.runner.environment, codegen)
            # One object for all runs: its digest is computed once.
            params = cached(self._tool_params, (id(common), settings), lambda: RunParams(**common, **codegen))
            return {"ir": compiled, "driver": library}, params, True
        own, extra = cached(self._own, (test.target, route.ends, settings), lambda: self._new_own(test, route))
        linked = self._linked(artifact, test.target, route) if route.linker else artifact
        params = cached(self._tool_params, (id(common), id(own)), lambda: RunToolParams(**common, **own))
        return {"artifact": linked, **extra}, params, bool(target.devices) or target.native

    def prepare(self, test: Test, workload: Entry[Workload], draw: int = 0) -> str:
        """Add the action that prepares a program in a foreign form (:mod:`mlir_matrix.actions.runtime.prepared`)."""

        def add() -> str:
            pins = self._pins.override(test.pins) if test.pins else self._pins
            return add_prepared(self.graph, self._catalog, pins, workload, draw)

        return cached(self._prepared, (workload.name, draw, test.pins), add)

    def _prepared_inputs(self, test: Test, workload: Entry[Workload], target: Target, draw: int) -> _Shared:
        """Return the arguments, parameters and outputs of a prepared program, as :meth:`_inputs` does."""
        key = (workload.name, target.runner, target.devices, draw, test.pins)
        if key not in self._shared:
            made = self.prepare(test, workload, draw)
            params = _with_settings({"arguments": [], "results": []}, target)
            files: dict[str, Input] = {name: Produced(made, name) for name in (INTERFACE, ARGUMENTS)}
            self._shared[key] = files, params, {RESULTS: "results.zip"}
        return self._shared[key]

    def as_text(self, test: Test, artifact: Input) -> Input:
        """Add the action by which a compile-only target turns an artifact into text. Without such a tool, return the artifact."""
        route = test.known_route
        if route.runner.tool == CHECK:
            return artifact
        own, extra = self._new_own(test, route)
        action = self.graph.add(
            f"text/{test.target}",
            tool=route.runner.tool,
            stage=Stage.CODEGEN,
            environment=route.runner.environment,
            params=own,
            inputs={"artifact": artifact, **extra},
            outputs={"out": "artifact.txt"},
        )
        return Produced(action, "out")

    def judge_alone(self, test: Test, artifact: Input) -> str:
        """Add the action of a target whose own tool gives the verdict."""
        route = test.known_route
        own, extra = self._new_own(test, route)
        workload = self._catalog.workloads[test.workload]
        if workload.beside:
            source = file_of(self._catalog, workload.root, workload.files[route.source])
            named = {f"beside-{number}": path for number, path in enumerate(workload.beside)}
            own = JudgesParams(**own, folder=os.path.dirname(source.path), beside=named)
            extra |= {
                name: file_of(self._catalog, workload.root, workload.beside[path]) for name, path in named.items()
            }
        environment = workload.document.environment
        pins = self._pins.override(test.pins)
        return self.graph.add(
            f"{test.target}/{label(workload)}",
            tool=route.runner.tool,
            stage=Stage.RUN,
            environment=pins.reference(environment) if environment else route.runner.environment,
            params=own,
            inputs={"artifact": artifact, **extra},
            outputs=VERDICT,
            native=self._catalog.targets[test.target].document.native,
        )

    def _new_own(self, test: Test, route: Route) -> tuple[ToolParams, dict[str, Input]]:
        """Return the parameters and files of a target's own tool."""
        target = self._catalog.targets[test.target]
        values = self._catalog.pipelines[test.pipeline].document.codegen
        declared = {name: values.get(name, default) for name, default in route.runner.parameters.items()}
        if mode := target.document.mode:
            declared |= {name: value for name, value in mode[1].parameters.items() if name in declared}
        params = tool_params(route.runner, target.document, declared, route.ends)
        return params, tool_files(self._catalog, target, params)

    def run_draws(self, test: Test, artifact: Input, draws: Sequence[int]) -> dict[str, Produced]:
        """Call an artifact with the inputs of several draws. Return what a judge reads: results, and ``failures`` of a kernel.

        One action calls a linked kernel on all draws, and a failing draw does not fail it. Other kernels have one action per draw.
        """
        route, document = test.known_route, self._catalog.targets[test.target].document
        workload = self._catalog.workloads[test.workload]
        names = workload.document.outputs
        if route.runner.tool != "run":
            runs = {draw: self.run(test, artifact, draw=draw) for draw in draws}
            return {
                Role.ACTUAL.of(name, draw): Produced(run, Role.RESULT.of(name))
                for draw, run in runs.items()
                for name in names
            }
        inputs: dict[str, Input] = {"kernel": self._linked(artifact, test.target, route)}
        outputs = {"failures": "failures.json"}
        for draw in draws:
            arguments, params, results = self._inputs(workload, document, draw)
            inputs |= {Role.ARGUMENT.of(name, draw): made for name, made in Role.ARGUMENT.among(arguments).items()}
            outputs |= {Role.RESULT.of(name, draw): f"{draw}-{results[Role.RESULT.of(name)]}" for name in names}
        ran = self.graph.add(
            f"run/{workload.name}",
            tool="run",
            stage=Stage.RUN,
            environment=route.runner.environment,
            params=RunParams(**params, draws=list(draws)),
            inputs=inputs,
            outputs=outputs,
            native=bool(document.devices),
        )
        found = {"failures": Produced(ran, "failures")}
        for draw in draws:
            found |= {Role.ACTUAL.of(name, draw): Produced(ran, Role.RESULT.of(name, draw)) for name in names}
        return found

    def _compile(self, ir: Input, library: Produced, environment: str, params: CodegenParams) -> Produced:
        """Add the compilation as a separate action, because a failed compilation must not count as a failed run."""
        action = self.graph.add(
            "compile",
            tool="compile_jit",
            stage=Stage.CODEGEN,
            environment=environment,
            params=params,
            inputs={"ir": ir, "driver": library},
            outputs={"ir": "kernel.mlir"},
            native=True,
        )
        return Produced(action, "ir")

    def _linked(self, artifact: Input, target: str, route: Route, driver: str = "driver") -> Produced:
        """Link a kernel with a form of the driver, one that is an object."""
        key = (artifact, target, route.linker, driver)
        if key not in self._links:
            triple = str(self._catalog.targets[target].document.triple)
            # Two parts: the code of the driver changes often, the C library does not.
            kit = {
                "runtime": self._kit(triple, route.linker, "runtime", "runtime.o"),
                "driver": self._kit(triple, route.linker, driver, f"{driver}.o"),
            }
            action = self.graph.add(
                "link",
                tool="link",
                stage=Stage.CODEGEN,
                environment=route.linker,
                params=_NO_PARAMS,
                inputs={"object": artifact, **kit},
                outputs=_KERNEL,
            )
            self._links[key] = Produced(action, "kernel")
        return self._links[key]

    def _kit(self, triple: str, environment: str, name: str, file: str) -> Produced:
        """Return a part of the driver of a target."""
        key = (name, triple, environment)
        if key not in self._kits:
            sources = {Path(path).name: File(0, path) for path in _KIT_SOURCES[name]}
            action = self.graph.add(
                f"{name}/{triple}",
                tool="link_kit",
                stage=Stage.CODEGEN,
                environment=environment,
                params=LinkKitParams(triple=triple),
                inputs=sources,
                outputs={name: file},
            )
            self._kits[key] = Produced(action, name)
        return self._kits[key]

    def _inputs(
        self, workload: Entry[Workload], target: Target, draw: int, arguments: Mapping[str, Produced] | None = None
    ) -> _Shared:
        """Return the arguments, parameters and outputs that all runs of a workload on a draw share."""
        document = workload.document
        given = (draw, *document.dims.values(), *(arguments or {}).items())
        key = (workload.name, target.runner, target.devices, given)
        if key not in self._shared:
            made = arguments or add_inputs(self.graph, workload, self._numpy, draw=draw)
            described = signature(document)
            params = _with_settings({"arguments": described["inputs"], "results": described["outputs"]}, target)
            files: dict[str, Input] = {Role.ARGUMENT.of(name): made[name] for name in document.inputs}
            self._shared[key] = files, params, {Role.RESULT.of(name): f"{name}.npy" for name in document.outputs}
        return self._shared[key]


def _with_settings(params: RunParams, target: Target) -> RunParams:
    """Add the runner and the devices of a target, only if it has them, so that the keys of other runs do not change."""
    if target.runner:
        params["runner"] = list(target.runner)
    if target.devices:
        params["devices"] = list(target.devices)
    return params
