"""Resolve numerics attributes of a test, such as ``contraction: "off"`` or ``math: polynomial``; tolerances depend on them.

A workload states its requirements (type of the accumulator, quantization). A target states its properties (which libm). A
framework, a step and a pipeline state their effects (contraction, fast-math, functions by polynomials). Several may state the
same attribute. Then the first of these decides: the mode of a target, the pipeline, its last step before earlier ones, the
framework, the target, the workload. So a pipeline that accumulates in bf16 does so even if the workload requires f32, and a
pipeline that expands ``tanh`` calls no libm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Framework, Pipeline, Step, Target, Workload, used_steps
from mlir_matrix.catalog.yaml_reader import Source

Value = str | bool
#: The attributes of a test, sorted by name; hashable.
NumericsAttributes = tuple[tuple[str, Value], ...]
NumericsEntry = Entry[Workload] | Entry[Target] | Entry[Framework] | Entry[Step] | Entry[Pipeline]


class NumericsSource(NamedTuple):
    """An entry that states attributes: its kind and name, the attributes, and their position."""

    kind: str
    name: str
    attributes: Mapping[str, Value]
    file: Source
    keys: tuple[str, ...]

    @classmethod
    def of(cls, kind: str, entry: NumericsEntry) -> NumericsSource:
        """Return the attributes of an entry."""
        return cls(kind, entry.name, entry.document.numerics, entry.source, ("numerics",))


@dataclass(frozen=True, kw_only=True)
class NumericsAttribute:
    """An attribute of a test, and the entry that states it."""

    name: str
    value: Value
    #: ``pipeline math-poly``, and the position in its file.
    by: str
    position: str
    #: False if an entry of higher priority states the attribute, too.
    counts: bool


class Numerics:
    """The attributes of all tests of a catalog, merged once for each cell."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[tuple[str, str, str, str], NumericsAttributes] = {}
        #: Of cells, which override those of workloads.
        self._of_cells: dict[tuple[str, str, str], Mapping[str, Value]] = {}

    def of(self, workload: str, target: str, framework: str, pipeline: str) -> NumericsAttributes:
        """Return the attributes of a workload on a target, from a framework through a pipeline."""
        key = (workload, target, framework, pipeline)
        attributes = self._known.get(key)
        if attributes is None:
            merged = {
                **self._catalog.workloads[workload].document.numerics,
                **self._of_cell(target, framework, pipeline),
            }
            attributes = self._known[key] = tuple(sorted(merged.items()))
        return attributes

    def _of_cell(self, target: str, framework: str, pipeline: str) -> Mapping[str, Value]:
        """Return the attributes of a target, a framework and a pipeline."""
        cell = (target, framework, pipeline)
        attributes = self._of_cells.get(cell)
        if attributes is None:
            merged: dict[str, Value] = {}
            for source in self._sources(*cell):
                merged |= source.attributes
            attributes = self._of_cells[cell] = merged
        return attributes

    def stated(self, workload: str, target: str, framework: str, pipeline: str) -> tuple[NumericsAttribute, ...]:
        """Return the same attributes by name, each with the entry that states it, overridden ones included."""
        own = NumericsSource.of("workload", self._catalog.workloads[workload])
        sources = [own, *self._sources(target, framework, pipeline)]
        found = [
            NumericsAttribute(
                name=name,
                value=value,
                by=f"{source.kind} {source.name}",
                position=source.file.position(*source.keys, name),
                counts=not any(name in other.attributes for other in sources[place + 1 :]),
            )
            for place, source in enumerate(sources)
            for name, value in source.attributes.items()
        ]
        return tuple(sorted(found, key=lambda attribute: (attribute.name, not attribute.counts)))

    def _sources(self, target: str, framework: str, pipeline: str) -> list[NumericsSource]:
        """Return the entries of a cell that state attributes, the one of highest priority last."""
        user = self._catalog.targets[target]
        found = [
            NumericsSource.of("target", user),
            NumericsSource.of("framework", self._catalog.frameworks[framework]),
            *(NumericsSource.of("step", step) for step in steps_of(self._catalog, pipeline)),
            NumericsSource.of("pipeline", self._catalog.pipelines[pipeline]),
        ]
        if user.document.mode:
            name, mode = user.document.mode
            found.append(NumericsSource("target", target, mode.numerics, user.source, ("modes", name, "numerics")))
        return found


def steps_of(catalog: Catalog, pipeline: str) -> list[Entry[Step]]:
    """Return the steps that all routes of a pipeline share and that state attributes."""
    found = (catalog.steps.get(use.name) for use in used_steps(catalog.pipelines[pipeline].document.steps))
    return [step for step in found if step and step.document.numerics]


def vocabulary(catalog: Catalog) -> Mapping[str, tuple[Value, ...]]:
    """Return every attribute that the catalog states, with all its values."""
    found: dict[str, dict[Value, None]] = {}
    sources: tuple[Mapping[str, NumericsEntry], ...] = (
        catalog.workloads, catalog.targets, catalog.frameworks, catalog.steps, catalog.pipelines,
    )  # fmt: skip
    stated = [entry.document.numerics for entries in sources for entry in entries.values()]
    stated += [entry.document.mode[1].numerics for entry in catalog.targets.values() if entry.document.mode]
    for attributes in stated:
        for name, value in attributes.items():
            found.setdefault(name, {})[value] = None
    return {name: tuple(sorted(values, key=shown)) for name, values in sorted(found.items())}


def shown(value: Value) -> str:
    """Return the value of an attribute as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else value
