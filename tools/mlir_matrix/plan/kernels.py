"""What runs an artifact on a target: the kit that it is linked with or called by, and the call itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models import Workload
from mlir_matrix.expansion import Test
from mlir_matrix.plan.graph import File, Graph, Input, Produced
from mlir_matrix.plan.once import Once
from mlir_matrix.plan.workloads import add_inputs, plain, signature
from mlir_matrix.roads import Road

#: The one driver, relative to this repository: kernels of every catalog are linked with it.
DRIVER_SOURCES = tuple(
    f"tools/driver/{name}"
    for name in (
        "call.c", "call.h", "driver.c", "driver.h", "fail.c", "fail.h", "jit.c", "main.c", "memory.c", "memory.h",
        "memref.c", "memref.h", "missing.c", "npy.c", "npy.h", "spec.c", "spec.h",
    )
)  # fmt: skip
_NO_PARAMS: Mapping[str, Any] = {}
_KERNEL = {"kernel": "kernel"}


class _Inputs(NamedTuple):
    """What a run is given: a draw, the sizes of the dimensions, arguments instead of those that are drawn."""

    draw: int
    sizes: tuple[int, ...]
    arguments: tuple[tuple[str, Produced], ...]


class Kernels:
    """Adds links and runs to a graph; tests that differ in nothing that a run is told share it."""

    def __init__(self, catalog: Catalog, graph: Graph, numpy: str) -> None:
        """``numpy`` is the environment that makes inputs."""
        self._catalog, self._graph, self._numpy = catalog, graph, numpy
        self._once = Once()

    def run(
        self,
        artifact: Produced,
        test: Test,
        workload: Entry[Workload],
        *,
        draw: int = 0,
        arguments: Mapping[str, Produced] | None = None,
    ) -> str:
        """The action that calls a kernel with inputs of draw ``draw``. Tests that differ in nothing that it is told share it.

        ``arguments``: by input, instead of those of the draw.
        """
        road = test.road
        assert road is not None
        # What only some targets are told of a pipeline: those that generate code as they run it.
        values = self._catalog.pipelines[test.pipeline].document.codegen
        given = _Inputs(draw, tuple(workload.document.dims.values()), tuple((arguments or {}).items()))
        key = ("run", artifact, test.target, test.workload, road.linker, road.runner, tuple(values.items()), given)
        return self._once(key, lambda: self._new_run(artifact, test.target, road, workload, values, given))  # type: ignore[no-any-return]

    def _new_run(
        self,
        artifact: Produced,
        target: str,
        road: Road,
        workload: Entry[Workload],
        values: Mapping[str, Any],
        given: _Inputs,
    ) -> str:
        document = self._catalog.targets[target].document
        running = ("running", workload.name, document.runner, given)
        arguments, params, outputs = self._once(running, lambda: self._running(workload, document.runner, given))
        jit = document.tool == "run_jit"
        if jit:
            library = self._once(
                ("library", target, road.linker),
                lambda: self._kit(document.triple, road.linker, "library", "driver.so"),
            )
            told = {"parameters": {name: plain(value) for name, value in values.items()}}
            compiling = ("compile", artifact, library, road.runner, tuple(values.items()))
            compiled = self._once(compiling, lambda: self._compile(artifact, library, road.runner, told))
            kernel = {"ir": compiled, "driver": library}
            params = self._once((*running, tuple(values.items())), lambda: {**params, **told})
        else:
            key = ("link", artifact, target, road.linker)
            kernel = {"kernel": self._once(key, lambda: self._link(artifact, document.triple, road.linker))}
        return self._graph.add(
            f"run/{workload.name}",
            tool=document.tool,
            stage="run",
            environment=road.runner,
            params=params,
            inputs={**kernel, **arguments},
            outputs=outputs,
            native=jit,
        )

    def _compile(self, ir: Produced, library: Produced, environment: str, params: Mapping[str, Any]) -> Produced:
        """An action of its own: an action has one stage, and what cannot be compiled is no failure of the run."""
        action = self._graph.add(
            "compile",
            tool="compile_jit",
            stage="codegen",
            environment=environment,
            params=params,
            inputs={"ir": ir, "driver": library},
            outputs={"ir": "kernel.mlir"},
            native=True,
        )
        return Produced(action, "ir")

    def _link(self, kernel: Produced, triple: str, environment: str) -> Produced:
        # Two actions: the driver changes, the C library does not.
        kit = self._once(
            ("kit", triple, environment),
            lambda: {name: self._kit(triple, environment, name, f"{name}.o") for name in ("runtime", "driver")},
        )
        action = self._graph.add(
            "link",
            tool="link",
            stage="codegen",
            environment=environment,
            params=_NO_PARAMS,
            inputs={"object": kernel, **kit},
            outputs=_KERNEL,
        )
        return Produced(action, "kernel")

    def _kit(self, triple: str, environment: str, name: str, file: str) -> Produced:
        """A part of what every kernel of a target is linked with or called by."""
        sources = {} if name == "runtime" else {Path(path).name: File(0, path) for path in DRIVER_SOURCES}
        action = self._graph.add(
            f"{name}/{triple}",
            tool="link_kit",
            stage="codegen",
            environment=environment,
            params={"triple": triple},
            inputs=sources,
            outputs={name: file},
        )
        return Produced(action, name)

    def _running(
        self, workload: Entry[Workload], runner: Sequence[str], given: _Inputs
    ) -> tuple[dict[str, Input], dict[str, Any], dict[str, str]]:
        """What all runs of a workload have in common: the arguments' files, the parameters, the outputs."""
        made = dict(given.arguments) or self._drawn(workload, given.draw)
        described = signature(workload.document)
        params = {"arguments": described["inputs"], "results": described["outputs"]}
        return (
            {f"arg-{name}": made[name] for name in workload.document.inputs},
            params | ({"runner": list(runner)} if runner else {}),
            {f"out-{name}": f"{name}.npy" for name in workload.document.outputs},
        )

    def _drawn(self, workload: Entry[Workload], draw: int) -> dict[str, Produced]:
        made = add_inputs(self._graph, workload, self._numpy, draw=draw)
        return {name: Produced(made, name) for name in workload.document.inputs}
