"""Resolve the environments of a command: by its catalog, pins, own builds and the user's folders."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import split_pins
from mlir_matrix.base.paths import Home
from mlir_matrix.base.plain_files import NotPlainError, open_plain
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.toolchains import Release
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.package import Releases
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, resolve
from mlir_matrix.environments.source.permissions import NONE, Permissions

if TYPE_CHECKING:
    # Imported only for types: verbs of toolchains must not wait for them.
    from mlir_matrix.environments.own_packages import OwnBuild

Environment = ResolvedEnvironment | UnavailableEnvironment


@dataclass(frozen=True)
class Session:
    """The catalog, folders and pins of one command."""

    catalog: Catalog
    home: Home
    #: The options ``--pin`` and ``--environment``.
    pins: Pins
    #: The user's own builds of components, by release.
    builds: Mapping[str, OwnBuild] = field(default_factory=dict)
    permissions: Permissions = NONE

    @cached_property
    def lock_folders(self) -> tuple[Path, ...]:
        """Return the folders of lock files, one per catalog."""
        return tuple(root / "toolchains" / "locks" for root in self.catalog.roots)

    def environment(self, reference: str, *, sealed: bool = False) -> Environment:
        """Resolve an environment on this machine; ``reference`` is its name in plans, with pins.

        A ``sealed`` environment contains no host tools and has its own interpreter.
        """
        name, suffix = split_pins(reference)
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
        name, suffix = split_pins(reference)
        return self.with_entries(self.pins.override(suffix).releases(name))

    def needs(self, reference: str) -> Releases:
        """Return the releases that the packages of an environment are built with."""
        name, suffix = split_pins(reference)
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

    def with_pins(self, more: Mapping[str, str]) -> Session:
        """Return the session with more pins: components with the full names of their releases."""
        return replace(self, pins=replace(self.pins, overrides={**self.pins.overrides, **more}))

    def with_catalog(self, catalog: Catalog) -> Session:
        """Return the session with another catalog, also for its pins."""
        return replace(self, catalog=catalog, pins=replace(self.pins, catalog=catalog))

    def without_pin(self, component: str) -> Session:
        """Return the session with the default release of a component."""
        overrides = {name: release for name, release in self.pins.overrides.items() if name != component}
        return replace(self, pins=replace(self.pins, overrides=overrides))


def remember(home: Home, roots: Sequence[Path], tell: Callable[[str], object]) -> Path:
    """Record that these catalogs use a home, if it is writable. Return the path of the record.

    Without the record, ``gc`` with other catalogs only removes what is installed again. So ``tell`` gets a sentence if the
    records cannot be read, and nothing fails.
    """
    note = _note(home, roots)
    try:
        os.stat(note)
    except (FileNotFoundError, NotADirectoryError):
        with suppress(InfrastructureError):
            write_text(note, json.dumps([os.path.realpath(root) for root in roots]) + "\n")
    except OSError as error:
        tell(f"toolchain gc does not know of these catalogs: {note.parent}: {error.strerror}")
    return note


def others(home: Home, roots: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the other catalogs that use a home. Forget those whose folders no longer exist.

    Raise InfrastructureError for records that cannot be read: to forget them would remove packages that are needed.
    """
    own = _note(home, roots)
    for note in _notes(own.parent):
        try:
            with open_plain(note) as file:
                found = tuple(map(Path, json.loads(file.read())))
        except FileNotFoundError:
            continue
        except (NotPlainError, ValueError, TypeError):
            found = ()
        except OSError as error:
            raise _unknown(note, error) from None
        if not found or not all(map(_is_there, found)):
            with suppress(OSError):
                note.unlink()
        elif note != own:
            yield found


def _is_there(folder: Path) -> bool:
    """Return whether a folder exists. Raise InfrastructureError if that cannot be known."""
    try:
        return stat.S_ISDIR(os.stat(folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unknown(folder, error) from None


def _notes(folder: Path) -> list[Path]:
    try:
        return sorted(folder / name for name in os.listdir(folder) if name.endswith(".json"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unknown(folder, error) from None


def _unknown(path: Path, error: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"{path} cannot be read: {error.strerror}; gc keeps the packages of all catalogs that use this home. "
        "Make it readable, or keep nothing for other catalogs with --alone"
    )


def _note(home: Home, roots: Sequence[Path]) -> Path:
    return home.cache / "catalogs" / f"{digest_value([os.path.realpath(root) for root in roots])[:16]}.json"
