"""Open the session of a command, choose its tests and plan them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import check_known
from mlir_matrix.base.paths import Home, find_home, repository
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.pins import Pins, is_folder, is_of_step, read_pins, read_step_pins
from mlir_matrix.catalog.project import find_project_file
from mlir_matrix.environments.machine import HOST, x86_level
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.permissions import NONE, Permissions
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.plan.kept_catalog import load_catalog

if TYPE_CHECKING:
    # Imported only for types: verbs of toolchains must not wait for them.
    from mlir_matrix.environments.own_packages import OwnBuild
    from mlir_matrix.expand.expansion import Test
    from mlir_matrix.plan.planner import PlannedTests


def session_of(roots: Sequence[Path], home: Home, *, size: str = "") -> Session:
    """Open a session of other catalogs, whose goldens are not read, in a size of theirs. Raise CatalogError and UsageError."""
    catalog = _in_size(validate(load(roots), stale_goldens=True), size)
    return Session(catalog=catalog, home=home, pins=Pins(catalog))


def _in_size(catalog: Catalog, size: str) -> Catalog:
    if not size:
        return catalog
    from mlir_matrix.expand.sizes import sized

    return sized(catalog, size)


def open_session(
    *,
    catalogs: Sequence[Path] = (),
    cache_dir: Path | None = None,
    swaps: Mapping[str, str] = MappingProxyType({}),
    pins: Sequence[str] = (),
    permissions: Permissions = NONE,
    size: str = "",
    stale_goldens: bool = False,
) -> Session:
    """Load the catalogs. Raise CatalogError for their problems, UsageError for an unknown folder, environment or pin.

    ``size``: a named size of workloads, instead of their dimensions. ``stale_goldens``: accept stale goldens, for verbs that do not
    read them.
    """
    for folder in catalogs:
        if not folder.is_dir():
            raise UsageError(f"--catalog {folder}: there is no such folder")
    home = find_home(cache_dir=cache_dir)
    catalog = _in_size(load_catalog([repository(), *catalogs], home, stale_goldens=stale_goldens), size)
    check_known("environment", (*swaps, *swaps.values()), catalog.environments, "--environment: ")
    catalog, words, builds = _with_builds(catalog, [word for word in pins if not is_of_step(word)], home)
    of_steps = read_step_pins(catalog, filter(is_of_step, pins))
    return Session(
        catalog=catalog,
        home=home,
        pins=Pins(catalog, read_pins(catalog, words), swaps, of_steps),
        builds=builds,
        permissions=permissions,
    )


def plan_tests(session: Session, tests: Iterable[Test]) -> PlannedTests:
    """Return the plan of tests under the session's pins."""
    from mlir_matrix.expand.tolerances import ToleranceResolver
    from mlir_matrix.plan.planner import make_plan

    return make_plan(session.catalog, tests, ToleranceResolver(session.catalog).of, pins=session.pins)


def select_tests(session: Session, arguments: Sequence[str], devices: Collection[str] = ()) -> list[Test]:
    """Return the tests that suites, globs and identifiers select, with these devices granted."""
    from mlir_matrix.expand.select import choose, granted

    chosen = choose(session.catalog, arguments, pins=session.pins).tests()
    return list(granted(session.catalog, chosen, devices, x86_level, HOST.name))


def environments_of(session: Session, name: str) -> list[str]:
    """Return the environments that the tests of a suite or glob need."""
    from mlir_matrix.expand.select import choose

    plan = plan_tests(session, choose(session.catalog, [name], pins=session.pins).tests())
    return list(dict.fromkeys(action.environment for action in plan.graph.actions.values()))


def _may_be_strangers(pinned: str, roots: Sequence[Path]) -> bool:
    """Return whether a path is in a catalog or project, which may come from a stranger with a ``matrix.yaml`` that pins it."""
    project = find_project_file(Path.cwd())
    folders = [*roots[1:], *([project.parent] if project else [])]
    real = Path(os.path.realpath(pinned))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


def _with_builds(
    catalog: Catalog, pins: Sequence[str], home: Home
) -> tuple[Catalog, Sequence[str], Mapping[str, OwnBuild]]:
    """Return the catalog with the user's own builds, ``llvm=DIR``, added as releases, and the pins that name them."""
    components, words = dict(catalog.components), list[str]()
    builds: dict[str, OwnBuild] = {}
    for word in pins:
        name, _, wanted = word.partition("=")
        path = os.path.expanduser(wanted)
        # A misspelt release is no folder.
        is_path = "/" in wanted or wanted.endswith(".whl") or os.path.exists(path)
        if name in components and is_folder(wanted) and is_path:
            from mlir_matrix.environments.own_build import find_build, release_of_build
            from mlir_matrix.environments.own_packages import OwnPackages, OwnWheel

            entry = components[name]
            build = find_build(entry, path, home)
            if isinstance(build, OwnPackages | OwnWheel) and _may_be_strangers(build.pinned, catalog.roots):
                build = replace(build, foreign=True)
            releases = (*entry.document.releases, release_of_build(build, entry.document))
            components[name] = replace(entry, document=entry.document.model_copy(update={"releases": releases}))
            builds[build.release] = build
            words.append(f"{name}={build.release}")
        else:
            words.append(word)
    return replace(catalog, components=components) if builds else catalog, words, builds
