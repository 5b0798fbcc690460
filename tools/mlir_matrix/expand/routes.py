"""Find routes: the steps from the kind that a framework emits to a kind that a target accepts, or why there is none.

The declared kinds of steps and the pins determine routes. A route belongs to a cell under a set of pins. If a framework emits
several kinds, the sources of a workload decide which route it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mlir_matrix.base.names import split_pins
from mlir_matrix.catalog.catalog import Catalog, Entry, is_linked, taken_by
from mlir_matrix.catalog.models.base import (
    ParameterValue,
    Pipeline,
    Target,
    UsedStep,
    Workload,
    used_steps,
)
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.recipes import (
    ResolvedStep,
    Unsupported,
    matching_variant,
    resolve_runner,
    resolve_step,
    resolve_tool,
    unmet,
)

#: The levels of x86-64, the lowest first.
X86_LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")


@dataclass(frozen=True, slots=True)
class Argument:
    """The value of a step's parameter on a route, and its position."""

    name: str
    value: ParameterValue
    #: ``file:line:column``: in the pipeline if it sets the value, else of the step's default.
    position: str
    default: bool


@dataclass(frozen=True, slots=True)
class RouteStep:
    """A step as a pipeline uses it: from one kind to the next, with all its parameters."""

    name: str
    takes: str
    gives: str
    arguments: tuple[Argument, ...]
    #: The position of the step in the pipeline or the target.
    position: str
    resolved_step: ResolvedStep

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """Return the values by name, for ``${name}``."""
        return {argument.name: argument.value for argument in self.arguments}


@dataclass(frozen=True, slots=True)
class Route:
    """The steps from the kind that a framework emits to a kind that a target runs."""

    kind: str
    #: The file in the workload's folder that the framework imports.
    source: str
    steps: tuple[RouteStep, ...]
    #: The position of the entry in the pipeline.
    position: str
    #: What imports the file; None for a framework whose files are taken as they are.
    ingress: ResolvedStep | None
    #: The environment of the linker, as plans name it; empty for a target that links nothing.
    linker: str
    #: The tool that runs the target's input.
    runner: ResolvedStep
    #: True for a target that runs nothing: artifacts are compiled and checked.
    compile_only: bool = False
    #: True for a target whose own tool gives the verdict.
    judges: bool = False

    @property
    def kinds(self) -> list[str]:
        """Return the kinds from that of the framework to that of the target."""
        return [self.kind, *(step.gives for step in self.steps)]

    @property
    def ends(self) -> str:
        """Return the kind of the target's input."""
        return self.steps[-1].gives if self.steps else self.kind

    def beyond(self, level: str) -> str:
        """Return which step generates code that a CPU of this level of x86-64 cannot run; empty if none does."""
        for step in self.steps:
            wanted = str(step.parameters.get("cpu"))
            if wanted in X86_LEVELS and X86_LEVELS.index(wanted) > X86_LEVELS.index(level):
                return f"step {step.name} generates code for {wanted}"
        return ""


class _Link(NamedTuple):
    """A step as a pipeline or a target uses it, before pins choose its release."""

    name: str
    takes: str
    gives: str
    arguments: tuple[Argument, ...]
    position: str


class Connector:
    """Finds the routes of all cells of one catalog, and keeps results that cells share.

    In all methods, ``pins`` are those of a test's identifier (``llvm=19``, empty for none), in addition to those of ``__init__``.
    """

    def __init__(self, catalog: Catalog, pins: Pins | None = None) -> None:
        self.catalog = catalog
        self._pins = {"": pins or Pins(catalog)}
        self._resolved_steps: dict[tuple[str, str], ResolvedStep | Unsupported] = {}
        self._chains: dict[tuple[str, str], tuple[_Link, ...]] = {}
        self._routes: dict[tuple[str, str, str, str], tuple[Route, ...] | Unsupported] = {}
        self._choices: dict[tuple[str, str, tuple[str, ...]], int | Unsupported] = {}

    def pins(self, suffix: str = "") -> Pins:
        """Return the pins of tests whose identifiers end in ``suffix``."""
        found = self._pins.get(suffix)
        if found is None:
            found = self._pins[suffix] = self._pins[""].override(suffix)
        return found

    def resolved_step(self, step: str, pins: str = "") -> ResolvedStep | Unsupported:
        """Return a step under some pins, or why it is unsupported."""
        found = self._resolved_steps.get((step, pins))
        if found is None:
            found = self._resolved_steps[step, pins] = resolve_step(self.catalog, step, self.pins(pins))
        return found

    def step_alone(self, step: str, pins: str = "") -> ResolvedStep | Unsupported:
        """Return a step for its IR tests, or why it is unsupported. The step must use each component in ``pins``."""
        idle = next((name for name in components_of(pins) if name not in self.step_components(step)), None)
        return Unsupported(f"step {step} does not use {idle}") if idle else self.resolved_step(step, pins)

    def step_components(self, step: str) -> set[str]:
        """Return the components of a step's environment."""
        return set(self.pins().releases(self.catalog.steps[step].document.environment))

    def routes(self, framework: str, pipeline: str, target: str, pins: str = "") -> tuple[Route, ...] | Unsupported:
        """Return all routes of a cell, the preferred one first; never an empty tuple."""
        cell = (framework, pipeline, target, pins)
        found = self._routes.get(cell)
        if found is None:
            found = self._routes[cell] = self._find(framework, pipeline, target, pins)
        return found

    def route(self, framework: str, pipeline: str, target: str, workload: str, pins: str = "") -> Route | Unsupported:
        """Return the route of a test: the preferred one for which the workload has a source."""
        routes = self.routes(framework, pipeline, target, pins)
        if isinstance(routes, Unsupported):
            return routes
        key = (framework, workload, tuple([route.source for route in routes]))
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = self._choose(*key)
        if isinstance(choice, Unsupported):
            return choice
        entry = self.catalog.workloads[workload]
        if entry.document.source and (why := self._unprepared(entry.document.source, routes[choice], pins)):
            return Unsupported(why)
        if not entry.document.requires:
            return self._in_releases(entry, routes[choice], framework, pins)
        reasons = []
        for route in routes[choice:]:
            if route.source in entry.files:
                why = self._lacking(entry, route, pins)
                if not why:
                    return self._in_releases(entry, route, framework, pins)
                reasons.append(why)
        return Unsupported(reasons[0])

    def _unprepared(self, form: str, route: Route, pins: str) -> str:
        """Return why programs of a foreign form cannot take this route; empty if they can."""
        entry = self.catalog.sources[form]
        if not entry.document.prepares(entry.files):
            runs = not (route.compile_only or route.judges)
            return f"programs of the form {form} have no inputs, so they cannot be run" if runs else ""
        found = resolve_tool(entry, self.pins(pins))
        return found.reason if isinstance(found, Unsupported) else ""

    def _in_releases(self, workload: Entry[Workload], route: Route, framework: str, pins: str) -> Route | Unsupported:
        """Return a route with the file that a workload has, for the importer's releases, instead of its source."""
        variants = workload.document.sources.get(route.source, ())
        releases = self.pins(pins).releases(self.catalog.frameworks[framework].document.environment) if variants else {}
        index = matching_variant(variants, releases)
        found = route if index is None else replace(route, source=variants[index].file)
        why = workload.fixed.get(found.source)
        return Unsupported(why) if why else found

    def _lacking(self, workload: Entry[Workload], route: Route, pins: str) -> str:
        for resolved_step in filter(None, (route.ingress, *(step.resolved_step for step in route.steps))):
            releases = self.pins(pins).releases(split_pins(resolved_step.environment)[0])
            if lacking := unmet(f"workload {workload.name}", workload.document.requires, releases):
                return lacking
        return ""

    def _choose(self, framework: str, workload: str, sources: tuple[str, ...]) -> int | Unsupported:
        entry = self.catalog.workloads[workload]
        if over := self.catalog.over.get(("workloads", workload)):
            return Unsupported(over)
        absent = entry.document.absent.get(framework)
        if absent is not None:
            return Unsupported(f"{framework} cannot express {workload}: {absent.strip()}")
        for index, source in enumerate(sources):
            if source in entry.files:
                return index
        return Unsupported(f"workload {workload} has no {framework} source ({alternatives(dict.fromkeys(sources))})")

    def uses(self, framework: str, pipeline: str, target: str) -> list[set[str]]:
        """Return the components on each route of a cell, under any pins; none if it does not connect."""
        connected = self._connected(framework, pipeline, target)
        return [self._components(framework, target, links) for _, links in connected]

    def rest(self, cell: tuple[str, str, str], entry: str, kind: str, pins: str = "") -> Route | Unsupported | None:
        """Return a cell's route from where the pipeline's ``entry`` has become a kind; None if it does not pass this kind."""
        framework, pipeline, target = cell
        links = self._links(pipeline, entry, target) or ()
        # Of several steps that keep the kind, none is repeated.
        begin = max((at for at in range(len(links) + 1) if _end(entry, links[:at]) == kind), default=None)
        if begin is None or not (links or kind in self.catalog.targets[target].document.accepts):
            return None
        return self._route(framework, pipeline, target, kind, links[begin:], pins)

    def _connected(self, framework: str, pipeline: str, target: str) -> list[tuple[str, tuple[_Link, ...]]]:
        """Return the kinds that lead from a framework through a pipeline to a target, each with its steps; preferred first."""
        kinds = self._kinds(framework, pipeline)
        routes = [(kind, self._links(pipeline, kind, target)) for kind in kinds]
        return [(kind, links) for kind, links in routes if links is not None]

    def _kinds(self, framework: str, pipeline: str) -> list[str]:
        emits = self.catalog.frameworks[framework].document.emits
        return [kind for kind in self.catalog.pipelines[pipeline].document.entry if kind in emits]

    def _find(self, framework: str, pipeline: str, target: str, pins: str) -> tuple[Route, ...] | Unsupported:
        connected = self._connected(framework, pipeline, target)
        if not connected:
            return self._apart(framework, pipeline, target)
        routes = [self._route(framework, pipeline, target, kind, links, pins) for kind, links in connected]
        good = tuple([route for route in routes if isinstance(route, Route)])
        return good or next(route for route in routes if isinstance(route, Unsupported))

    def _apart(self, framework: str, pipeline: str, target: str) -> Unsupported:
        """Return why a cell does not connect."""
        kinds = self._kinds(framework, pipeline)
        if not kinds:
            emits = self.catalog.frameworks[framework].document.emits
            takes = self.catalog.pipelines[pipeline].document.entry
            entries = alternatives(takes)
            return Unsupported(f"{framework} emits {word_list(emits)}; {pipeline} takes {entries}", entries)
        ends = dict.fromkeys(_end(kind, self._chain(pipeline, kind)) for kind in kinds)
        runs = alternatives(taken_by(self.catalog.targets[target].document, self.catalog.steps))
        return Unsupported(f"pipeline {pipeline} ends in kind {alternatives(ends)}; target {target} runs {runs}", runs)

    def _route(
        self, framework: str, pipeline: str, target: str, kind: str, links: Sequence[_Link], pins: str
    ) -> Route | Unsupported:
        """Return a route with the steps resolved under pins."""
        steps = []
        for link in links:
            resolved_step = self.resolved_step(link.name, pins)
            if isinstance(resolved_step, Unsupported):
                return resolved_step
            arguments = tuple([_in_releases(argument, resolved_step) for argument in link.arguments])
            steps.append(RouteStep(link.name, link.takes, link.gives, arguments, link.position, resolved_step))
        begin, end, here = self.catalog.frameworks[framework], self.catalog.targets[target], self.pins(pins)
        ingress = resolve_tool(begin, here) if begin.document.environment else None
        runner = resolve_runner(end, here)
        if isinstance(ingress, Unsupported):
            return ingress
        if isinstance(runner, Unsupported):
            return runner
        varied = components_of(pins)
        used = self._components(framework, target, links) if varied else ()
        if idle := [component for component in varied if component not in used]:
            return Unsupported(f"nothing on the route of this cell uses {idle[0]}")
        return Route(
            kind, begin.document.emits.get(kind, ""), tuple(steps), self.catalog.pipelines[pipeline].source.position("entry", kind),
            ingress, here.reference(end.document.linker_environment) if is_linked(end) else "", runner,
            bool(end.document.compile_only), end.document.judges,
        )  # fmt: skip

    def _components(self, framework: str, target: str, links: Sequence[_Link]) -> set[str]:
        """Return the components that a route uses."""
        document = self.catalog.targets[target].document
        environments = {self.catalog.steps[link.name].document.environment for link in links}
        if importer := self.catalog.frameworks[framework].document.environment:
            environments.add(importer)
        environments.add(document.runner_environment)
        if is_linked(self.catalog.targets[target]):
            environments.add(document.linker_environment)
        return {component for environment in environments for component in self.pins().releases(environment)}

    def _links(self, pipeline: str, kind: str, target: str) -> tuple[_Link, ...] | None:
        """Return the steps to a kind that a target runs; None if none can be reached.

        They begin with the pipeline's steps: the longest part that ends in a kind that the target runs. If there is no such
        part, they are all of the pipeline's steps and then the target's. If the pipeline has shared steps, at least one of
        them must be part of the route, because a route without any would not test the pipeline.
        """
        chain = self._chain(pipeline, kind)
        entry, user = self.catalog.targets[target], self.catalog.pipelines[pipeline]
        fewest = len(user.document.entry[kind]) + bool(user.document.steps)
        parts = [chain[:length] for length in range(len(chain), fewest - 1, -1)]
        for part in parts:
            if _end(kind, part) in entry.document.accepts:
                return part
        for part in parts:
            codegen = used_steps(entry.document.codegen, "codegen")
            links = _follow(self.catalog, entry, _end(kind, part), codegen, user)
            if links and links[-1].gives in entry.document.accepts:
                return (*part, *links)
        return None

    def _chain(self, pipeline: str, kind: str) -> tuple[_Link, ...]:
        """Return a pipeline's steps from an entry kind to its end."""
        chain = self._chains.get((pipeline, kind))
        if chain is None:
            user = self.catalog.pipelines[pipeline]
            chain = self._chains[pipeline, kind] = _follow(self.catalog, user, kind, user.document.route(kind))
        return chain


def _end(kind: str, links: Sequence[_Link]) -> str:
    """Return the kind at the end of steps that begin with a kind."""
    return links[-1].gives if links else kind


def _in_releases(argument: Argument, resolved_step: ResolvedStep) -> Argument:
    """Return an argument with the default of the variant for these releases."""
    value = resolved_step.parameters.get(argument.name, argument.value)
    if not argument.default or value == argument.value:
        return argument
    return replace(argument, value=value, position=resolved_step.variant)


def components_of(pins: str) -> list[str]:
    """Return the components in the pins of an identifier: ``llvm`` of ``llvm=19``."""
    return [pair.partition("=")[0] for pair in pins.split(",")] if pins else []


def word_list(names: Iterable[str], word: str = "and") -> str:
    """Join names: ``a``, ``a and b``, ``a, b and c``."""
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def alternatives(names: Iterable[str]) -> str:
    """Join names: ``a``, ``a or b``, ``a, b or c``."""
    return word_list(names, "or")


def _forced(document: Pipeline | Target) -> tuple[str, Mapping[str, ParameterValue]]:
    """Return the mode of a target, and the values that it sets."""
    mode = document.mode if isinstance(document, Target) else None
    return (mode[0], mode[1].parameters) if mode else ("", {})


def _follow(
    catalog: Catalog,
    user: Entry[Pipeline] | Entry[Target],
    kind: str,
    steps: Iterable[UsedStep],
    pipeline: Entry[Pipeline] | None = None,
) -> tuple[_Link, ...]:
    """Return the steps of a pipeline or target that begin with a kind, with all their parameters; empty if they do not fit.

    ``pipeline`` has values for the codegen steps of a target.
    """
    links = []
    mode, forced = _forced(user.document)
    for keys, name, given in steps:
        step = catalog.steps[name]
        if kind not in step.document.accepts:
            return ()
        gives = step.document.kind_from(kind)
        arguments = []
        for key, parameter in step.document.parameters.items():
            value, position, default = parameter.default, step.source.position("parameters", key, "default"), True
            if key in forced:
                value, position, default = forced[key], user.source.position("modes", mode, "with", key), False
            elif key in given:
                value, position, default = given[key], user.source.position(*keys, "with", key), False
            elif pipeline and key in pipeline.document.codegen:
                value, position = pipeline.document.codegen[key], pipeline.source.position("codegen", key)
                default = False
            arguments.append(Argument(key, value, position, default))
        links.append(_Link(name, kind, gives, tuple(arguments), user.source.position(*keys)))
        kind = gives
    return tuple(links)
