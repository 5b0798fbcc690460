"""Which runs of a history a question is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChosenRuns:
    """The conditions on runs; empty ones hold for all."""

    #: The name of the machine: ``*`` and ``?`` match any characters.
    host: str = ""
    #: A suite, or another word of the command line that selects tests.
    suite: str = ""
    #: The Git branch of a catalog: ``*`` and ``?`` match any characters.
    branch: str = ""
    #: Runs that started, or were repeated, at this time or later.
    since: str = ""
    #: A component and its release, ``llvm=22``: only results with this release, or one that begins with it.
    pin: str = ""


ALL_RUNS = ChosenRuns()
