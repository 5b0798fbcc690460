"""Events of a run and their listeners: one protocol to install packages, to execute actions and to display both.

Other rooms add events with types of theirs: ``ActionStarted`` and ``ActionDone`` in ``execute.job``, ``TestDone`` in
``results.results``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


class Event:
    """Something that happened."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class PackageProgress(Event):
    """The progress of a package, then ``done`` or ``error``.

    ``received`` and ``total`` (0 if unknown) count the bytes that are downloaded or unpacked, or the steps of a build.
    """

    package: str
    received: int = 0
    total: int = 0
    done: bool = False
    error: str = ""
    #: With an error: nothing failed, but this machine cannot have the package.
    unavailable: bool = False
    #: With an error: the disk is full, which ends the run.
    disk_full: bool = False
    phase: Literal["fetching", "installing", "building"] = "fetching"


@dataclass(frozen=True)
class Note(Event):
    """A sentence for the user."""

    text: str


@dataclass(frozen=True)
class Tick(Event):
    """A tick for displays, several times a second."""

    #: How many actions other runs execute at the moment.
    waiting: int = 0


#: A function that receives events. It returns True to end the run; some senders ignore that.
Listener = Callable[[Event], bool | None]
#: The same, for senders that send no other events.
PackageListener = Callable[[PackageProgress], object]


def ignore(_event: Event) -> None:
    """Ignore an event."""
