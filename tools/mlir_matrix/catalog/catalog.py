"""Define the loaded catalog: a value, made by :func:`mlir_matrix.catalog.load.load`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from mlir_matrix.base.names import SEGMENT_NAMES
from mlir_matrix.catalog.golden_files import GoldenFile
from mlir_matrix.catalog.models.base import (
    PYTHON_FILE,
    Corpus,
    Document,
    Framework,
    Kind,
    Layer,
    Pipeline,
    SourceForm,
    Step,
    Target,
    Tool,
    Workload,
    used_steps,
)
from mlir_matrix.catalog.models.costs import CostLayer
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.catalog.models.suites import Expectations, KnownFindings, Quarantine, Suite
from mlir_matrix.catalog.models.toolchains import Component, Containers, Environment, KnownGood, Release
from mlir_matrix.catalog.run_lines import RunLine
from mlir_matrix.catalog.yaml_reader import Source

DocumentT_co = TypeVar("DocumentT_co", bound=Document, covariant=True)
LayerT = TypeVar("LayerT", bound=Layer | CostLayer)

REFERENCE = "reference.py"
#: The suite of commands without one.
DEFAULT_SUITE = "smoke"


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[DocumentT_co]):
    """An entry of the catalog, such as a step: its name, its file as a model, and the position of each key."""

    name: str
    document: DocumentT_co
    source: Source
    #: The catalog folder that it is in, one of ``Catalog.roots``; all paths below begin with it.
    root: Path
    #: The folder of its file; a workload and a step have one of their own.
    folder: Path
    #: Workloads and steps: the other files in the folder, by name.
    files: Mapping[str, Path] = field(default_factory=dict)
    #: Steps: their IR tests (``tests/CASE.mlir``), by case.
    cases: Mapping[str, Path] = field(default_factory=dict)
    #: Steps: the RUN lines of IR tests that have some, by case.
    runs: Mapping[str, Sequence[RunLine]] = field(default_factory=dict)
    #: Members of corpora: the path below the corpus, or the name in its list.
    member: str = ""
    #: Members of corpora: files that they read, by their paths below the catalog's folder.
    beside: Mapping[str, Path] = field(default_factory=dict)
    #: Workloads in another size: by size in the types of a program that spells it, the other one.
    new_sizes: Mapping[int, int] = field(default_factory=dict)
    #: Workloads in another size: by file that cannot have it, why.
    fixed: Mapping[str, str] = field(default_factory=dict)
    #: Components: by release, the entries of other catalogs that add releases. The document has all releases.
    added: Mapping[str, Entry[Any]] = field(default_factory=dict)

    @property
    def reference(self) -> Path:
        """Workloads: the reference, which validation has found."""
        return self.folder / REFERENCE

    @property
    def golden(self) -> Path:
        """Workloads: the folder of the goldens, in the same catalog. It may not exist yet."""
        return self.root / "golden" / self.name


@dataclass(frozen=True, kw_only=True)
class LocatedLayer(Generic[LayerT]):
    """A layer of tolerances or of goldens of costs, and its position."""

    document: LayerT
    source: Source
    #: Its number in the file's ``layers``, from 0.
    index: int
    #: The workload whose folder the file is in; None for the file for all workloads.
    workload: str | None
    #: The catalog folder that it is in, by its number in ``Catalog.roots``.
    root: int = 0

    @property
    def position(self) -> str:
        """``file:line:column``, the name of the layer in reports."""
        return self.source.position("layers", self.index)


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """All entries, each mapping sorted by name. It is never changed."""

    #: This repository first, then each ``--catalog`` folder.
    roots: tuple[Path, ...]
    kinds: Mapping[str, Entry[Kind]]
    frameworks: Mapping[str, Entry[Framework]]
    #: With the members of corpora, ``CORPUS:MEMBER``.
    workloads: Mapping[str, Entry[Workload]]
    steps: Mapping[str, Entry[Step]]
    pipelines: Mapping[str, Entry[Pipeline]]
    targets: Mapping[str, Entry[Target]]
    suites: Mapping[str, Entry[Suite]]
    environments: Mapping[str, Entry[Environment]]
    components: Mapping[str, Entry[Component]]
    machines: Mapping[str, Entry[Machine]]
    #: The known-good file of each root that has one, in the order of the roots.
    known_good: tuple[Entry[KnownGood], ...]
    #: From general to specific: the layers for all workloads of each root, then those of single workloads.
    layers: tuple[LocatedLayer[Layer], ...]
    #: The goldens of costs, in the same order.
    cost_layers: tuple[LocatedLayer[CostLayer], ...] = ()
    sources: Mapping[str, Entry[SourceForm]] = field(default_factory=dict)
    corpora: Mapping[str, Entry[Corpus]] = field(default_factory=dict)
    #: Expectations by test, by the name of their suite.
    expectations: Mapping[str, Entry[Expectations]] = field(default_factory=dict)
    #: The quarantine of each root that has one, in the order of the roots.
    quarantines: tuple[Entry[Quarantine], ...] = ()
    #: The known findings of each root that has some, in the order of the roots.
    known_findings: tuple[Entry[KnownFindings], ...] = ()
    #: The files of ``golden/WORKLOAD/`` folders, without tolerances and costs.
    golden_files: tuple[GoldenFile, ...] = ()
    #: By section and name the entries over a limit, with position and reason: suites and names are left out, tests of such
    #: workloads are unsupported.
    over: Mapping[tuple[str, str], str] = field(default_factory=dict)
    #: By corpus or suite that needs a checkout which is not given: how to give it.
    without_data: Mapping[str, str] = field(default_factory=dict)
    #: In another size: by workload that has no such size and stays as it is, why.
    unsized: Mapping[str, str] = field(default_factory=dict)
    #: How images are built: later roots override keys of earlier ones.
    containers: Containers = field(default_factory=Containers)

    @cached_property
    def axes(self) -> Mapping[str, Mapping[str, Entry[Document]]]:
        """The entries that each segment of a test identifier names, in the order of the segments."""
        things = (self.frameworks, self.pipelines, self.targets, self.workloads)
        return dict(zip(SEGMENT_NAMES, things, strict=True))

    def tool_file(self, entry: Entry[Any], name: str) -> tuple[Path, Path] | None:
        """Return the catalog folder and the path of a file that a tool names; None if there is no such file."""
        other, _, file = name.rpartition("/")
        sections: Mapping[type[Tool], Mapping[str, Entry[Any]]] = {
            Framework: self.frameworks, SourceForm: self.sources, Step: self.steps, Target: self.targets,
        }  # fmt: skip
        owner = sections[type(entry.document)].get(other) if other else entry
        return (owner.root, owner.files[file]) if owner and file in owner.files else None

    def default_pins(self, environment: str) -> Mapping[str, str]:
        """Return the default release of every component in an environment.

        That is the environment's own, else the known-good one, else the newest permanent one. The first catalog wins: others
        pin only components of their own.
        """
        general, own = self._default_pins
        return own.get(environment, general)

    @cached_property
    def _default_pins(self) -> tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]:
        """The default pins of all environments, and the full sets of those with releases of their own."""
        general: dict[str, str] = {}
        for name, entry in self.components.items():
            releases = [release for release in entry.document.releases if release.release not in entry.added]
            lasting = [release for release in releases if release.durability == "permanent"]
            general[name] = (lasting or releases)[-1].release
        own: dict[str, dict[str, str]] = {}
        for known in reversed(self.known_good):
            general |= known.document.pins
            for environment, pins in known.document.environments.items():
                own.setdefault(environment, {}).update(pins)
        return general, {environment: general | pins for environment, pins in own.items()}


def listed(component: Entry[Component]) -> Iterator[tuple[Entry[Any], int, Release]]:
    """Yield the releases of a component, each with the entry that lists it and its number there."""
    own = [release for release in component.document.releases if release.release not in component.added]
    yield from ((component, index, release) for index, release in enumerate(own))
    for entry in {each.source.file: each for each in component.added.values()}.values():
        yield from ((entry, index, release) for index, release in enumerate(entry.document.releases))


#: Tools of targets that call a kernel by the driver.
LINKING = frozenset({"run", "run_jit"})


def taken_by(target: Target, steps: Mapping[str, Entry[Step]]) -> list[str]:
    """Return the kinds that a target takes: those that it runs, and those from which its first step generates code."""
    first = [steps[use.name].document for use in used_steps(target.codegen[:1]) if use.name in steps]
    return list(dict.fromkeys((*target.accepts, *(kind for step in first for kind in step.accepts))))


def is_linked(target: Entry[Target]) -> bool:
    """Return whether a target links kernels with the driver. A target with its own tool does so if it has a triple."""
    tool = target.document.tool_name(target.files)
    return tool in LINKING or (tool == PYTHON_FILE and target.document.triple is not None)
