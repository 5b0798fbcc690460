"""Make the command that bisects the pins that differ between two runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.paths import launcher, repository
from mlir_matrix.base.text import catalog_options
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.releases import nearest_release
from mlir_matrix.environments.own_packages import OWN_MARK


class BisectCommands:
    """Makes commands for the catalogs of today, which may lack releases of older runs."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, ...], Catalog] = {}

    def command(
        self, test: str, good: Mapping[str, str], bad: Mapping[str, str], folders: Sequence[str]
    ) -> tuple[str, list[str]]:
        """Return the command, empty if no release differs, and notes on pins that are no releases. Raise CatalogError.

        Arguments:
            test: The test.
            good: The release of each component in the good run. A component with several is ignored.
            bad: Those in the bad run.
            folders: The catalogs of the bad run, without the program's own.
        """
        catalog = self._catalog(folders)
        moved = [name for name, release in bad.items() if good.get(name, release) != release]
        ends: dict[str, tuple[str, str]] = {}
        words, notes = [], []
        for name, release in bad.items():
            if "," in release + good.get(name, "") or name not in catalog.components:
                continue
            known = [each.release for each in catalog.components[name].document.releases]
            if name not in moved:
                if OWN_MARK in release:
                    notes.append(f"{name} {release} is a build in a folder: add --pin {name}=DIR")
                elif release in known and release not in _defaults(catalog, name):
                    words += ["--pin", f"{name}={release}"]
                continue
            found = []
            for each in (good[name], release):
                nearest = each if each in known else nearest_release(known, each)
                found.append(nearest or each)
                if nearest != each:
                    what = "a build in a folder" if OWN_MARK in each else "no release any more"
                    notes.append(f"{name} {each} is {what}; the nearest release is {nearest}")
            if found[0] != found[1]:
                ends[name] = (found[0], found[1])
            else:
                commits = [
                    launcher(), "bisect", test, "--component", name, "--repo", "DIR", "--build", "COMMAND",
                    "--good", "REVISION", "--bad", "REVISION",
                ]  # fmt: skip
                notes.append(f"no release lies between them; with their source: {shlex.join(commits)}")
        if not ends:
            return "", notes
        pins = [",".join(f"{name}={both[end]}" for name, both in ends.items()) for end in (0, 1)]
        command = [launcher(), "bisect", test, *catalog_options(folders), *words, "--good", pins[0], "--bad", pins[1]]
        return shlex.join(command), notes

    def _catalog(self, folders: Sequence[str]) -> Catalog:
        key = tuple(folder for folder in folders if os.path.isdir(folder))
        if key not in self._loaded:
            try:
                self._loaded[key] = load([repository(), *map(Path, key)])
            except CatalogError:
                # A catalog that is being edited must not hide the history.
                if not key:
                    raise
                self._loaded[key] = self._catalog(())
        return self._loaded[key]


def _defaults(catalog: Catalog, component: str) -> set[str | None]:
    """Return the releases of a component that some environment has without a pin."""
    return {catalog.default_pins(environment).get(component) for environment in ("", *catalog.environments)}
