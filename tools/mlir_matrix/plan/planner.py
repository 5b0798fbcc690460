"""Plan chosen tests as a graph of actions. Tests that share a prefix share its actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import IrTestParams, JudgeParams, NoParams, PassesParams, ProgramJudgeParams
from mlir_matrix.actions.runtime.prepared import EXPECTED, INTERFACE, RESULTS
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.golden_files import golden_name, is_sketched
from mlir_matrix.catalog.models.base import FLOATS, Workload
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import filecheck_of
from mlir_matrix.plan.chains import Chains
from mlir_matrix.plan.costs import CostPlanner, PlannedCosts, has_costs
from mlir_matrix.plan.graph import File, Graph, Input, Produced, cached
from mlir_matrix.plan.parameters import (
    VERDICT,
    bounds_of,
    choose_backend,
    file_of,
    judged,
    label,
    like_outputs,
)
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.properties import PropertyPlanner, Tolerate
from mlir_matrix.plan.references import add_error_bounds, add_expected

#: One object that many actions share.
_NO_PARAMS: NoParams = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTests:
    """The tests of a run and, for each test that can run, the action that gives its verdict."""

    tests: tuple[Test, ...]
    graph: Graph
    #: Test identifier to the identifier of its last action.
    verdicts: Mapping[str, str]
    #: By test: what counts its costs, where they are asked for.
    costs: Mapping[str, PlannedCosts] = field(default_factory=dict)

    def needed_by(self, test: str) -> list[str]:
        """Return the actions of a test, sources first; none for one that cannot run."""
        last = self.verdicts.get(test)
        return self.graph.needed_by(last) if last else []

    def only(self, tests: Iterable[Test]) -> PlannedTests:
        """Return the plan with the actions of some of its tests only. It still lists the others."""
        chosen = tuple(tests)
        verdicts = {test.id: self.verdicts[test.id] for test in chosen if test.id in self.verdicts}
        costs = {test.id: self.costs[test.id] for test in chosen if test.id in self.costs}
        needed = {*verdicts.values(), *(each.action for each in costs.values())}
        # Sources come before the actions that need them.
        for name, action in reversed(self.graph.actions.items()):
            if name in needed:
                needed.update(action.sources)
        actions = {name: action for name, action in self.graph.actions.items() if name in needed}
        return PlannedTests(tests=chosen, graph=Graph(actions), verdicts=verdicts, costs=costs)


def make_plan(catalog: Catalog, tests: Iterable[Test], tolerate: Tolerate, *, pins: Pins | None = None) -> PlannedTests:
    """Plan the chosen tests. Unsupported ones need no action.

    ``pins`` come from the command line; actions keep the names of environments that the recipes use.
    """
    pins = pins or Pins(catalog)
    planner, chosen = Planner(catalog, tolerate, pins), tuple(tests)
    verdicts = {test.id: planner.add(test) for test in chosen if test.outcome is None}
    counting = CostPlanner(planner.chains, catalog, pins)
    costs = {
        test.id: counting.add(test, verdicts[test.id])
        for test in chosen
        if test.cost is not None and test.id in verdicts and has_costs(test)
    }
    return PlannedTests(tests=chosen, graph=planner.graph, verdicts=verdicts, costs=costs)


class Planner:
    """Adds tests to one graph, in which tests share actions."""

    def __init__(self, catalog: Catalog, tolerate: Tolerate, pins: Pins) -> None:
        #: The environments of inputs and judges, which the pins of an identifier cannot change.
        self._numpy, self._filecheck = pins.reference("numpy"), pins.reference("filecheck")
        self.graph = Graph()
        self.chains = Chains(catalog, self.graph, self._numpy, pins)
        self._catalog = catalog
        self._tolerate = tolerate
        self._properties = PropertyPlanner(self.chains, catalog, tolerate, self._numpy)
        #: Parameters of judges, by workload and layers.
        self._judging: dict[tuple[str, tuple[tuple[str, float, float], ...]], JudgeParams] = {}
        self._program_judging: dict[tuple[tuple[str, float, float], ...], ProgramJudgeParams] = {}
        #: By workload: its goldens, and the inputs with the shape and dtype of an output.
        self._goldens: dict[str, Mapping[str, Input]] = {}
        self._like: dict[str, dict[str, Produced]] = {}
        #: By workload: the action that derives its bounds.
        self._derived: dict[str, str] = {}

    def add(self, test: Test) -> str:
        """Add the actions of a test and return the last one."""
        if test.tested_property is not None:
            return self._properties.add(test)
        if test.is_ir:
            return self.check_ir(test)
        artifact = self.chains.compile(test)
        if test.route and test.route.judges:
            return self.chains.judge_alone(test, artifact)
        if not test.executes:
            return self.check(test, self.chains.as_text(test, artifact))
        return self.judge(test, self.chains.run(test, artifact))

    def judging(self, test: Test) -> JudgeParams:
        """Return the parameters of a test's judge: its outputs with the tolerances that win."""
        workload = self._catalog.workloads[test.workload]
        bounds = tuple(self._tolerate(test, name) for name in workload.document.outputs)
        # Tests of a workload to which the same layers apply share the parameters of their judge.
        key = (test.workload, tuple((bound.location, bound.atol, bound.rtol) for bound in bounds))
        return cached(self._judging, key, lambda: {"outputs": judged(self._catalog, workload.document, bounds)})

    def judging_program(self, test: Test) -> ProgramJudgeParams:
        """Return the parameters of the judge of a program in a foreign form: the tolerances that win, by dtype."""
        bounds = {dtype: self._tolerate(test, dtype) for dtype in sorted(FLOATS)}
        key = tuple((bound.location, bound.atol, bound.rtol) for bound in bounds.values())
        if key not in self._program_judging:
            made = {dtype: bounds_of(self._catalog, bound) for dtype, bound in bounds.items()}
            self._program_judging[key] = {"outputs": [], "bounds": made}
        return self._program_judging[key]

    def judge_program(self, test: Test, results: str, draw: int = 0) -> str:
        """Add the action that judges a program in a foreign form, whose own code declares its outputs."""
        workload = self._catalog.workloads[test.workload]
        prepared = self.chains.prepare(test, workload, draw)
        return self.graph.add(
            f"judge/{label(workload)}",
            tool="judge",
            stage=Stage.JUDGE,
            environment=self._numpy,
            params=self.judging_program(test),
            inputs={
                **{name: Produced(prepared, name) for name in (INTERFACE, EXPECTED)},
                RESULTS: Produced(results, RESULTS),
            },
            outputs=VERDICT,
        )

    def judge(self, test: Test, results: str, expected: Mapping[str, Input] | None = None) -> str:
        """Add the action that judges the outputs of a run; ``expected``: by output, instead of the goldens."""
        workload = self._catalog.workloads[test.workload]
        if is_prepared(self._catalog, workload):
            return self.judge_program(test, results)
        params = self.judging(test)
        goldens = expected or cached(self._goldens, test.workload, lambda: self._new_goldens(workload))
        files: dict[str, Input] = {}
        if expected is None:
            like = cached(self._like, test.workload, lambda: like_outputs(self.graph, workload, self._numpy))
            files.update(like)
        for (name, output), spec in zip(workload.document.outputs.items(), params["outputs"], strict=True):
            sketched = expected is None and is_sketched(workload.document, output)
            files[Role.ACTUAL.of(name)] = Produced(results, Role.RESULT.of(name))
            if expected is None and not sketched and spec.get("derived"):
                derived = cached(self._derived, test.workload, lambda: self.derived(workload))
                bound = Role.BOUND.of(name)
                files[bound] = Produced(derived, bound)
            role = Role.SKETCH if sketched else Role.EXPECTED
            files[role.of(name)] = goldens[name]
        return self.graph.add(
            f"judge/{workload.name}",
            tool="judge",
            stage=Stage.JUDGE,
            environment=self._numpy,
            params=params,
            inputs=files,
            outputs=VERDICT,
        )

    def derived(self, workload: Entry[Workload], draw: int = 0) -> str:
        """Add the action that derives the bound of each element of a workload's outputs."""
        return add_error_bounds(self.graph, self._catalog, workload, self._numpy, draw)

    def _new_goldens(self, workload: Entry[Workload]) -> Mapping[str, Input]:
        if workload.document.golden == "computed":
            # At the judge's stage, because its failure is no failure of a program under test.
            return add_expected(self.graph, self._catalog, workload, self._numpy, stage=Stage.JUDGE)
        paths = {name: workload.golden / golden_name(workload.document, name) for name in workload.document.outputs}
        return {name: file_of(self._catalog, workload.root, path, optional=True) for name, path in paths.items()}

    def alone(self, test: Test) -> Produced:
        """Apply the step of an IR test to the test's IR."""
        assert test.resolved_step is not None
        return self.chains.step(test.pipeline, test.resolved_step, self._case(test))

    def check_ir(self, test: Test, ir: Produced | None = None) -> str:
        """Add the actions of an IR test: the step and FileCheck, once for each RUN line. ``ir``: only check this IR."""
        resolved_step, case, params = test.resolved_step, self._case(test), IrTestParams()
        assert resolved_step is not None
        runs = self._catalog.steps[test.pipeline].runs.get(test.workload, ())
        irs = [self.chains.step(test.pipeline, resolved_step, case, run.values) for run in runs]
        if runs:
            params["runs"] = [{"line": run.line, "options": list(run.options)} for run in runs]
        owner = filecheck_of(self._catalog, resolved_step)
        if owner:
            params["filecheck"] = owner
        irs = [ir] if ir else irs or [self.alone(test)]
        return self.graph.add(
            f"filecheck/{test.pipeline}/{test.workload}",
            tool="irtest",
            stage=Stage.JUDGE,
            environment=resolved_step.environment if owner else self._filecheck,
            params=params,
            inputs={**{f"ir-{number}" if number else "ir": each for number, each in enumerate(irs)}, "test": case},
            outputs={"report": "report.json"},
        )

    def check(self, test: Test, artifact: Input) -> str:
        """Add the action that checks the text of an artifact by the directives of its target."""
        entry = self._catalog.targets[test.target]
        return self.graph.add(
            f"filecheck/{test.target}/{test.workload}",
            tool="irtest",
            stage=Stage.JUDGE,
            environment=self._filecheck,
            params=_NO_PARAMS,
            inputs={
                "ir": artifact,
                "test": file_of(self._catalog, entry.root, entry.folder / str(entry.document.directives)),
            },
            outputs={"report": "report.json"},
        )

    def printed(self, test: Test) -> str:
        """Add the action that prints the IR of an IR test in MLIR's own form, with MLIR's value names."""
        resolved_step = test.resolved_step
        assert resolved_step is not None
        params: PassesParams = {"passes": ""}
        choose_backend(params, resolved_step)
        return self.graph.add(
            "printed",
            tool=resolved_step.tool,
            stage=Stage.LOWER,
            environment=resolved_step.environment,
            params=params,
            inputs={"ir": self._case(test)},
            outputs={"ir": "input.mlir"},
        )

    def _case(self, test: Test) -> File:
        entry = self._catalog.steps[test.pipeline]
        return file_of(self._catalog, entry.root, entry.cases[test.workload])
