"""The levels of a failing test: what its importer and its steps give, and at which one a reduction begins."""

from __future__ import annotations

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.run_graph import outputs_of
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import READS_IR, ResolvedStep, resolve_step
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.plan.graph import Graph, Input, PlannedAction, Produced, add_print
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.request import Limits
from mlir_matrix.reduce.sides import DisagreementBounds, Side, side_of
from mlir_matrix.reduction.numpy_text import Untranslatable, numpy_text
from mlir_matrix.reduction.tree import Module, ParseError, parse

#: The kind of IR that has a reference in NumPy.
LINALG = "linalg"


class Levels:
    """The levels of a test in one graph: what its importer and its steps give."""

    def __init__(self, session: Session, test: Test, limits: Limits) -> None:
        """Plan a test. ``limits``: those of actions that give and print levels."""
        self._session, self._test, self._limits = session, test, limits
        self._planner = Planner(session.catalog, ToleranceResolver(session.catalog).of, session.pins)
        #: The action with the verdict.
        self.last = self._planner.add(test)
        route = test.route
        if route is None:
            (source,) = (each.inputs["ir"] for each in self._steps())
            self._sources: list[Input] = [source]
            self.kinds = [session.catalog.steps[test.pipeline].document.accepts[0]]
            self.names = ["file"]
        else:
            chains = self._planner.chains
            entered = chains.enter(test)
            self._sources = [chains.lower(test, 0, entered, number) for number in range(len(route.steps) + 1)]
            self.kinds = route.kinds
            self.names = ["import", *(step.name for step in route.steps)]

    @property
    def graph(self) -> Graph:
        return self._planner.graph

    def _steps(self) -> list[PlannedAction]:
        """Return the actions of an IR test's step. One of several RUN lines is enough: they read the same file."""
        actions = [self.graph.actions[name] for name in self.graph.needed_by(self.last)]
        return [each for each in actions if each.id != self.last and "ir" in each.inputs][:1]

    def source(self, number: int) -> Input:
        return self._sources[number]

    def taker(self, number: int) -> PlannedAction | None:
        """Return the step that takes a level; None for the last level."""
        if self._test.route is None:
            return self._steps()[0]
        given = self._sources[number + 1] if number + 1 < len(self._sources) else None
        return self.graph.actions[given.action] if isinstance(given, Produced) else None

    def begin_as(self, others: Levels, number: int) -> bool:
        """Return whether another test has the same levels up to one."""
        end = number + 1
        return (self.kinds[:end], self.names[:end]) == (others.kinds[:end], others.names[:end])

    def first_alike(self, number: int) -> int:
        """Return the first level of the same kind: a workload of that kind goes through all steps from there."""
        return self.kinds.index(self.kinds[number])

    def run(self, test: Test, begin: int) -> str:
        """Return the action that calls the kernel of a test whose route begins at a level of this one."""
        chains = self._planner.chains
        return chains.run(test, chains.lower(test, 0, self._sources[begin]))

    def to_linalg(self, test: Test, begin: int, done: int) -> Side | None:
        """Return the actions of a test from a level of this one to linalg, and those that print it; None without such a level.

        ``done``: how many steps of the test's route come before the level.
        """
        kinds = test.known_route.kinds
        if kinds[done] == LINALG or LINALG not in kinds[done:]:
            return None
        last = kinds.index(LINALG, done)
        given = self._planner.chains.lower(test, done, self._sources[begin], last)
        assert isinstance(given, Produced)
        printed = add_print(self.graph, given, self.graph.actions[given.action])
        return side_of(self._session, self.graph, printed, self._sources[begin], self._limits)

    def own_run(self) -> str:
        """Return the action that calls the kernel of this test."""
        return self._planner.chains.run(self._test, self._sources[-1])

    def bounds(self) -> DisagreementBounds:
        """Return twice the largest bounds of the outputs."""
        if is_prepared(self._session.catalog, self._session.catalog.workloads[self._test.workload]):
            found = list(self._planner.judging_program(self._test)["bounds"].values())
        else:
            found = [each for each in self._planner.judging(self._test)["outputs"] if "atol" in each]
        atol = max((float(each["atol"]) for each in found), default=0.0)
        rtol = max((float(each["rtol"]) for each in found), default=0.0)
        return DisagreementBounds(atol=2 * atol, rtol=2 * rtol)

    def text(self, number: int) -> str:
        """Return the IR of a level as it is. Raise UsageError if it is not text, or InfrastructureError."""
        source = self._sources[number]
        if isinstance(source, Produced):
            data = self._outputs(self.graph, source.action, f"the level after {self.names[number]}")[source.output]
        else:
            data = (self._session.catalog.roots[source.root] / source.path).read_bytes()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise UsageError(
                f"{self._test.id}: what {self.names[number]} gives is {self.kinds[number]}, neither MLIR nor text"
            ) from None

    def _printer(self, number: int, taker: PlannedAction) -> PlannedAction:
        """Return an action whose compiler prints a level: the step that takes it, or, if that is any program, another one.

        Raise UsageError if no step of the catalog that takes the kind has MLIR's bindings or programs.
        """
        if taker.tool in READS_IR or taker.params.get("backend") == "bindings":
            return taker
        kind = self.kinds[number]
        for name, entry in self._session.catalog.steps.items():
            if entry.document.accepts[0] != kind:
                continue
            resolved = resolve_step(self._session.catalog, name, self._session.pins)
            if isinstance(resolved, ResolvedStep) and resolved.tool in READS_IR:
                made = self._planner.chains.step(name, resolved, self._sources[number], held=False)
                return self.graph.actions[made.action]
        raise UsageError(f"no step of MLIR takes {kind}, so nothing can print what {self.names[number]} gives")

    def module(self, number: int) -> Module:
        """Return the IR of a level as the release that takes it reads it. Raise UsageError if it cannot, or ParseError."""
        taker = self.taker(number)
        if taker is None:
            raise UsageError(f"no step takes what {self.names[number]} gives")
        kind = self.kinds[number]
        if not self._session.catalog.kinds[kind].document.file.endswith(".mlir"):
            raise UsageError(f"{self._test.id}: what {self.names[number]} gives is {kind}, which is not MLIR")
        printer = self._printer(number, taker)
        graph = Graph(dict(self.graph.actions))
        name = add_print(graph, self._sources[number], printer)
        what = f"the IR after {self.names[number]}, printed for {taker.label}"
        return parse(self._outputs(graph, name, what)["generic"].decode())

    def _outputs(self, graph: Graph, action: str, what: str) -> dict[str, bytes]:
        """Return the outputs of an action of a graph by name. Raise UsageError if it fails, or InfrastructureError."""
        needed = Graph({each: graph.actions[each] for each in graph.needed_by(action)})
        return outputs_of(self._session, needed, action, what, self._limits)


def framework_of(catalog: Catalog, kind: str) -> str:
    """Return the framework whose sources are MLIR of a kind; empty if there is none."""
    for name, entry in catalog.frameworks.items():
        if entry.document.emits.get(kind, "").endswith(".mlir"):
            return name
    return ""


def last_readable(catalog: Catalog, levels: Levels, last: int) -> int:
    """Return the last level up to one that can be a workload, because a framework takes its kind; else that level."""
    kinds = levels.kinds[: last + 1]
    return next((number for number in range(last, -1, -1) if framework_of(catalog, kinds[number])), last)


def best_level(levels: Levels, steps: int) -> tuple[int, Module]:
    """Return the last level, after at most so many steps, for which NumPy has a reference; else the last one."""
    readable: list[tuple[int, Module]] = []
    for begin in dict.fromkeys(levels.first_alike(number) for number in range(steps, -1, -1)):
        try:
            readable.append((begin, levels.module(begin)))
            numpy_text(readable[-1][1])
        except (Untranslatable, ParseError, UsageError):
            continue
        return readable[-1]
    if not readable:
        raise UsageError(f"no level of the test up to {levels.names[steps]} is MLIR that can be read")
    return readable[0]
