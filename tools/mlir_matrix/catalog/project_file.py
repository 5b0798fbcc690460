"""Read the file of a project."""

from __future__ import annotations

import os
from pathlib import Path

from mlir_matrix.catalog.load import read_document
from mlir_matrix.catalog.messages import Problems
from mlir_matrix.catalog.models.project import Project
from mlir_matrix.catalog.pins import is_folder
from mlir_matrix.catalog.project import FoundLimits, FoundProject


def read_project(path: Path) -> FoundProject:
    """Return the project of a file. Raise CatalogError for what is wrong in it, with file, line and column."""
    problems = Problems()
    found = read_document(path, str(path), Project, problems)
    problems.raise_if_any()
    assert found is not None
    source, project = found
    folder = path.parent
    catalogs: dict[str, Path] = {}
    for index, name in enumerate(project.catalogs):
        catalog = Path(os.path.normpath(folder / os.path.expanduser(name)))
        if not catalog.is_dir():
            problems.add(source.file, f"there is no folder '{catalog}'", source.place("catalogs", index))
        elif catalogs.setdefault(os.path.realpath(catalog), catalog) is not catalog:
            problems.add(source.file, f"the folder '{name}' is named twice", source.place("catalogs", index))
    pins = []
    for component, wanted in project.pins.items():
        value = wanted
        if is_folder(wanted):
            value = os.path.normpath(folder / os.path.expanduser(wanted))
            if not os.path.isdir(value):
                message = f"there is no folder '{value}'; build {component} there again, or pin a release"
                problems.add(source.file, message, source.place("pins", component))
        pins.append(f"{component}={value}")
    problems.raise_if_any()
    machine = project.machine or ""
    if "/" in machine or machine.endswith(".yaml"):
        machine = os.path.normpath(folder / machine)
    tests = [project.suite] if project.suite else []
    if project.target:
        tests.append(f"*/*/{project.target}/*")
    limits = FoundLimits(**project.limits.model_dump())
    return FoundProject(tuple(catalogs.values()), tuple(tests), tuple(pins), machine, limits)
