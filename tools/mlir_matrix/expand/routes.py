"""Find routes: the steps from the kind that a framework emits to a kind that a target accepts; or why there are none.

Routes follow from the declared kinds of steps and from the pins. A route belongs to a cell under a set of pins. Where a
framework emits several kinds, the sources of a workload decide which route it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import ParameterValue, Pipeline, Step, StepUse, Target, Workload
from mlir_matrix.catalog.pins import PINS_MARK, Pins
from mlir_matrix.errors import CatalogError
from mlir_matrix.expand.recipes import ResolvedStep, Unsupported, resolve_importer, resolve_step, runner, unmet


@dataclass(frozen=True, slots=True)
class Argument:
    """The value that a step's parameter has on a route, and the line that gave it."""

    name: str
    value: ParameterValue
    #: ``file:line:column``, in the pipeline where it sets the value, else of the step's default.
    position: str
    default: bool


@dataclass(frozen=True, slots=True)
class RouteStep:
    """A step as a pipeline uses it: from one kind to the next, with all its parameters."""

    name: str
    takes: str
    gives: str
    arguments: tuple[Argument, ...]
    #: Where the pipeline, or the target, names the step.
    position: str
    resolved_step: ResolvedStep

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """The values by name, ready for ``${name}``."""
        return {argument.name: argument.value for argument in self.arguments}


@dataclass(frozen=True, slots=True)
class Route:
    """From the kind that a framework emits to a kind that a target runs."""

    kind: str
    #: File in the workload's folder from which the framework makes ``kind``.
    source: str
    steps: tuple[RouteStep, ...]
    #: Where the pipeline opens this entry.
    position: str
    ingress: ResolvedStep
    #: The environments that link and run, as plans name them.
    linker: str
    runner: str

    @property
    def ends(self) -> str:
        """The kind that the target is given."""
        return self.steps[-1].gives


@dataclass(frozen=True, slots=True)
class _Link:
    """A step as a pipeline or a target uses it, under whatever pins."""

    name: str
    takes: str
    gives: str
    arguments: tuple[Argument, ...]
    position: str


@dataclass(frozen=True, slots=True)
class _Chain:
    """A pipeline's steps from one entry kind to its end; ``entry`` of them are the entry's own."""

    links: tuple[_Link, ...]
    entry: int
    position: str


class Connector:
    """Answers for all cells of one catalog, remembering what cells share.

    Everywhere ``pins`` are those of a test's identifier (``llvm=19``, empty for none), on top of those given here.
    """

    def __init__(self, catalog: Catalog, pins: Pins | None = None) -> None:
        self.catalog = catalog
        self._pins = {"": pins or Pins(catalog)}
        self._resolved_steps: dict[tuple[str, str], ResolvedStep | Unsupported] = {}
        self._chains: dict[tuple[str, str], _Chain] = {}
        self._routes: dict[tuple[str, str, str, str], tuple[Route, ...] | Unsupported] = {}
        self._choices: dict[tuple[str, str, tuple[str, ...]], int | Unsupported] = {}

    def pins(self, suffix: str = "") -> Pins:
        """The pins of tests whose identifiers end so."""
        found = self._pins.get(suffix)
        if found is None:
            found = self._pins[suffix] = self._pins[""].override(suffix)
        return found

    def resolved_step(self, step: str, pins: str = "") -> ResolvedStep | Unsupported:
        """What a step is."""
        found = self._resolved_steps.get((step, pins))
        if found is None:
            found = self._resolved_steps[step, pins] = resolve_step(self.catalog, step, self.pins(pins))
        return found

    def routes(self, framework: str, pipeline: str, target: str, pins: str = "") -> tuple[Route, ...] | Unsupported:
        """All routes of a cell, the preferred one first; never an empty tuple."""
        cell = (framework, pipeline, target, pins)
        found = self._routes.get(cell)
        if found is None:
            found = self._routes[cell] = self._find_ways(framework, pipeline, target, pins)
        return found

    def route(self, framework: str, pipeline: str, target: str, workload: str, pins: str = "") -> Route | Unsupported:
        """The route of a test: the preferred one for which the workload has a source."""
        routes = self.routes(framework, pipeline, target, pins)
        if isinstance(routes, Unsupported):
            return routes
        if self.catalog.workloads[workload].document.requires:
            return self._fitting(framework, workload, routes, pins)
        key = (framework, workload, tuple([route.source for route in routes]))
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = self._choose(*key)
        return choice if isinstance(choice, Unsupported) else routes[choice]

    def _fitting(self, framework: str, workload: str, routes: Sequence[Route], pins: str) -> Route | Unsupported:
        """The route of a workload that does not go with all releases."""
        found = self._choose(framework, workload, tuple([route.source for route in routes]))
        if isinstance(found, Unsupported):
            return found
        entry = self.catalog.workloads[workload]
        lacking = ""
        for route in routes[found:]:
            if route.source in entry.files:
                why = self._lacking(entry, route, pins)
                if not why:
                    return route
                lacking = lacking or why
        return Unsupported(lacking)

    def _lacking(self, workload: Entry[Workload], route: Route, pins: str) -> str:
        for resolved_step in (route.ingress, *(step.resolved_step for step in route.steps)):
            releases = self.pins(pins).releases(resolved_step.environment.partition(PINS_MARK)[0])
            if lacking := unmet(f"workload {workload.name}", workload.document.requires, releases):
                return lacking
        return ""

    def _choose(self, framework: str, workload: str, sources: tuple[str, ...]) -> int | Unsupported:
        entry = self.catalog.workloads[workload]
        absent = entry.document.absent.get(framework)
        if absent is not None:
            return Unsupported(f"{framework} cannot express {workload}: {absent.strip()}")
        for index, source in enumerate(sources):
            if source in entry.files:
                return index
        return Unsupported(f"workload {workload} has no {framework} source ({alternatives(dict.fromkeys(sources))})")

    def uses(self, framework: str, pipeline: str, target: str) -> list[set[str]]:
        """The components on each route of a cell, under whatever pins; none where it does not connect."""
        reached = self._reached(framework, pipeline, target)
        return [self._components(framework, target, links) for _, links in reached]

    def _reached(self, framework: str, pipeline: str, target: str) -> list[tuple[str, tuple[_Link, ...]]]:
        """The kinds that lead from a framework through a pipeline to a target, the preferred one first, and how."""
        kinds = self._kinds(framework, pipeline)
        return [(kind, links) for kind in kinds if (links := self._links(pipeline, kind, target))]

    def _kinds(self, framework: str, pipeline: str) -> list[str]:
        emits = self.catalog.frameworks[framework].document.emits
        return [kind for kind in self.catalog.pipelines[pipeline].document.entry if kind in emits]

    def _find_ways(self, framework: str, pipeline: str, target: str, pins: str) -> tuple[Route, ...] | Unsupported:
        reached = self._reached(framework, pipeline, target)
        if not reached:
            return Unsupported(self._apart(framework, pipeline, target))
        routes = [self._route(framework, pipeline, target, kind, links, pins) for kind, links in reached]
        good = tuple([route for route in routes if isinstance(route, Route)])
        return good or next(route for route in routes if isinstance(route, Unsupported))

    def _apart(self, framework: str, pipeline: str, target: str) -> str:
        """Why a cell does not connect."""
        kinds = self._kinds(framework, pipeline)
        if not kinds:
            emits = self.catalog.frameworks[framework].document.emits
            takes = self.catalog.pipelines[pipeline].document.entry
            return f"{framework} emits {word_list(emits)}; {pipeline} takes {alternatives(takes)}"
        ends = dict.fromkeys(self._chain(pipeline, kind).links[-1].gives for kind in kinds)
        # A target gets on from the kinds that it runs, and from those that it generates code from.
        document = self.catalog.targets[target].document
        first = [self.catalog.steps[_used(use)[0]].document for use in document.codegen[:1]]
        runs = dict.fromkeys((*document.accepts, *(kind for step in first for kind in step.accepts)))
        return f"pipeline {pipeline} ends in kind {alternatives(ends)}; target {target} runs {alternatives(runs)}"

    def _route(
        self, framework: str, pipeline: str, target: str, kind: str, links: Sequence[_Link], pins: str
    ) -> Route | Unsupported:
        """A route with the recipes that the pins make of it."""
        steps = []
        for link in links:
            resolved_step = self.resolved_step(link.name, pins)
            if isinstance(resolved_step, Unsupported):
                return resolved_step
            steps.append(RouteStep(link.name, link.takes, link.gives, link.arguments, link.position, resolved_step))
        begin, end, here = self.catalog.frameworks[framework], self.catalog.targets[target], self.pins(pins)
        runs = runner(end, here)
        if isinstance(runs, Unsupported):
            return runs
        varied = [pair.partition("=")[0] for pair in pins.split(",")] if pins else []
        used = self._components(framework, target, links) if varied else ()
        if idle := [component for component in varied if component not in used]:
            return Unsupported(f"nothing on the route of this cell uses {idle[0]}")
        return Route(
            kind, begin.document.emits[kind], tuple(steps), self._chain(pipeline, kind).position,
            resolve_importer(begin, here), here.reference(end.document.linker_environment), runs,
        )  # fmt: skip

    def _components(self, framework: str, target: str, links: Sequence[_Link]) -> set[str]:
        """The components that a route uses."""
        document = self.catalog.targets[target].document
        environments = {self.catalog.steps[link.name].document.environment for link in links}
        environments.add(self.catalog.frameworks[framework].document.environment)
        environments.update((document.linker_environment, document.runner_environment))
        return {component for environment in environments for component in self.pins().releases(environment)}

    def _links(self, pipeline: str, kind: str, target: str) -> tuple[_Link, ...]:
        """The steps to what a target runs; empty where it cannot be reached.

        The pipeline's as far as the target takes them: the longest part that ends in a kind it runs, else all of them and
        then the target's own. At least one of the pipeline's shared steps must be in it: a route that runs none of them
        would test something else.
        """
        chain = self._chain(pipeline, kind)
        entry = self.catalog.targets[target]
        for length in range(len(chain.links), chain.entry, -1):
            if chain.links[length - 1].gives in entry.document.accepts:
                return chain.links[:length]
        for length in range(len(chain.links), chain.entry, -1):
            more = _codegen(self.catalog, entry, chain.links[length - 1].gives, self.catalog.pipelines[pipeline])
            if more:
                return (*chain.links[:length], *more)
        return ()

    def _chain(self, pipeline: str, kind: str) -> _Chain:
        chain = self._chains.get((pipeline, kind))
        if chain is None:
            chain = self._chains[pipeline, kind] = _follow(self.catalog, pipeline, kind)
        return chain


def connect(catalog: Catalog, framework: str, pipeline: str, target: str) -> Route | Unsupported:
    """The preferred route of one cell. For many cells, and for workloads, keep a :class:`Connector`."""
    routes = Connector(catalog).routes(framework, pipeline, target)
    return routes if isinstance(routes, Unsupported) else routes[0]


def word_list(names: Iterable[str], word: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def alternatives(names: Iterable[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return word_list(names, "or")


def _used(use: str | StepUse) -> tuple[str, Mapping[str, ParameterValue]]:
    return (use.step, use.parameters) if isinstance(use, StepUse) else (use, {})


def _codegen(catalog: Catalog, target: Entry[Target], kind: str, pipeline: Entry[Pipeline]) -> tuple[_Link, ...]:
    """A target's own steps from a kind to one that it runs, with the pipeline's values; empty where they do not fit."""
    links = []
    at = kind
    for index, use in enumerate(target.document.codegen):
        name, given = _used(use)
        step: Step = catalog.steps[name].document
        if at not in step.accepts:
            return ()
        gives = step.gives or at
        wanted = {key: value for key, value in pipeline.document.codegen.items() if key in step.parameters}
        arguments = tuple(
            Argument(key, wanted[key], pipeline.source.position("codegen", key), default=False)
            if key in wanted and key not in given
            else argument
            for key, argument in _arguments(catalog, target, ("codegen", index), name, given)
        )
        links.append(_Link(name, at, gives, arguments, target.source.position("codegen", index)))
        at = gives
    return tuple(links) if at in target.document.accepts else ()


def _follow(catalog: Catalog, name: str, kind: str) -> _Chain:
    """Resolve a pipeline's steps for one entry kind.

    Raises CatalogError where a step does not take what the one before gives: the loader's checks find this first, so
    this guards catalogs that were made without them.
    """
    entry = catalog.pipelines[name]
    pipeline: Pipeline = entry.document
    keys: list[tuple[str | int, ...]] = [("entry", kind, index) for index in range(len(pipeline.entry[kind]))]
    keys += [("steps", index) for index in range(len(pipeline.steps))]
    links = []
    at = kind
    for use, key in zip((*pipeline.entry[kind], *pipeline.steps), keys, strict=True):
        position = entry.source.position(*key)
        used, given = _used(use)
        step: Step = catalog.steps[used].document
        if at not in step.accepts:
            raise CatalogError(f"{position}: step {used} takes {alternatives(step.accepts)}, and {at} arrives here")
        gives = step.gives or at
        arguments = tuple(argument for _, argument in _arguments(catalog, entry, key, used, given))
        links.append(_Link(used, at, gives, arguments, position))
        at = gives
    return _Chain(tuple(links), len(pipeline.entry[kind]), entry.source.position("entry", kind))


def _arguments(
    catalog: Catalog,
    user: Entry[Pipeline] | Entry[Target],
    key: tuple[str | int, ...],
    step: str,
    given: Mapping[str, ParameterValue],
) -> Iterable[tuple[str, Argument]]:
    """All parameters of a step in the step's order, with the values that this use gives or the defaults."""
    owner = catalog.steps[step]
    for name, parameter in owner.document.parameters.items():
        if name in given:
            yield name, Argument(name, given[name], user.source.position(*key, "with", name), default=False)
        else:
            position = owner.source.position("parameters", name, "default")
            yield name, Argument(name, parameter.default, position, default=True)
