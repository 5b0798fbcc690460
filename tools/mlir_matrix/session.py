"""Open the session of a command: the catalog, the user's folders, the chosen tests and their plan."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.models.toolchains import Release
from mlir_matrix.catalog.pins import PINS_MARK, Pins, read_pins
from mlir_matrix.digest import digest_value
from mlir_matrix.environments.package import Releases
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, resolve
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.files import write_text
from mlir_matrix.names import did_you_mean
from mlir_matrix.paths import Home, find_home, repository
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
    """One invocation's view of the files and folders."""

    catalog: Catalog
    home: Home
    #: What a person asks for: releases (``--pin``) and environments that stand in for others (``--environment``).
    pins: Pins

    @cached_property
    def lock_folders(self) -> tuple[Path, ...]:
        """Where locks of environments may stand: in each catalog's toolchains."""
        return tuple(root / "toolchains" / "locks" for root in self.catalog.roots)

    def environment(self, reference: str, *, sealed: bool = False) -> Environment:
        """Resolve an environment on this machine; ``reference`` is its name in plans, pins included.

        ``sealed``: with nothing in it that is this machine's, the interpreter included.
        """
        name, _, suffix = reference.partition(PINS_MARK)
        found = resolve(
            self.pins.meant(name),
            releases=self.releases(reference),
            lock_folders=self.lock_folders,
            needs=self.needs(reference),
            pins=suffix,
            sealed=sealed,
        )
        return replace(found, name=reference)

    def releases(self, reference: str) -> Releases:
        """What an environment consists of."""
        name, _, suffix = reference.partition(PINS_MARK)
        return self.with_entries(self.pins.override(suffix).releases(name))

    def needs(self, reference: str) -> Releases:
        """What releases of an environment are built with."""
        name, _, suffix = reference.partition(PINS_MARK)
        return self.with_entries(self.pins.override(suffix).needs(name))

    def with_entries(self, releases: Mapping[str, Release]) -> Releases:
        """Releases by component, each with what the component's file says."""
        return [(self.catalog.components[component], release) for component, release in releases.items()]

    def environments(self, references: Iterable[str], *, sealed: bool = False) -> dict[str, Environment]:
        """Several of them, by reference."""
        return {name: self.environment(name, sealed=sealed) for name in sorted(set(references))}

    def pins_of(self, reference: str) -> dict[str, str]:
        """Component releases of an environment."""
        return {entry.name: release.release for entry, release in self.releases(reference)}

    @cached_property
    def numerics(self) -> Numerics:
        """What the catalog states about the numerics of tests."""
        return Numerics(self.catalog)

    def tolerance(self, test: Test, output: str) -> Resolved:
        """The bounds that apply to one output of a test."""
        workload = self.catalog.workloads[test.workload].document
        return resolve_tolerance(
            self.catalog.layers,
            workload=test.workload,
            output=output,
            dtype=workload.outputs[output].dtype,
            target=test.target,
            pipeline=test.pipeline,
            framework=test.framework,
            dims=workload.dims,
            numerics=self.numerics.of(test.workload, test.target, test.pipeline),
        )

    def considered_layers(self, test: Test, output: str) -> list[dict[str, Any]]:
        """Every tolerance layer, the one that wins last, and why each applies or not."""
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

    def references(self, name: str) -> list[str]:
        """Return the environments that the tests of a suite or glob need."""
        from mlir_matrix.expand.select import choose

        plan = self.plan(choose(self.catalog, [name], pins=self.pins).tests())
        return list(dict.fromkeys(action.environment for action in plan.graph.actions.values()))

    def plan(self, tests: Iterable[Test]) -> Plan:
        """The plan of these tests."""
        from mlir_matrix.plan.planner import make_plan

        return make_plan(self.catalog, tests, self.tolerance, pins=self.pins)


def session_of(roots: Sequence[Path], home: Home) -> Session:
    """What other catalogs make of a home. Raises CatalogError."""
    catalog = validate(load(roots))
    return Session(catalog=catalog, home=home, pins=Pins(catalog))


def open_session(
    *,
    catalogs: Sequence[Path] = (),
    cache_dir: Path | None = None,
    swaps: Mapping[str, str] = MappingProxyType({}),
    pins: Sequence[str] = (),
) -> Session:
    """Load the catalogs. Raises CatalogError for what is wrong in them, UsageError where a folder or a pin is none."""
    for folder in catalogs:
        if not folder.is_dir():
            raise UsageError(f"--catalog {folder}: there is no such folder")
    catalog = validate(load([repository(), *catalogs]))
    for name in (*swaps, *swaps.values()):
        if name not in catalog.environments:
            raise UsageError(
                f"--environment: there is no environment {name!r}{did_you_mean(name, catalog.environments)}"
            )
    chosen = Pins(catalog, read_pins(catalog, pins), swaps)
    return Session(catalog=catalog, home=find_home(cache_dir=cache_dir), pins=chosen)


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
