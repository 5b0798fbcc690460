"""Open the session of a command: the catalog, the user's folders, the chosen tests and their plan."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import check_known
from mlir_matrix.base.paths import Home, find_home, repository
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.models.toolchains import Release
from mlir_matrix.catalog.pins import PINS_MARK, Pins, is_folder, read_pins
from mlir_matrix.environments.host import HostTool
from mlir_matrix.environments.machine import x86_level
from mlir_matrix.environments.package import Releases
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, resolve
from mlir_matrix.environments.source.permissions import NONE, Permissions
from mlir_matrix.tolerances.numerics import Numerics
from mlir_matrix.tolerances.resolve import Resolved
from mlir_matrix.tolerances.resolve import resolve as resolve_tolerance
from mlir_matrix.validation import validate

if TYPE_CHECKING:
    # What is about toolchains alone need not wait for these.
    from mlir_matrix.expand.expansion import Test
    from mlir_matrix.plan.planner import Plan

Environment = ResolvedEnvironment | UnavailableEnvironment


@dataclass(frozen=True)
class Session:
    """The catalog, folders and pins of one command."""

    catalog: Catalog
    home: Home
    #: The options ``--pin`` and ``--environment``.
    pins: Pins
    #: The user's own builds of components, by release.
    builds: Mapping[str, HostTool] = field(default_factory=dict)
    permissions: Permissions = NONE

    @cached_property
    def lock_folders(self) -> tuple[Path, ...]:
        """The folders of lock files, one per catalog."""
        return tuple(root / "toolchains" / "locks" for root in self.catalog.roots)

    def environment(self, reference: str, *, sealed: bool = False) -> Environment:
        """Resolve an environment on this machine; ``reference`` is its name in plans, with pins.

        A ``sealed`` environment contains no host tools and has its own interpreter.
        """
        name, _, suffix = reference.partition(PINS_MARK)
        found = resolve(
            self.pins.meant(name),
            releases=self.releases(reference),
            lock_folders=self.lock_folders,
            needs=self.needs(reference),
            builds=self.builds,
            permissions=self.permissions,
            pins=suffix,
            sealed=sealed,
        )
        return replace(found, name=reference)

    def releases(self, reference: str) -> Releases:
        """Return the releases of an environment."""
        name, _, suffix = reference.partition(PINS_MARK)
        return self.with_entries(self.pins.override(suffix).releases(name))

    def needs(self, reference: str) -> Releases:
        """Return the releases that the packages of an environment are built with."""
        name, _, suffix = reference.partition(PINS_MARK)
        return self.with_entries(self.pins.override(suffix).needs(name))

    def with_entries(self, releases: Mapping[str, Release]) -> Releases:
        """Return releases with the entries of their components."""
        return [(self.catalog.components[component], release) for component, release in releases.items()]

    def environments(self, references: Iterable[str], *, sealed: bool = False) -> dict[str, Environment]:
        """Resolve environments, each once."""
        return {name: self.environment(name, sealed=sealed) for name in sorted(set(references))}

    def pins_of(self, reference: str) -> dict[str, str]:
        """Return the releases of an environment by component."""
        return {entry.name: release.release for entry, release in self.releases(reference)}

    @cached_property
    def numerics(self) -> Numerics:
        """The numerics attributes of the catalog."""
        return Numerics(self.catalog)

    def tolerance(self, test: Test, output: str) -> Resolved:
        """Return the bounds of one output of a test; outputs that only the program knows are named by their dtype."""
        workload = self.catalog.workloads[test.workload].document
        dtype = output if workload.source else workload.outputs[output].dtype
        return resolve_tolerance(
            self.catalog.layers,
            workload=test.workload,
            output=output,
            dtype=dtype,
            target=test.target,
            pipeline=test.pipeline,
            framework=test.framework,
            dims=workload.dims,
            numerics=self.numerics.of(test.workload, test.target, test.framework, test.pipeline),
        )

    def considered_layers(self, test: Test, output: str) -> list[dict[str, Any]]:
        """Return the tolerance layers that apply to an output; the last one wins."""
        bound = self.tolerance(test, output)
        rows: list[dict[str, Any]] = [
            {"layer": item.location, "applies": item.applies, "why": item.why}
            for item in bound.considered
            if item.applies and item.location != bound.location
        ]
        winner = {"layer": bound.location, "applies": True, "why": "wins"}
        winner |= {"atol": bound.atol_text, "rtol": bound.rtol_text}
        winner |= {"max_ulp": bound.max_ulp_text} if bound.max_ulp_text is not None else {}
        winner |= {"rationale": " ".join(bound.rationale.split())}
        return [*rows, winner]

    def with_pins(self, more: Mapping[str, str]) -> Session:
        """Return the session with more pins: components with the full names of their releases."""
        return replace(self, pins=Pins(self.catalog, {**self.pins.overrides, **more}, self.pins.swaps))

    def references(self, name: str) -> list[str]:
        """Return the environments that the tests of a suite or glob need."""
        from mlir_matrix.expand.select import choose

        plan = self.plan(choose(self.catalog, [name], pins=self.pins).tests())
        return list(dict.fromkeys(action.environment for action in plan.graph.actions.values()))

    def plan(self, tests: Iterable[Test]) -> Plan:
        from mlir_matrix.plan.planner import make_plan

        return make_plan(self.catalog, tests, self.tolerance, pins=self.pins)

    def tests(self, arguments: Sequence[str], devices: Collection[str] = ()) -> list[Test]:
        """Return the tests that arguments select, when these devices are granted."""
        from mlir_matrix.expand.select import choose, granted

        return list(granted(self.catalog, choose(self.catalog, arguments, pins=self.pins).tests(), devices, x86_level))


def session_of(roots: Sequence[Path], home: Home) -> Session:
    """Open a session of other catalogs, whose goldens are not read. Raise CatalogError."""
    catalog = validate(load(roots), stale_goldens=True)
    return Session(catalog=catalog, home=home, pins=Pins(catalog))


def open_session(
    *,
    catalogs: Sequence[Path] = (),
    cache_dir: Path | None = None,
    swaps: Mapping[str, str] = MappingProxyType({}),
    pins: Sequence[str] = (),
    permissions: Permissions = NONE,
    stale_goldens: bool = False,
) -> Session:
    """Load the catalogs. Raise CatalogError for their problems, UsageError for an unknown folder, environment or pin.

    ``stale_goldens``: no problem for what reads no golden.
    """
    for folder in catalogs:
        if not folder.is_dir():
            raise UsageError(f"--catalog {folder}: there is no such folder")
    catalog = validate(load([repository(), *catalogs]), stale_goldens=stale_goldens)
    check_known("environment", (*swaps, *swaps.values()), catalog.environments, "--environment: ")
    home = find_home(cache_dir=cache_dir)
    catalog, pins, builds = _with_builds(catalog, pins, home)
    return Session(
        catalog=catalog,
        home=home,
        pins=Pins(catalog, read_pins(catalog, pins), swaps),
        builds=builds,
        permissions=permissions,
    )


def _with_builds(
    catalog: Catalog, pins: Sequence[str], home: Home
) -> tuple[Catalog, Sequence[str], Mapping[str, HostTool]]:
    """Return the catalog with the user's own builds, ``llvm=DIR``, as releases, and the pins that name these."""
    if not any(is_folder(word.partition("=")[2]) for word in pins):
        return catalog, pins, {}
    from mlir_matrix.environments.own_build import find_build, release_of_build

    components, builds, words = dict(catalog.components), dict[str, HostTool](), []
    for word in pins:
        name, _, wanted = word.partition("=")
        if is_folder(wanted) and name in components:
            entry = components[name]
            build = find_build(entry, os.path.expanduser(wanted), home.cache / "own-builds.json")
            releases = (*entry.document.releases, release_of_build(build))
            components[name] = replace(entry, document=entry.document.model_copy(update={"releases": releases}))
            builds[build.release] = build
            wanted = build.release
        words.append(f"{name}={wanted}" if name in components else word)
    return replace(catalog, components=components), words, builds


def remember(home: Home, roots: Sequence[Path]) -> Path:
    """Record that a home is used with these catalogs, if it is writable; return the path of the record."""
    note = _note(home, roots)
    if not note.exists():
        with suppress(InfrastructureError):
            write_text(note, json.dumps([os.path.realpath(root) for root in roots]) + "\n")
    return note


def others(home: Home, roots: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the other catalogs that a home is used with; forget those whose folders are gone."""
    own = _note(home, roots)
    for note in sorted(own.parent.glob("*.json")):
        try:
            found = tuple(map(Path, json.loads(note.read_bytes())))
        except (OSError, ValueError, TypeError):
            found = ()
        if not found or not all(map(Path.is_dir, found)):
            with suppress(OSError):
                note.unlink()
        elif note != own:
            yield found


def _note(home: Home, roots: Sequence[Path]) -> Path:
    return home.cache / "catalogs" / f"{digest_value([os.path.realpath(root) for root in roots])[:16]}.json"
