"""Load the folders of a catalog. No code from them runs, and no file outside of them is read."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from mlir_matrix.base.names import MEMBER, did_you_mean, nearest, should_be_called
from mlir_matrix.catalog.catalog import Catalog, Entry, LocatedLayer, listed
from mlir_matrix.catalog.corpora import CorpusError, members_of, with_data, with_program, without_data
from mlir_matrix.catalog.folders import Item, Root, named, stem
from mlir_matrix.catalog.golden_files import GoldenFile
from mlir_matrix.catalog.messages import Problems, sentences
from mlir_matrix.catalog.models import base, costs, machines, suites, toolchains
from mlir_matrix.catalog.releases import number
from mlir_matrix.catalog.run_lines import RunLine, run_lines
from mlir_matrix.catalog.yaml_reader import Source, SourceError, read

D = TypeVar("D", bound=base.Document)

TOLERANCES, COSTS = "tolerances.yaml", "costs.yaml"


@dataclass(frozen=True)
class Section:
    """A folder of a catalog with entries of one kind."""

    #: The mapping of :class:`Catalog` that has the entries.
    field: str
    folder: tuple[str, str]
    model: type[base.Document]
    #: The kind with its article, for messages.
    noun: str
    #: The YAML file of an entry that is a folder; empty where each entry is a file.
    file: str = ""
    #: Whether an entry that is wrong stops only what names it.
    is_alone: bool = False


SECTIONS = (
    Section("kinds", ("recipes", "kinds"), base.Kind, "a kind"),
    Section("components", ("toolchains", "components"), toolchains.Component, "a component"),
    Section("environments", ("toolchains", "environments"), toolchains.Environment, "an environment"),
    Section("sources", ("matrix", "sources"), base.SourceForm, "a source", "source.yaml"),
    Section("corpora", ("matrix", "corpora"), base.Corpus, "a corpus", "corpus.yaml"),
    Section("frameworks", ("matrix", "frameworks"), base.Framework, "a framework", "framework.yaml"),
    Section("steps", ("recipes", "steps"), base.Step, "a step", "step.yaml"),
    Section("pipelines", ("recipes", "pipelines"), base.Pipeline, "a pipeline"),
    Section("targets", ("matrix", "targets"), base.Target, "a target", "target.yaml"),
    Section("workloads", ("matrix", "workloads"), base.Workload, "a workload", "workload.yaml"),
    Section("suites", ("matrix", "suites"), suites.Suite, "a suite"),
    Section("expectations", ("matrix", "expectations"), suites.Expectations, "a file of expectations"),
    Section("machines", ("matrix", "machines"), machines.Machine, "a machine", is_alone=True),
)
#: In ``toolchains/``: the default pins.
KNOWN_GOOD = "known-good.yaml"
#: In ``matrix/``: flaky tests.
QUARANTINE = "quarantine.yaml"
#: In ``matrix/``: what ``matrix fuzz`` need not report.
KNOWN_FINDINGS = "known-findings.yaml"
#: In ``containers/``: how images are made.
IMAGES = "images.yaml"
#: The folder with sections that may have other folders, whose names are not close to those of sections.
_OPEN = "toolchains"
#: Folders with sections.
_PARENTS = ("matrix", "recipes", _OPEN)
#: The folders of a catalog.
FOLDERS = (*_PARENTS, "containers", "golden")


def load(roots: Sequence[Path], first: Loader | None = None) -> Catalog:
    """Load the catalogs in ``roots``: this repository first, then each of the user's.

    Contradictions among files are found by :func:`mlir_matrix.expand.checks.validate.validate`. ``first``: what has read the
    first root, and nothing else.

    Raises CatalogError with a line for each thing that is wrong, at most twenty.
    """
    loader = first or read_first(roots[0])
    for path in roots[1:]:
        loader.read(path, shown=str(path))
    return loader.catalog(roots)


def read_first(root: Path) -> Loader:
    """Read the first catalog, whose files are shown without its folder."""
    loader = Loader()
    loader.read(root, shown="")
    return loader


class Loader:
    """Reads catalog folders; collects entries and problems."""

    def __init__(self) -> None:
        self.problems = Problems()
        self.found: dict[str, dict[str, Entry[Any]]] = {section.field: {} for section in SECTIONS}
        self.general: list[LocatedLayer[base.Layer]] = []
        self.specific: list[LocatedLayer[base.Layer]] = []
        self.general_costs: list[LocatedLayer[costs.CostLayer]] = []
        self.specific_costs: list[LocatedLayer[costs.CostLayer]] = []
        self.golden: list[GoldenFile] = []
        self.known_good: list[Entry[toolchains.KnownGood]] = []
        self.quarantines: list[Entry[suites.Quarantine]] = []
        self.known_findings: list[Entry[suites.KnownFindings]] = []
        #: The keys of container files; later catalogs override earlier ones.
        self.containers: dict[str, Any] = {}
        #: Folders without a catalog, which may be checkouts of corpora, and how they are shown.
        self.checkouts: dict[Path, str] = {}
        #: By corpus or suite that needs a checkout: which.
        self.without_data: dict[str, str] = {}
        self._roots: set[str] = set()
        self._folded: dict[tuple[str, str], Entry[Any]] = {}

    def catalog(self, roots: Sequence[Path]) -> Catalog:
        """Return what was read of these roots. Raise CatalogError."""
        self._members()
        self.problems.raise_if_any()
        found: Any = {name: dict(sorted(entries.items())) for name, entries in self.found.items()}
        return Catalog(
            roots=tuple(roots),
            layers=(*self.general, *self.specific),
            cost_layers=(*self.general_costs, *self.specific_costs),
            known_good=tuple(self.known_good),
            quarantines=tuple(self.quarantines),
            known_findings=tuple(self.known_findings),
            golden_files=tuple(self.golden),
            over=self.problems.over,
            without_data=self.without_data,
            containers=toolchains.Containers(**self.containers),
            **found,
        )

    def read(self, path: Path, shown: str) -> None:
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
        if not any(os.path.lexists(path / name) for name in FOLDERS):
            self.checkouts[path] = where
            return
        for name in sorted(os.listdir(path)):
            # A project may have folders of its own, tools/ among them: only close misspellings are refused.
            is_other = name not in FOLDERS and (path / name).is_dir()
            if is_other and difflib.get_close_matches(name, FOLDERS, 1, cutoff=0.85):
                self.problems.add(f"{where}/{name}", f"unknown folder{did_you_mean(name, FOLDERS)}")
        self._read(root)

    def _read(self, root: Root) -> None:
        for parent in _PARENTS:
            self._check_parent(root, parent)
        for section in SECTIONS:
            for item in root.items(*section.folder):
                if section.file:
                    self._folder_entry(root, section, item)
                elif (name := stem(item, ".yaml", section.noun, root)) is not None:
                    other = self.found[section.field].get(name)
                    if section.model is toolchains.Component and other is not None:
                        self._add_releases(item, root, other)
                        continue
                    problems = Problems() if section.is_alone else self.problems
                    document = read_document(item.path, item.shown, section.model, problems)
                    if section.is_alone:
                        self.problems.leave_out_if_any(section.field, name, problems)
                    self._add(section, name, document, root=root.path, folder=item.path.parent)
        self.known_good += self._single(root, "toolchains", KNOWN_GOOD, toolchains.KnownGood)
        self.quarantines += self._single(root, "matrix", QUARANTINE, suites.Quarantine)
        self.known_findings += self._single(root, "matrix", KNOWN_FINDINGS, suites.KnownFindings)
        self._containers(root)
        self._goldens(root)

    def _members(self) -> None:
        """Add the members of corpora, and the programs of workloads in a foreign form; validation reports unknown forms."""
        forms, workloads, corpora = self.found["sources"], self.found["workloads"], self.found["corpora"]
        self._take_data()
        for entry in [*corpora.values(), *workloads.values()]:
            form = forms.get(entry.document.source or "")
            if form is None:
                continue
            try:
                if isinstance(entry.document, base.Workload):
                    workloads[entry.name] = with_program(entry, form)
                    continue
                if entry.name in self.without_data:
                    continue
                found = members_of(entry, form)
            except CorpusError as error:
                self.problems.add(entry.source.file, str(error), entry.source.place(*error.keys))
                continue
            if found.why_none:
                self.problems.leave_out("corpora", entry.name, entry.source.file, found.why_none)
            workloads.update(found.workloads)
            self.problems.over.update({("workloads", name): why for name, why in found.unusable.items()})

    def _take_data(self) -> None:
        """Give corpora the checkouts that have their programs. Take out the suites of corpora that have none."""
        corpora = self.found["corpora"]
        used = set[Path]()
        for name, entry in corpora.items():
            found = with_data(entry, self.checkouts)
            if found is None:
                self.without_data[name] = without_data(entry)
            else:
                corpora[name] = found
                used.add(found.root)
        for path, where in self.checkouts.items():
            if path not in used:
                self.problems.add(where, self._holds_nothing())
        self._take_out_suites()

    def _holds_nothing(self) -> str:
        """Return what was looked for in a folder: parts of a catalog, and programs of corpora."""
        folders = [each.document.folder or "." for each in self.found["corpora"].values() if each.document.data]
        data = f"; and no programs of a corpus: expected {' or '.join(sorted(folders))}" if folders else ""
        return f"holds no catalog: none of {', '.join(f'{name}/' for name in FOLDERS)} is here{data}"

    def _take_out_suites(self) -> None:
        """Take out suites that include members of corpora without data, and suites that contain such a suite."""
        suites, taken_out = self.found["suites"], dict[str, str]()
        for name, entry in suites.items():
            # Globs over tests end with the workload.
            workloads = [glob.rpartition("/")[2] for glob in entry.document.workload_globs()]
            for corpus, why in self.without_data.items():
                if any(workload.startswith(f"{corpus}{MEMBER}") for workload in workloads):
                    taken_out[name] = why
        before = -1
        while before != len(taken_out):
            before = len(taken_out)
            for name, entry in suites.items():
                for inner in taken_out.keys() & set(entry.document.suites):
                    taken_out.setdefault(name, taken_out[inner])
        for name in taken_out:
            del suites[name]
            self.found["expectations"].pop(name, None)
        self.without_data |= taken_out

    def _single(self, root: Root, parent: str, file: str, model: type[D]) -> Iterator[Entry[D]]:
        """Read a file that a catalog has at most once."""
        for item in root.items(parent):
            if item.name == file and (found := self._document(item, model)):
                name, folder = file.partition(".")[0], item.path.parent
                yield Entry(name=name, document=found[1], source=found[0], root=root.path, folder=folder)

    def _check_parent(self, root: Root, parent: str) -> None:
        """Refuse unknown files and folders, so that a misspelt section is not silently left out."""
        sections = [section.folder[1] for section in SECTIONS if section.folder[0] == parent]
        files = {"toolchains": [KNOWN_GOOD], "matrix": [QUARANTINE, KNOWN_FINDINGS]}.get(parent, [])
        names = [*sections, *files]
        for item in root.items(parent):
            known = item.name in names and item.is_folder is (item.name not in files)
            if known or (parent == _OPEN and nearest(item.name, names) in (None, item.name)):
                continue
            kind = "folder" if item.is_folder else "file"
            self.problems.add(item.shown, f"unknown {kind}{did_you_mean(item.name, names)}")

    def _containers(self, root: Root) -> None:
        for item in root.items("containers"):
            if item.name != IMAGES:
                # A project may have other files in a folder of that name.
                if nearest(item.name, [IMAGES]):
                    self.problems.add(item.shown, f"unknown file{did_you_mean(item.name, [IMAGES])}")
            elif found := self._document(item, toolchains.Containers):
                self.containers |= found[1].model_dump(exclude_unset=True)

    def _folder_entry(self, root: Root, section: Section, item: Item) -> None:
        if not item.is_folder:
            message = f"is a file, but {section.noun} is a folder NAME/ with a {section.file}"
            self.problems.add(item.shown, message)
            return
        if not named(root, item, item.name):
            return
        items = {inner.name: inner for inner in root.items(*section.folder, item.name)}
        main = items.pop(section.file, None)
        tests = items.pop("tests", None) if section.field == "steps" else None
        files = {name: inner.path for name, inner in items.items() if not inner.is_folder}
        for inner in items.values():
            if inner.is_folder:
                self.problems.add(inner.shown, f"a folder is not expected in {section.noun}'s folder")
        if main is None or main.is_folder:
            self.problems.add(item.shown, f"{section.file} is missing{should_be_called(section.file, files)}")
            return
        document = self._document(main, section.model)
        cases: dict[str, Item] = {}
        for case in root.items(*section.folder, item.name, "tests") if tests else ():
            if name := stem(case, ".mlir", "an IR test", root):
                cases[name] = case
        rest = {"root": root.path, "folder": item.path, "files": files, "runs": self._runs(cases, document)}
        rest["cases"] = {name: case.path for name, case in cases.items()}
        self._add(section, item.name, document, **rest)
        if document and isinstance(document[1], base.Target):
            for mode, target in document[1].in_modes().items():
                self._add(section, f"{item.name}+{mode}", (document[0], target), **rest)

    def _runs(self, cases: Mapping[str, Item], document: tuple[Source, Any] | None) -> dict[str, list[RunLine]]:
        """Return the RUN lines of a step's IR tests that have some, by case."""
        found: dict[str, list[RunLine]] = {}
        if document is None:
            return found
        for name, case in cases.items():
            try:
                # The action that reads the test reports what is not UTF-8.
                text = case.path.read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                self.problems.add(case.shown, f"cannot be read: {error.strerror}")
                continue
            for line in run_lines(text, document[1]) if "RUN:" in text else ():
                if isinstance(line, RunLine):
                    found.setdefault(name, []).append(line)
                else:
                    self.problems.add(f"{case.shown}:{line[0]}:1", line[1])
        return found

    def _document(self, item: Item, model: type[D]) -> tuple[Source, D] | None:
        return read_document(item.path, item.shown, model, self.problems)

    def _add(self, section: Section, name: str, document: tuple[Source, Any] | None, **rest: Any) -> None:
        if document is None:
            return
        source, data = document
        entry = Entry(name=name, document=data, source=source, **rest)
        other = self._folded.setdefault((section.field, name.casefold()), entry)
        if other is entry:
            self.found[section.field][name] = entry
        elif other.name == name:
            message = f"'{name}' is the name of two {section.field}; the other is {other.source.file}"
            self.problems.add(source.file, message)
        else:
            self.problems.add(source.file, f"'{name}' differs only in case from '{other.name}' in {other.source.file}")

    def _add_releases(self, item: Item, root: Root, to: Entry[toolchains.Component]) -> None:
        """Add the releases of a file to a component of an earlier catalog, in the order of their numbers."""
        found = self._document(item, toolchains.AddedReleases)
        if found is None:
            self.problems.add(
                item.shown, f"it may only add 'releases': {to.source.file} defines the component {to.name}"
            )
            return
        source, document = found
        more = Entry(name=to.name, document=document, source=source, root=root.path, folder=item.path.parent)
        releases, added = list(to.document.releases), dict(to.added)
        known = {release.release: entry.source.position("releases", index) for entry, index, release in listed(to)}
        for index, release in enumerate(document.releases):
            name = release.release
            if name in known:
                message = (
                    f"{to.name} already has the release '{name}', at {known[name]}; releases are added, not replaced"
                )
                self.problems.add(source.file, message, source.place("releases", index, "release"))
                continue
            known[name] = source.position("releases", index)
            added[name] = more
            later = (at for at, each in enumerate(releases) if number(each.release) > number(name))
            releases.insert(next(later, len(releases)), release)
        whole = to.document.model_copy(update={"releases": tuple(releases)})
        self.found["components"][to.name] = replace(to, document=whole, added=added)

    def _goldens(self, root: Root) -> None:
        for item in root.items("golden"):
            if item.is_folder and named(root, item, item.name):
                for inner in root.items("golden", item.name):
                    if inner.name == TOLERANCES and not inner.is_folder:
                        self.specific.extend(self._layers(inner, base.Tolerances, item.name))
                    elif inner.name == COSTS and not inner.is_folder:
                        self.specific_costs.extend(self._layers(inner, costs.CostGoldens, item.name))
                    else:
                        self.golden.append(GoldenFile(root.path, item.name, inner))
            elif item.name == TOLERANCES:
                self.general.extend(self._layers(item, base.Tolerances, None))
            elif item.name == COSTS:
                self.general_costs.extend(self._layers(item, costs.CostGoldens, None))
            elif not item.is_folder:
                fix = "golden/ holds tolerances.yaml, costs.yaml and a folder for each workload"
                meant = should_be_called(TOLERANCES, [item.name]) or should_be_called(COSTS, [item.name])
                self.problems.add(item.shown, f"unknown file; {fix}{meant}")

    def _layers(
        self, item: Item, model: type[base.Tolerances | costs.CostGoldens], workload: str | None
    ) -> Iterable[LocatedLayer[Any]]:
        found = self._document(item, model)
        if found is None:
            return
        source, document = found
        for index, layer in enumerate(document.layers):
            yield LocatedLayer(document=layer, source=source, index=index, workload=workload, root=len(self._roots) - 1)


def read_document(path: Path, shown: str, model: type[D], problems: Problems) -> tuple[Source, D] | None:
    """Read and validate a file; return None, and add problems, where it is wrong."""
    try:
        source = read(path, shown)
    except SourceError as error:
        problems.add(error.file, error.problem, error.place)
        return None
    try:
        return source, model.model_validate(source.data)
    except ValidationError as error:
        for keys, sentence in sentences(model, source.data, error):
            problems.add(source.file, sentence, source.place(*keys))
        return None
