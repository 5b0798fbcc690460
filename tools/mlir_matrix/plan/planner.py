"""From chosen tests to the graph of actions that they need. Tests that share a prefix share its actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mlir_matrix.actions.params import ImportParams, JudgeParams, NoParams, PassesParams, StepParams
from mlir_matrix.actions.runtime.template import fill
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.golden_files import golden_name, is_sketched
from mlir_matrix.catalog.models.base import ParameterValue, Step, Workload
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import KEEPS_IR, Recipe
from mlir_matrix.expand.roads import Argument, Road, RoadStep
from mlir_matrix.plan.goldens import add_expected
from mlir_matrix.plan.graph import File, Graph, Input, Produced
from mlir_matrix.plan.once import Once
from mlir_matrix.plan.parameters import VERDICT, choose_backend, file_of, judged, like_outputs, plain, signature
from mlir_matrix.plan.properties import Laws, Tolerate
from mlir_matrix.plan.run_kernels import Kernels

#: What many actions share is one object.
_NO_PARAMS: NoParams = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The tests of a run, and for each that can run the action that gives its verdict."""

    tests: tuple[Test, ...]
    graph: Graph
    #: Test identifier to the identifier of its last action.
    verdicts: Mapping[str, str]


def make_plan(catalog: Catalog, tests: Iterable[Test], tolerate: Tolerate, *, pins: Pins | None = None) -> Plan:
    """Plan the tests, which are those chosen. Decided ones (unsupported) need no action.

    ``pins`` are those that a person asks for; actions keep the names of environments that the recipes use.
    """
    planner = Planner(catalog, tolerate, pins or Pins(catalog))
    chosen = tuple(tests)
    verdicts = {test.id: planner.add(test) for test in chosen if test.outcome is None}
    return Plan(tests=chosen, graph=planner.graph, verdicts=verdicts)


@dataclass(slots=True, eq=False, kw_only=True)
class _Use:
    """A step with its parameters, as roads use it: what its actions have in common, and those that are there already."""

    name: str
    step: Step
    recipe: Recipe
    params: StepParams
    files: Mapping[str, Input]
    #: What it gives: the name of the output, and its file; and whether that depends on the CPU of this machine.
    output: str
    outputs: Mapping[str, str]
    native: bool
    #: By what comes in.
    made: dict[Input, Produced] = field(default_factory=dict)


class Planner:
    """Adds tests to one graph; remembers what an earlier test already added."""

    def __init__(self, catalog: Catalog, tolerate: Tolerate, pins: Pins) -> None:
        #: Of what no test's identifier can vary: inputs and judging.
        self._numpy, self._filecheck = pins.reference("numpy"), pins.reference("filecheck")
        self.graph = Graph()
        self._catalog = catalog
        self._tolerate = tolerate
        self._once = Once()
        self._kernels = Kernels(catalog, self.graph, self._numpy)
        self._laws = Laws(self, catalog, tolerate, self._numpy)
        #: By identity, because tests of a cell share their road, and comparing roads costs more than planning a step.
        self._roads: dict[int, tuple[Road, tuple[_Use, ...]]] = {}
        self._uses: dict[RoadStep, _Use] = {}

    def add(self, test: Test) -> str:
        """Add what a test needs and return its last action."""
        if test.relation is not None:
            return self._laws.add(test)
        return self._ir_test(test) if test.is_ir else self._execution_test(test)

    def _execution_test(self, test: Test) -> str:
        artifact = self.lower(test, 0, self.enter(test))
        return self.judge(test, self.run(test, artifact))

    def enter(self, test: Test, workload: Entry[Workload] | None = None) -> Produced:
        """What a test's framework makes of its workload; ``workload``: the same with dimensions of other sizes."""
        assert test.road is not None
        return self._import(test.framework, test.road, workload or self._catalog.workloads[test.workload])

    def lower(self, test: Test, begin: int, artifact: Produced, end: int | None = None) -> Produced:
        """What the steps of a test's road from number ``begin`` to before ``end`` (None: all) make of an artifact."""
        assert test.road is not None
        for use in self._uses_of(test.road)[begin:end]:
            artifact = use.made.get(artifact) or self._new_step(use, artifact)
        return artifact

    def run(
        self,
        test: Test,
        artifact: Produced,
        *,
        draw: int = 0,
        workload: Entry[Workload] | None = None,
        arguments: Mapping[str, Produced] | None = None,
    ) -> str:
        """The action that calls a kernel, with the inputs of draw ``draw``; its outputs are ``out-NAME``.

        ``workload``: the test's own with dimensions of other sizes; ``arguments``: by input, instead of those of the draw.
        """
        entry = workload or self._catalog.workloads[test.workload]
        return self._kernels.run(artifact, test, entry, draw=draw, arguments=arguments)

    def run_draws(self, test: Test, artifact: Produced, draws: Sequence[int]) -> str:
        """The one action that calls a kernel with the inputs of several draws; its outputs are ``out-DRAW-NAME``, ``failures``."""
        return self._kernels.run_draws(artifact, test, self._catalog.workloads[test.workload], draws)

    def judging(self, test: Test) -> JudgeParams:
        """What the judge of a test is told: its outputs with the tolerances that win."""
        workload = self._catalog.workloads[test.workload]
        bounds = tuple(self._tolerate(test, name) for name in workload.document.outputs)
        # Tests of a workload that the same layers apply to are judged by the same parameters.
        key = (test.workload, tuple((bound.location, bound.atol, bound.rtol) for bound in bounds))
        return self._once(key, lambda: {"outputs": judged(self._catalog, workload.document, bounds)})  # type: ignore[no-any-return]

    def _import(self, framework: str, road: Road, workload: Entry[Workload]) -> Produced:
        key = (framework, road.kind, workload.name, road.ingress.environment, *workload.document.dims.values())
        return self._once(key, lambda: self._new_import(framework, road, workload))  # type: ignore[no-any-return]

    def _new_import(self, framework: str, road: Road, workload: Entry[Workload]) -> Produced:
        source = file_of(self._catalog, workload.root, workload.files[road.source])
        params = self._signature(workload).copy()
        choose_backend(params, road.ingress)
        action = self.graph.add(
            f"import/{framework}/{workload.name}",
            tool=road.ingress.tool,
            stage="import",
            environment=road.ingress.environment,
            params=params,
            inputs={"source": source},
            outputs={"ir": self._catalog.kinds[road.kind].document.file},
        )
        return Produced(action, "ir")

    def _signature(self, workload: Entry[Workload]) -> ImportParams:
        key = ("signature", workload.name, *workload.document.dims.values())
        return self._once(key, lambda: signature(workload.document))  # type: ignore[no-any-return]

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
        recipe = use.recipe
        params: StepParams = {}
        choose_backend(params, recipe)
        if recipe.passes is not None:
            params = PassesParams(**params, passes=fill(" ".join(recipe.passes.split()), use.parameters))
        if step.tool != "passes" or recipe.schedule is not None:
            params["parameters"] = {name: plain(value) for name, value in use.parameters.items()}
        files: dict[str, Input] = {
            name: file_of(self._catalog, entry.root, entry.folder / path)
            for name, path in (
                ("schedule", recipe.schedule),
                ("patterns", recipe.patterns),
                ("directives", step.directives),
            )
            if path is not None
        }
        # What others give is called by its kind (``object``).
        output = "ir" if recipe.tool in KEEPS_IR else use.gives
        outputs = {output: self._catalog.kinds[use.gives].document.file}
        native = _is_native(step, recipe, use.parameters)
        return _Use(
            name=use.name, step=step, recipe=recipe, params=params, files=files, output=output, outputs=outputs, native=native,
        )  # fmt: skip

    def _new_step(self, use: _Use, artifact: Input) -> Produced:
        action = self.graph.add(
            use.name,
            tool=use.recipe.tool,
            stage=use.step.stage,
            environment=use.recipe.environment,
            params=use.params,
            inputs={"ir": artifact, **use.files},
            outputs=use.outputs,
            native=use.native,
        )
        made = use.made[artifact] = Produced(action, use.output)
        return made

    def judge(self, test: Test, results: str, expected: Mapping[str, Input] | None = None) -> str:
        """The action that judges what a run gave; ``expected``: by output, instead of the goldens."""
        workload = self._catalog.workloads[test.workload]
        names = workload.document.outputs
        params = self.judging(test)
        right = expected or self._once(("golden", test.workload), lambda: self._goldens(workload))
        files: dict[str, Input] = {}
        if expected is None:
            files |= self._once(("arguments", test.workload), lambda: like_outputs(self.graph, workload, self._numpy))
        for name, output in names.items():
            sketched = expected is None and is_sketched(workload.document, output)
            files[f"actual-{name}"] = Produced(results, f"out-{name}")
            files[f"{'sketch' if sketched else 'expected'}-{name}"] = right[name]
        return self.graph.add(
            f"judge/{workload.name}",
            tool="judge",
            stage="judge",
            environment=self._numpy,
            params=params,
            inputs=files,
            outputs=VERDICT,
        )

    def _goldens(self, workload: Entry[Workload]) -> Mapping[str, Input]:
        if workload.document.golden == "computed":
            return add_expected(self.graph, self._catalog, workload, self._numpy)
        return {
            name: file_of(
                self._catalog, workload.root, workload.golden / golden_name(workload.document, name), optional=True
            )
            for name in workload.document.outputs
        }

    def _ir_test(self, test: Test) -> str:
        return self.check(test, self.alone(test))

    def alone(self, test: Test) -> Produced:
        """What the step of an IR test makes of the test's IR."""
        entry, recipe = self._catalog.steps[test.pipeline], test.recipe
        assert recipe is not None
        use = self._once(("alone", entry.name), lambda: self._new_use(_alone(entry, recipe)))
        return self._new_step(use, self._case(test))

    def check(self, test: Test, ir: Produced) -> str:
        """The action that holds IR against the directives of an IR test."""
        return self.graph.add(
            f"filecheck/{test.pipeline}/{test.workload}",
            tool="irtest",
            stage="judge",
            environment=self._filecheck,
            params=_NO_PARAMS,
            inputs={"ir": ir, "test": self._case(test)},
            outputs={"report": "report.json"},
        )

    def printed(self, test: Test) -> str:
        """The action that prints the IR of an IR test as MLIR does, whatever the file calls its values."""
        recipe = test.recipe
        assert recipe is not None
        params: PassesParams = {"passes": ""}
        choose_backend(params, recipe)
        return self.graph.add(
            "printed",
            tool=recipe.tool,
            stage="lower",
            environment=recipe.environment,
            params=params,
            inputs={"ir": self._case(test)},
            outputs={"ir": "input.mlir"},
        )

    def _case(self, test: Test) -> File:
        entry = self._catalog.steps[test.pipeline]
        return file_of(self._catalog, entry.root, entry.cases[test.workload])


def _is_native(step: Step, recipe: Recipe, parameters: Mapping[str, ParameterValue]) -> bool:
    """Bindings cannot but generate code for the CPU that they are on; programs do so where they are told, else for any."""
    by_programs = recipe.tool == "object" and recipe.backend == "programs"
    return parameters.get("cpu") == "native" if by_programs else step.native


def _alone(entry: Entry[Step], recipe: Recipe) -> RoadStep:
    """A step as its IR tests use it: by itself, with the defaults of its parameters."""
    step = entry.document
    arguments = tuple(
        Argument(name, parameter.default, entry.source.position("parameters", name, "default"), default=True)
        for name, parameter in step.parameters.items()
    )
    takes = step.accepts[0]
    return RoadStep(entry.name, takes, step.gives or takes, arguments, entry.source.position(), recipe)
