"""Read the file of a project."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.base.paths import repository
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.catalog.load import FOLDERS, read_document
from mlir_matrix.catalog.messages import Problems
from mlir_matrix.catalog.models.project import Project
from mlir_matrix.catalog.models.toolchains import AddedReleases, Component
from mlir_matrix.catalog.pins import is_folder
from mlir_matrix.catalog.project import FoundLimits, FoundProject, entry_names
from mlir_matrix.catalog.releases import find
from mlir_matrix.catalog.yaml_reader import Source


def read_project(path: Path) -> FoundProject:
    """Return the project of a file. Raise CatalogError for what is wrong in it, with file, line and column."""
    problems = Problems()
    found = read_document(path, str(path), Project, problems)
    problems.raise_if_any()
    assert found is not None
    source, project = found
    catalogs = tuple(_catalogs(source, project, path.parent, problems))
    pins = tuple(_pins(source, project, path.parent, problems))
    _check_names(source, project, [repository(), *catalogs], problems)
    problems.raise_if_any()
    machine = project.machine or ""
    if _is_file(machine):
        machine = _below(path.parent, machine)
    tests = [project.suite or DEFAULT_SUITE] if project.suite or project.target else []
    if project.target:
        tests.append(f"*/*/{project.target}/*")
    return FoundProject(catalogs, tuple(tests), pins, machine, FoundLimits(**project.limits.model_dump()))


def _catalogs(source: Source, project: Project, folder: Path, problems: Problems) -> Iterator[Path]:
    """Yield the folders of catalogs. Our own one is always there."""
    is_default = "catalogs" not in project.model_fields_set
    known: set[str] = set()
    for index, name in enumerate(project.catalogs):
        catalog = Path(_below(folder, name))
        if is_default and not any((catalog / each).is_dir() for each in FOLDERS):
            # A project may only set pins.
            continue
        real = os.path.realpath(catalog)
        if not catalog.is_dir():
            problems.add(source.file, f"there is no folder '{catalog}'", source.place("catalogs", index))
        elif real in known:
            problems.add(source.file, f"the folder '{name}' is named twice", source.place("catalogs", index))
        elif real != os.path.realpath(repository()):
            yield catalog
        known.add(real)


def _pins(source: Source, project: Project, folder: Path, problems: Problems) -> Iterator[str]:
    for component, wanted in project.pins.items():
        value = wanted
        if is_folder(wanted):
            value = _below(folder, wanted)
            if not os.path.exists(value):
                what = "file" if value.endswith(".whl") else "folder"
                message = f"there is no {what} '{value}'; build {component} there again, or pin a release"
                problems.add(source.file, message, source.place("pins", component))
        yield f"{component}={value}"


def _check_names(source: Source, project: Project, roots: Sequence[Path], problems: Problems) -> None:
    """Report names that no catalog has."""
    named = [("suite", project.suite), ("target", project.target)]
    if project.machine and not _is_file(project.machine):
        named.append(("machine", project.machine))
    for key, name in named:
        known = entry_names(roots, f"matrix/{key}s")
        # A target may be in a mode, which its file defines: aarch64+contract.
        if name and name not in known and name.partition("+")[0] not in known:
            problems.add(source.file, f"there is no {key} '{name}'{did_you_mean(name, known)}", source.place(key))
    components = entry_names(roots, "toolchains/components")
    for component, wanted in project.pins.items():
        place = source.place("pins", component)
        if component not in components:
            near = did_you_mean(component, components)
            problems.add(source.file, f"there is no component '{component}'{near}", place)
        elif not is_folder(wanted):
            releases = _releases(roots, component)
            if releases and find(releases, wanted) is None:
                shown = ", ".join(releases)
                problems.add(source.file, f"{component} has no release '{printable(wanted)}'; it has {shown}", place)


def _is_file(machine: str) -> bool:
    """Return whether a machine is named by its file."""
    return "/" in machine or machine.endswith(".yaml")


def _releases(roots: Sequence[Path], component: str) -> list[str]:
    """Return the releases of a component in all catalogs. A file that cannot be read has none here: loading it says why."""
    paths = [root / "toolchains/components" / f"{component}.yaml" for root in roots]
    files = list(filter(Path.is_file, paths))
    defined = [read_document(path, str(path), Component, Problems()) for path in files[:1]]
    added = [read_document(path, str(path), AddedReleases, Problems()) for path in files[1:]]
    found = [release.release for each in defined if each for release in each[1].releases]
    found += [release.release for each in added if each for release in each[1].releases]
    return found


def _below(folder: Path, name: str) -> str:
    return os.path.normpath(folder / os.path.expanduser(name))
