"""The loaded catalog: a value, made by :func:`mlir_matrix.catalog.load.load`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from mlir_matrix.catalog.golden_files import GoldenFile
from mlir_matrix.catalog.models.base import Document, Framework, Kind, Layer, Pipeline, Step, Target, Workload
from mlir_matrix.catalog.models.suites import Suite
from mlir_matrix.catalog.models.toolchains import Component, Containers, Environment, KnownGood
from mlir_matrix.catalog.yaml_reader import Source
from mlir_matrix.names import SEGMENT_NAMES

T = TypeVar("T", bound=Document)

REFERENCE = "reference.py"
#: What is meant where no suite is named.
DEFAULT_SUITE = "smoke"


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[T]):
    """A thing of the catalog: its name, what its file says, and where it comes from."""

    name: str
    document: T
    source: Source
    #: The catalog folder that it is in, one of ``Catalog.roots``; all paths below begin with it.
    root: Path
    #: The folder of its file; for workloads and steps theirs alone.
    folder: Path
    #: Workloads and steps: every file that lies beside the YAML file, by name.
    files: Mapping[str, Path] = field(default_factory=dict)
    #: Steps: their IR tests (``tests/CASE.mlir``), by case.
    cases: Mapping[str, Path] = field(default_factory=dict)

    @property
    def reference(self) -> Path:
        """Workloads: the reference; the loader has seen that it is there."""
        return self.folder / REFERENCE

    @property
    def golden(self) -> Path:
        """Workloads: the folder of the goldens, in the same catalog. It need not exist yet."""
        return self.root / "golden" / self.name


@dataclass(frozen=True, kw_only=True)
class LocatedLayer:
    """A tolerance layer and where it stands."""

    document: Layer
    source: Source
    #: Its place in the file's ``layers``, from 0.
    index: int
    #: The workload whose folder the file is in; None where the file is for all.
    workload: str | None
    #: The catalog folder that it is in, by its number in ``Catalog.roots``.
    root: int = 0

    @property
    def position(self) -> str:
        """``file:line:column``, which is how reports name the layer."""
        return self.source.position("layers", self.index)


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Everything that was loaded, each mapping sorted by name. Nothing in it is ever changed."""

    #: This repository first, then each ``--catalog`` folder.
    roots: tuple[Path, ...]
    kinds: Mapping[str, Entry[Kind]]
    frameworks: Mapping[str, Entry[Framework]]
    workloads: Mapping[str, Entry[Workload]]
    steps: Mapping[str, Entry[Step]]
    pipelines: Mapping[str, Entry[Pipeline]]
    targets: Mapping[str, Entry[Target]]
    suites: Mapping[str, Entry[Suite]]
    environments: Mapping[str, Entry[Environment]]
    components: Mapping[str, Entry[Component]]
    #: The known-good file of each root that has one, in the order of the roots.
    known_good: tuple[Entry[KnownGood], ...]
    #: From general to specific: the layers for all workloads of each root, then those of single workloads.
    layers: tuple[LocatedLayer, ...]
    #: The files of ``golden/WORKLOAD/`` folders, without tolerances.
    golden_files: tuple[GoldenFile, ...] = ()
    #: How images are made: what the last root says of each key that any says.
    containers: Containers = field(default_factory=Containers)

    @cached_property
    def axes(self) -> Mapping[str, Mapping[str, Entry[Any]]]:
        """The things that each segment of a test identifier names, in the order of the segments."""
        things = (self.frameworks, self.pipelines, self.targets, self.workloads)
        return dict(zip(SEGMENT_NAMES, things, strict=True))

    def default_pins(self, environment: str) -> Mapping[str, str]:
        """The release of every component in an environment where nobody asks for another.

        That is the environment's own, else the known good one, else the newest that will stay. The first catalog's word
        counts: one that joins pins what it brings.
        """
        general, own = self._default_pins
        return own.get(environment, general)

    @cached_property
    def _default_pins(self) -> tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]:
        """For all environments, and whole sets for those that keep to releases of their own."""
        general: dict[str, str] = {}
        for name, entry in self.components.items():
            releases = entry.document.releases
            lasting = [release for release in releases if release.durability == "permanent"]
            general[name] = (lasting or releases)[-1].release
        own: dict[str, dict[str, str]] = {}
        for known in reversed(self.known_good):
            general |= known.document.pins
            for environment, pins in known.document.environments.items():
                own.setdefault(environment, {}).update(pins)
        return general, {environment: general | pins for environment, pins in own.items()}
