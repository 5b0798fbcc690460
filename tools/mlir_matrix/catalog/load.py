"""Load the folders of a catalog. No code from them is run, and nothing outside of them is read."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from mlir_matrix.catalog.catalog import Catalog, Entry, LocatedLayer
from mlir_matrix.catalog.folders import Item, Root, named, stem
from mlir_matrix.catalog.golden_files import GoldenFile
from mlir_matrix.catalog.messages import sentences
from mlir_matrix.catalog.models import base, containers, suites, toolchains
from mlir_matrix.catalog.problems import Problems
from mlir_matrix.catalog.yaml_reader import Source, SourceError, read
from mlir_matrix.names import did_you_mean, nearest

D = TypeVar("D", bound=base.Document)

TOLERANCES = "tolerances.yaml"


@dataclass(frozen=True)
class Room:
    """A folder of things of one sort."""

    field: str
    folder: tuple[str, str]
    model: type[base.Document]
    #: The sort with its article, for messages.
    what: str
    #: The YAML file where each thing is a folder; empty where each thing is a file.
    file: str = ""


ROOMS = (
    Room("kinds", ("recipes", "kinds"), base.Kind, "a kind"),
    Room("components", ("toolchains", "components"), toolchains.Component, "a component"),
    Room("environments", ("toolchains", "environments"), toolchains.Environment, "an environment"),
    Room("frameworks", ("matrix", "frameworks"), base.Framework, "a framework"),
    Room("steps", ("recipes", "steps"), base.Step, "a step", "step.yaml"),
    Room("pipelines", ("recipes", "pipelines"), base.Pipeline, "a pipeline"),
    Room("targets", ("matrix", "targets"), base.Target, "a target"),
    Room("workloads", ("matrix", "workloads"), base.Workload, "a workload", "workload.yaml"),
    Room("suites", ("matrix", "suites"), suites.Suite, "a suite"),
)
#: In ``toolchains/``: the default pins.
KNOWN_GOOD = "known-good.yaml"
#: In ``containers/``: how images are made.
IMAGES = "images.yaml"
#: Folders that hold rooms, and what else may be in them. ``None``: anything that is not nearly the name of a room.
_HOUSES: Mapping[str, frozenset[str] | None] = {
    "matrix": frozenset(("machines",)),
    "recipes": frozenset(),
    "toolchains": None,
}


def load(roots: Sequence[Path]) -> Catalog:
    """Load the catalogs in ``roots``: this repository first, then each of the user's.

    What files say about each other is checked by :func:`mlir_matrix.validation.validate`.

    Raises CatalogError with a line for each thing that is wrong, at most twenty.
    """
    loader = _Loader()
    for number, path in enumerate(roots):
        loader.root(path, shown="" if number == 0 else str(path))
    loader.problems.raise_if_any()
    found: Any = {room.field: dict(sorted(loader.found[room.field].items())) for room in ROOMS}
    layers = (*loader.general, *loader.specific)
    catalog = Catalog(
        roots=tuple(roots),
        layers=layers,
        known_good=tuple(loader.known_good),
        golden_files=tuple(loader.golden),
        **found,
    )
    if loader.containers:
        catalog = replace(catalog, containers=containers.Containers(**loader.containers))
    return catalog


class _Loader:
    """What has been found so far."""

    def __init__(self) -> None:
        self.problems = Problems()
        self.found: dict[str, dict[str, Entry[Any]]] = {room.field: {} for room in ROOMS}
        self.general: list[LocatedLayer] = []
        self.specific: list[LocatedLayer] = []
        #: Files other than tolerances in golden/WORKLOAD folders: root, workload, file.
        self.golden: list[GoldenFile] = []
        self.known_good: list[Entry[toolchains.KnownGood]] = []
        #: What files on containers say, those of later catalogs over those of earlier ones.
        self.containers: dict[str, Any] = {}
        self._roots: set[str] = set()
        self._folded: dict[tuple[str, str], Entry[Any]] = {}

    def root(self, path: Path, shown: str) -> None:
        """Read one catalog folder."""
        root = Root(path, shown, self.problems)
        where = shown or str(path)
        if not path.is_dir():
            self.problems.add(where, "there is no such catalog folder")
            return
        if root.real in self._roots:
            self.problems.add(where, "this catalog folder is given twice")
            return
        self._roots.add(root.real)
        names = ("matrix", "recipes", "toolchains", "containers", "golden")
        if not any(os.path.lexists(path / name) for name in names):
            self.problems.add(where, f"holds no catalog: none of {', '.join(f'{name}/' for name in names)} is here")
        for name in sorted(os.listdir(path)):
            # A project may have folders of its own, tools/ among them: only what is one slip away is refused.
            if name not in names and (path / name).is_dir() and difflib.get_close_matches(name, names, 1, cutoff=0.85):
                self.problems.add(f"{where}/{name}", f"unknown folder{did_you_mean(name, names)}")
        for house, others in _HOUSES.items():
            self._house(root, house, others)
        for room in ROOMS:
            for item in root.items(*room.folder):
                self._thing(root, room, item)
        self._known_good(root)
        self._containers(root)
        self._goldens(root)

    def _known_good(self, root: Root) -> None:
        for item in root.items("toolchains"):
            if item.name == KNOWN_GOOD and (found := self._document(item, toolchains.KnownGood)):
                source, document = found
                name = KNOWN_GOOD.partition(".")[0]
                entry = Entry(name=name, document=document, source=source, root=root.path, folder=item.path.parent)
                self.known_good.append(entry)

    def _containers(self, root: Root) -> None:
        for item in root.items("containers"):
            if item.name != IMAGES:
                # What else a project keeps in a folder of that name is its own.
                if nearest(item.name, [IMAGES]):
                    self.problems.add(item.shown, f"unknown file{did_you_mean(item.name, [IMAGES])}")
            elif found := self._document(item, containers.Containers):
                _, document = found
                self.containers |= document.model_dump(exclude_unset=True)

    def _house(self, root: Root, house: str, others: frozenset[str] | None) -> None:
        """Refuse what is no room, so that a misspelt folder is not silently left out."""
        rooms = [room.folder[1] for room in ROOMS if room.folder[0] == house]
        names = [*rooms, *(others or ()), *([KNOWN_GOOD] if house == "toolchains" else ())]
        for item in root.items(house):
            known = item.is_folder and (item.name in rooms or item.name in (others or ()))
            if known or (others is None and nearest(item.name, names) in (None, item.name)):
                continue
            sort = "folder" if item.is_folder else "file"
            self.problems.add(item.shown, f"unknown {sort}{did_you_mean(item.name, names)}")

    def _thing(self, root: Root, room: Room, item: Item) -> None:
        if room.file:
            self._folder_thing(root, room, item)
        elif (name := stem(item, ".yaml", room.what, root)) is not None:
            document = self._document(item, room.model)
            if document:
                self._add(room, name, document, root=root.path, folder=item.path.parent)

    def _folder_thing(self, root: Root, room: Room, item: Item) -> None:
        if not item.is_folder:
            self.problems.add(item.shown, f"is a file, but {room.what} is a folder NAME/ with a {room.file}")
            return
        if not named(root, item, item.name):
            return
        items = {inner.name: inner for inner in root.items(*room.folder, item.name)}
        main = items.pop(room.file, None)
        tests = items.pop("tests", None) if room.field == "steps" else None
        files = {name: inner.path for name, inner in items.items() if not inner.is_folder}
        for inner in items.values():
            if inner.is_folder:
                self.problems.add(inner.shown, f"a folder is not expected in {room.what}'s folder")
        if main is None or main.is_folder:
            self.problems.add(item.shown, f"{room.file} is missing{_perhaps(room.file, files)}")
            return
        document = self._document(main, room.model)
        cases = self._cases(root, (*room.folder, item.name, "tests")) if tests else {}
        if document:
            self._add(room, item.name, document, root=root.path, folder=item.path, files=files, cases=cases)

    def _cases(self, root: Root, folder: tuple[str, ...]) -> dict[str, Path]:
        cases = {}
        for item in root.items(*folder):
            name = stem(item, ".mlir", "an IR test", root)
            if name is not None:
                cases[name] = item.path
        return cases

    def _document(self, item: Item, model: type[D]) -> tuple[Source, D] | None:
        """Read and validate a file; None, and problems, where it is wrong."""
        try:
            source = read(item.path, item.shown)
        except SourceError as error:
            self.problems.add(error.file, error.problem, error.place)
            return None
        try:
            return source, model.model_validate(source.data)
        except ValidationError as error:
            for path, sentence in sentences(model, source.data, error):
                self.problems.add(source.file, sentence, source.place(*path))
            return None

    def _add(self, room: Room, name: str, document: tuple[Source, Any], **rest: Any) -> None:
        source, data = document
        entry = Entry(name=name, document=data, source=source, **rest)
        other = self._folded.setdefault((room.field, name.casefold()), entry)
        if other is entry:
            self.found[room.field][name] = entry
        elif other.name == name:
            message = f"'{name}' is the name of two {room.field}; the other is {other.source.file}"
            self.problems.add(source.file, message)
        else:
            self.problems.add(source.file, f"'{name}' differs only in case from '{other.name}' in {other.source.file}")

    def _goldens(self, root: Root) -> None:
        for item in root.items("golden"):
            if item.is_folder and named(root, item, item.name):
                for inner in root.items("golden", item.name):
                    if inner.name == TOLERANCES and not inner.is_folder:
                        self.specific.extend(self._layers(inner, item.name))
                    else:
                        self.golden.append(GoldenFile(root.path, item.name, inner))
            elif item.name == TOLERANCES:
                self.general.extend(self._layers(item, None))
            elif not item.is_folder:
                fix = "golden/ holds tolerances.yaml and a folder for each workload"
                self.problems.add(item.shown, f"unknown file; {fix}{_perhaps(TOLERANCES, [item.name])}")

    def _layers(self, item: Item, workload: str | None) -> Iterable[LocatedLayer]:
        found = self._document(item, base.Tolerances)
        if found is None:
            return
        source, document = found
        for index, layer in enumerate(document.layers):
            yield LocatedLayer(document=layer, source=source, index=index, workload=workload, root=len(self._roots) - 1)


def _perhaps(right: str, found: Iterable[str]) -> str:
    """Which of the files found was probably meant to have the right name."""
    near = nearest(right, found)
    return f"; should '{near}' be called '{right}'?" if near else ""
