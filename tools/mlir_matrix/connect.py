"""Roads: how a framework's output reaches what a target runs, through a pipeline; or the sentence why it cannot.

What fits is derived from the level-typed declarations, never listed by hand. A road belongs to a cell; only where a
framework emits several kinds does the choice between its roads depend on which sources a workload has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models import ParameterValue, Pipeline, Step, StepUse
from mlir_matrix.errors import CatalogError


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The reason, one sentence, why something cannot be."""

    reason: str


@dataclass(frozen=True, slots=True)
class Argument:
    """The value that a step's parameter has on a road, and the line that gave it."""

    name: str
    value: ParameterValue
    #: ``file:line:column``, in the pipeline where it sets the value, else of the step's default.
    position: str
    default: bool


@dataclass(frozen=True, slots=True)
class RoadStep:
    """A step as a pipeline uses it: from one kind to the next, with all its parameters."""

    name: str
    takes: str
    gives: str
    arguments: tuple[Argument, ...]
    #: Where the pipeline names the step.
    position: str

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """The values by name, ready for ``${name}``."""
        return {argument.name: argument.value for argument in self.arguments}


@dataclass(frozen=True, slots=True)
class Road:
    """From the kind that a framework emits to a kind that a target runs."""

    kind: str
    #: File in the workload's folder from which the framework makes ``kind``.
    source: str
    steps: tuple[RoadStep, ...]
    #: Where the pipeline opens this entry.
    position: str

    @property
    def ends(self) -> str:
        """The kind that the target is given."""
        return self.steps[-1].gives


@dataclass(frozen=True, slots=True)
class _Chain:
    """A pipeline's steps from one entry kind to its end; ``entry`` of them are the entry's own."""

    steps: tuple[RoadStep, ...]
    entry: int
    position: str


class Connector:
    """Answers for all cells of one catalog, remembering what cells share."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._chains: dict[tuple[str, str], _Chain] = {}
        self._ways: dict[tuple[str, str, str], tuple[Road, ...] | Unsupported] = {}
        self._choices: dict[tuple[str, str, tuple[str, ...]], int | Unsupported] = {}

    def ways(self, framework: str, pipeline: str, target: str) -> tuple[Road, ...] | Unsupported:
        """All roads of a cell, the preferred one first; never an empty tuple."""
        cell = (framework, pipeline, target)
        found = self._ways.get(cell)
        if found is None:
            found = self._ways[cell] = self._find_ways(framework, pipeline, target)
        return found

    def road(self, framework: str, pipeline: str, target: str, workload: str) -> Road | Unsupported:
        """The road of a test: the preferred one for which the workload has a source."""
        ways = self.ways(framework, pipeline, target)
        if isinstance(ways, Unsupported):
            return ways
        key = (framework, workload, tuple([way.source for way in ways]))
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = self._choose(*key)
        return choice if isinstance(choice, Unsupported) else ways[choice]

    def _choose(self, framework: str, workload: str, sources: tuple[str, ...]) -> int | Unsupported:
        entry = self._catalog.workloads[workload]
        absent = entry.document.absent.get(framework)
        if absent is not None:
            return Unsupported(f"{framework} cannot express {workload}: {absent.strip()}")
        for index, source in enumerate(sources):
            if source in entry.files:
                return index
        return Unsupported(f"workload {workload} has no {framework} source ({alternatives(dict.fromkeys(sources))})")

    def _find_ways(self, framework: str, pipeline: str, target: str) -> tuple[Road, ...] | Unsupported:
        emits = self._catalog.frameworks[framework].document.emits
        entries = self._catalog.pipelines[pipeline].document.entry
        kinds = [kind for kind in entries if kind in emits]
        if not kinds:
            return Unsupported(f"{framework} emits {listed(emits)}; {pipeline} takes {alternatives(entries)}")
        accepts = self._catalog.targets[target].document.accepts
        roads = []
        for kind in kinds:
            chain = self._chain(pipeline, kind)
            length = _length(chain, accepts)
            if length:
                roads.append(Road(kind, emits[kind], chain.steps[:length], chain.position))
        if roads:
            return tuple(roads)
        ends = dict.fromkeys(self._chain(pipeline, kind).steps[-1].gives for kind in kinds)
        runs = alternatives(accepts)
        return Unsupported(f"pipeline {pipeline} ends in kind {alternatives(ends)}; target {target} runs {runs}")

    def _chain(self, pipeline: str, kind: str) -> _Chain:
        chain = self._chains.get((pipeline, kind))
        if chain is None:
            chain = self._chains[pipeline, kind] = _follow(self._catalog, pipeline, kind)
        return chain


def connect(catalog: Catalog, framework: str, pipeline: str, target: str) -> Road | Unsupported:
    """The preferred road of one cell. For many cells, and for workloads, keep a :class:`Connector`."""
    ways = Connector(catalog).ways(framework, pipeline, target)
    return ways if isinstance(ways, Unsupported) else ways[0]


def listed(names: Iterable[str], word: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def alternatives(names: Iterable[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return listed(names, "or")


def _length(chain: _Chain, accepts: Sequence[str]) -> int:
    """How far a target takes the chain: the longest part that ends in a kind it runs, and 0 where there is none.

    At least one of the pipeline's shared steps must be in it: a road that runs none of them would test something else.
    """
    for length in range(len(chain.steps), chain.entry, -1):
        if chain.steps[length - 1].gives in accepts:
            return length
    return 0


def _follow(catalog: Catalog, name: str, kind: str) -> _Chain:
    """Resolve a pipeline's steps for one entry kind.

    Raises CatalogError where a step does not take what the one before gives: the loader's checks find this first, so
    this guards catalogs that were made without them.
    """
    entry = catalog.pipelines[name]
    pipeline: Pipeline = entry.document
    keys: list[tuple[str | int, ...]] = [("entry", kind, index) for index in range(len(pipeline.entry[kind]))]
    keys += [("steps", index) for index in range(len(pipeline.steps))]
    steps = []
    at = kind
    for use, key in zip((*pipeline.entry[kind], *pipeline.steps), keys, strict=True):
        position = entry.source.position(*key)
        used, given = (use.step, use.parameters) if isinstance(use, StepUse) else (use, {})
        step: Step = catalog.steps[used].document
        if at not in step.accepts:
            raise CatalogError(f"{position}: step {used} takes {alternatives(step.accepts)}, and {at} arrives here")
        gives = step.gives or at
        steps.append(RoadStep(used, at, gives, _arguments(catalog, name, key, used, given), position))
        at = gives
    return _Chain(tuple(steps), len(pipeline.entry[kind]), entry.source.position("entry", kind))


def _arguments(
    catalog: Catalog, pipeline: str, key: tuple[str | int, ...], step: str, given: Mapping[str, ParameterValue]
) -> tuple[Argument, ...]:
    """All parameters of a step in the step's order, with the values that this use gives or the defaults."""
    user, owner = catalog.pipelines[pipeline].source, catalog.steps[step]
    return tuple(
        Argument(name, given[name], user.position(*key, "with", name), default=False)
        if name in given
        else Argument(name, parameter.default, owner.source.position("parameters", name, "default"), default=True)
        for name, parameter in owner.document.parameters.items()
    )
