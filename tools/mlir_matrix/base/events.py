"""Events of a run, and who listens: one protocol for installing packages, executing actions and displaying both.

Executors add events that carry their own types: ``ActionStarted`` and ``ActionDone`` in ``execute.job``, ``TestDone`` in
``judge.results``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class Event:
    """Something that happened."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class PackageProgress(Event):
    """A package's bytes so far and in all (0 when unknown), then ``done`` or ``error``."""

    package: str
    received: int = 0
    total: int = 0
    done: bool = False
    error: str = ""
    #: Of an error: nothing failed, but this machine cannot have the package.
    unavailable: bool = False
    #: Of an error: the disk is full, which ends the run.
    disk_full: bool = False
    #: It is built here: ``received`` and ``total`` are steps.
    building: bool = False


@dataclass(frozen=True)
class Note(Event):
    """A sentence for the person who runs matrix."""

    text: str


@dataclass(frozen=True)
class Tick(Event):
    """Time goes by: sent several times a second."""

    #: How many actions wait for other runs that execute them.
    waiting: int = 0


#: Receives events. It ends a run by returning True; some senders ignore that.
Listener = Callable[[Event], bool | None]
#: The same for those who send nothing else.
PackageListener = Callable[[PackageProgress], object]


def ignore(_event: Event) -> None:
    """Listen to nothing."""
