"""Resolve pins: the release of each component in each environment.

The known-good set is the default; an environment may have releases of its own; ``--pin`` or a suite (``…@llvm=19``)
overrides both, and ``--pin-step`` all of them for one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import check_known, did_you_mean, printable, with_pins
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.releases import find

#: The most releases that a message names: the newest.
_SHOWN = 16


@dataclass(frozen=True)
class Pins:
    """The releases under one set of overrides: component to the full name of a release."""

    catalog: Catalog
    overrides: Mapping[str, str] = field(default_factory=dict)
    #: Environments that stand in for others (``--environment mlir=mlir-upstream``).
    swaps: Mapping[str, str] = field(default_factory=dict)
    #: By step: components to the full names of their releases in this step.
    steps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Of a step's pins: the releases that a reference need not name.
    _unnamed: Mapping[str, str] = field(default_factory=dict, repr=False)
    _releases: dict[str, Mapping[str, Release]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def releases(self, environment: str) -> Mapping[str, Release]:
        """Return the release of each component of an environment."""
        found = self._releases.get(environment)
        if found is None:
            components = self.catalog.environments[self.meant(environment)].document.components
            found = self._releases[environment] = {name: self.release(name, environment) for name in components}
        return found

    def needs(self, environment: str, components: Iterable[str] | None = None) -> Mapping[str, Release]:
        """Return the releases that an environment's components, or these, are built with, directly or not."""
        todo = list(self.releases(environment) if components is None else components)
        found: dict[str, Release] = {}
        while todo:
            for name in self.catalog.components[todo.pop()].document.needs:
                if name not in found:
                    found[name] = self.release(name, environment)
                    todo.append(name)
        return found

    def reference(self, environment: str) -> str:
        """Return an environment's name with its pins that are not the default ones: ``mlir@llvm=19.1.7``."""
        base = self.catalog.default_pins(self.meant(environment))
        changed = [
            f"{name}={release.release}"
            for name, release in sorted({**self.needs(environment), **self.releases(environment)}.items())
            if name in self.overrides and release.release != self._unnamed.get(name, base.get(name))
        ]
        return with_pins(environment, ",".join(changed))

    def override(self, suffix: str) -> Pins:
        """Return these pins with more: ``llvm=19,iree=3.8.0``, whose releases are known to exist."""
        if not suffix:
            return self
        more = {
            name: find_release(self.catalog.components[name], wanted).release
            for name, wanted in (pair.split("=", 1) for pair in suffix.split(","))
        }
        return replace(self, overrides={**self.overrides, **more})

    def of_step(self, step: str) -> Pins:
        """Return the pins of one step."""
        own = self.steps.get(step)
        # A reference names what differs from the other steps, because it is resolved with their pins.
        return replace(self, overrides={**self.overrides, **own}, steps={}, _unnamed=self.overrides) if own else self

    @property
    def step_words(self) -> list[str]:
        """The pins of steps as ``--pin-step`` takes them."""
        return [f"{step}:{name}={release}" for step, pins in self.steps.items() for name, release in pins.items()]

    def meant(self, environment: str) -> str:
        """Return the environment that is used for another one; its own releases count, not those of the other."""
        return self.swaps.get(environment, environment)

    def release(self, component: str, environment: str = "") -> Release:
        """Return the release of a component: the overriding one, else the environment's, else the known-good one."""
        name = self.overrides.get(component) or self.catalog.default_pins(self.meant(environment))[component]
        return release_of(self.catalog.components[component], name)


def release_of(entry: Entry[Component], name: str) -> Release:
    """Return the release of a component by its full name."""
    return next(release for release in entry.document.releases if release.release == name)


def find_release(entry: Entry[Component], wanted: str) -> Release:
    """Return the release that ``19`` names. Raises UsageError with the releases of the component."""
    names = [release.release for release in entry.document.releases]
    found = find(names, wanted)
    if found is None:
        shown = ", ".join(names if len(names) <= _SHOWN else ["…", *names[-_SHOWN:]])
        raise UsageError(f"{entry.name} has no release '{printable(wanted)}'; it has {shown}")
    return release_of(entry, found)


def is_folder(wanted: str) -> bool:
    """Return whether a pin names a folder or a wheel of one's own rather than a release, which begins with a number."""
    return "/" in wanted or not wanted[:1].isdigit() or wanted.endswith(".whl")


def is_of_step(word: str) -> bool:
    """Return whether a pin names a step: ``linalg-to-loops:llvm=22``."""
    return ":" in word.partition("=")[0]


def read_step_pins(catalog: Catalog, words: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read ``linalg-to-loops:llvm=22``: return for each step its components with the names of releases. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for word in words:
        step, _, pin = word.partition(":")
        check_known("step", [step], catalog.steps, "--pin-step: ")
        found.setdefault(step, []).append(pin)
    pins = {step: read_pins(catalog, each, f"--pin-step {step}:") for step, each in found.items()}
    for step, releases in pins.items():
        environment = catalog.steps[step].document.environment
        components = catalog.environments[environment].document.components
        if idle := [name for name in releases if name not in components]:
            has = " and ".join(components) or "no component"
            what = f"--pin-step {step}:{idle[0]}"
            raise UsageError(f"{what}: the step does not use {idle[0]}; its environment {environment} has {has}")
    return pins


def read_pins(catalog: Catalog, words: Iterable[str], what: str = "--pin") -> dict[str, str]:
    """Read ``llvm=19``: return components with the full names of their releases. Raises UsageError beginning with ``what``."""
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
