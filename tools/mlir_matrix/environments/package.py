"""What environments are made of, all handled alike: wheels, Debian packages, builds of sources, tools of the machine."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mlir_matrix.events import PackageListener

if TYPE_CHECKING:
    from mlir_matrix.environments.fetch.artifacts import Artifacts
    from mlir_matrix.environments.fetch.http import Transport
    from mlir_matrix.environments.install.wheel import Pip
    from mlir_matrix.environments.interpreter import Interpreter


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where units are made, and with what."""

    #: The folders of the units.
    packages: Path
    artifacts: Artifacts
    pip: Pip
    transport: Transport
    listener: PackageListener
    cancelled: threading.Event
    #: Held by what takes all connections and all cores for itself.
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def cache(self) -> Path:
        """Where else things are kept that can be had again."""
        return self.artifacts.folder.parent


class Installed(Protocol):
    """A folder among the packages whose files can be verified."""

    @property
    def label(self) -> str:
        """What people call it."""

    def damage(self, folder: Path, *, thorough: bool) -> list[str]:
        """Files in its folder that are not what they were; ``thorough``: every byte is read."""


class Unit(Installed, Protocol):
    """Something that an environment is made of."""

    @property
    def release(self) -> str:
        """Which release of its component, or version of its distribution, it is."""

    @property
    def size(self) -> int | None:
        """Bytes to fetch where nothing is there; None where nobody knows."""

    @property
    def installed(self) -> int | None:
        """Bytes on disk; None where nobody knows."""

    @property
    def identity(self) -> list[str]:
        """What of it belongs into an environment's digest."""

    @property
    def needs(self) -> tuple[Unit, ...]:
        """What must be there for it to be made and to be used."""

    def folder_for(self, tag: str) -> str:
        """The name of its folder for an interpreter's wheel tag; empty where it has none."""

    def to_fetch(self, store: Artifacts) -> int:
        """Bytes of it that are not in the store."""

    def plan(self, packages: Path, cache: Path) -> Iterator[str]:
        """What making it takes, as lines of a shell; comments where that is no command."""

    def provide(self, workshop: Workshop, interpreter: Interpreter) -> None:
        """Make its folder, if it is not there. Raises InfrastructureError, locking.Cancelled."""


def is_missing(unit: Unit, packages: Path, tag: str) -> bool:
    """Whether a unit has a folder, and that is not there."""
    name = unit.folder_for(tag)
    return bool(name) and not (packages / name).is_dir()


def with_needs(units: Iterable[Unit]) -> Iterator[Unit]:
    """Units, each after what it needs, each once."""
    seen: set[tuple[str, ...]] = set()

    def walk(unit: Unit) -> Iterator[Unit]:
        for need in unit.needs:
            yield from walk(need)
        if (key := (unit.label, *unit.identity)) not in seen:
            seen.add(key)
            yield unit

    for unit in units:
        yield from walk(unit)
