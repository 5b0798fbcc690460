"""Releases of components as an environment sees them: provider, distributions for pip, texts with a version filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release

#: The releases of an environment, each with its component.
Releases = Sequence[tuple[Entry[Component], Release]]


def provider_of(component: Component, release: Release) -> str:
    """Return the provider of a release."""
    return release.provider or component.provider


def distributions(releases: Releases) -> dict[str, str]:
    """Return the requirements for pip: distribution to version."""
    pins: dict[str, str] = {}
    for entry, release in releases:
        if provider_of(entry.document, release) == "pypi":
            pins |= release.distributions or {entry.document.distribution or entry.name: release.release}
    return pins


def filled(texts: Sequence[str], release: str) -> tuple[str, ...]:
    """Replace ``{major}`` and ``{minor}`` by the first two numbers of a release."""
    major, minor, *_ = (*release.split("."), "")
    return tuple(text.replace("{major}", major).replace("{minor}", minor) for text in texts)


def unlocked(what: str, wanted: Mapping[str, str] | None = None, pins: str = "") -> str:
    """Return the error for a missing lock file; ``wanted``: distributions, ``pins``: those that are not the default."""
    shown = " ".join(f"{name} {version}" for name, version in (wanted or {}).items())
    subject = f"environment {what} ({shown})" if shown else what
    options = "".join(f" --pin {pin}" for pin in pins.split(",") if pin)
    return f"{subject} has no lock; make one with: matrix toolchain lock {what}{options}"
