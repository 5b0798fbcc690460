"""Pins: which release of each component counts, for each environment.

The known-good set is the default; an environment may keep to releases of its own; what a person asks for (``--pin``)
or a suite varies (``…@llvm=19``) overrides both. Pure: a value made of the catalog and of words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.releases import find
from mlir_matrix.errors import UsageError
from mlir_matrix.names import did_you_mean, printable

#: Between an environment's name, or a test's, and the pins that are not the default ones.
PINS_MARK = "@"
#: How many releases a message names: the newest.
_SHOWN = 16


@dataclass(frozen=True)
class Pins:
    """Answers for one set of overrides: component to the full name of a release."""

    catalog: Catalog
    overrides: Mapping[str, str] = field(default_factory=dict)
    #: Environments that stand in for others (``--environment mlir=mlir-upstream``).
    swaps: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _memory(self) -> dict[str, Mapping[str, Release]]:
        return {}

    def releases(self, environment: str) -> Mapping[str, Release]:
        """The release of each component of an environment."""
        found = self._memory.get(environment)
        if found is None:
            components = self.catalog.environments[self.meant(environment)].document.components
            found = self._memory[environment] = {name: self.release(name, environment) for name in components}
        return found

    def needs(self, environment: str, components: Iterable[str] | None = None) -> Mapping[str, Release]:
        """The releases of what an environment's components, or these, are built with, and what that is built with."""
        todo = list(self.releases(environment) if components is None else components)
        found: dict[str, Release] = {}
        while todo:
            for name in self.catalog.components[todo.pop()].document.needs:
                if name not in found:
                    found[name] = self.release(name, environment)
                    todo.append(name)
        return found

    def reference(self, environment: str) -> str:
        """An environment's name, and the pins of it that are not the default ones: ``mlir@llvm=19.1.7``."""
        base = self.catalog.default_pins(self.meant(environment))
        changed = [
            f"{name}={release.release}"
            for name, release in sorted({**self.needs(environment), **self.releases(environment)}.items())
            if name in self.overrides and release.release != base.get(name)
        ]
        return f"{environment}{PINS_MARK}{','.join(changed)}" if changed else environment

    def override(self, suffix: str) -> Pins:
        """These pins with more: ``llvm=19,iree=3.8.0``, whose releases are known to exist."""
        if not suffix:
            return self
        more = {
            name: find_release(self.catalog.components[name], wanted).release
            for name, wanted in (pair.split("=", 1) for pair in suffix.split(","))
        }
        return Pins(self.catalog, {**self.overrides, **more}, self.swaps)

    def meant(self, environment: str) -> str:
        """The environment that is used where one is asked for; its own releases count, and not those of the other."""
        return self.swaps.get(environment, environment)

    def release(self, component: str, environment: str = "") -> Release:
        """The release of a component in an environment; without one the known good one, unless a person asks for another."""
        name = self.overrides.get(component) or self.catalog.default_pins(self.meant(environment))[component]
        return release_of(self.catalog.components[component], name)


def release_of(entry: Entry[Component], name: str) -> Release:
    """The release of a component by its full name."""
    return next(release for release in entry.document.releases if release.release == name)


def find_release(entry: Entry[Component], wanted: str) -> Release:
    """The release that a person means. Raises UsageError with the ones that there are."""
    names = [release.release for release in entry.document.releases]
    found = find(names, wanted)
    if found is None:
        shown = ", ".join(names if len(names) <= _SHOWN else ["…", *names[-_SHOWN:]])
        raise UsageError(f"{entry.name} has no release '{printable(wanted)}'; it has {shown}")
    return release_of(entry, found)


def read_pins(catalog: Catalog, words: Iterable[str], what: str = "--pin") -> dict[str, str]:
    """``llvm=19``: component to the full name of its release. Raises UsageError that begins with ``what``."""
    pins: dict[str, str] = {}
    for word in words:
        name, separator, wanted = word.partition("=")
        if not (separator and name and wanted):
            raise UsageError(f"{what} {printable(word)}: expected COMPONENT=RELEASE, e.g. llvm=19")
        if name not in catalog.components:
            near = did_you_mean(name, catalog.components)
            raise UsageError(f"{what}: there is no component '{printable(name)}'{near}")
        release = find_release(catalog.components[name], wanted).release
        if pins.setdefault(name, release) != release:
            raise UsageError(f"{what}: {name} is pinned twice, to {pins[name]} and to {release}")
    return pins
