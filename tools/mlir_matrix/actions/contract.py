"""What an action is given and how it says that it failed."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Of an action's folder: what it is given, and what it is to write.
INPUT_FOLDER, OUTPUT_FOLDER = "in", "out"
#: The folders of this environment's programs, as the worker's command line says, each with the release that it is of; the
#: first that has a program counts.
prefixes: dict[str, str] = {}
#: Programs of the machine that are part of it: name to release and path. Those of prefixes go before.
programs: dict[str, tuple[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Action:
    """One request: parameters, and the files to read and write, all relative to the current folder."""

    params: Mapping[str, Any]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def write_json(path: str, value: Any) -> None:
    """Write what an action found so that equal values give equal bytes. Raises ValueError for NaN and infinities."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, sort_keys=True, allow_nan=False)
        file.write("\n")


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; real-time signals have no name of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ActionFailed(Exception):
    """The code under test failed at this stage: an ordinary result, kept like a success.

    ``reason`` is one sentence for the table, ``diagnostics`` the whole text for the person who looks.
    """

    def __init__(self, reason: str, *, diagnostics: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.diagnostics = diagnostics


class ActionCrashed(Exception):
    """The process of the code under test was ended by a signal: an ordinary result, too.

    ``signal`` is its name (``SIGSEGV``), ``diagnostics`` what the process had said until then.
    """

    def __init__(self, signal: str, *, diagnostics: str = "") -> None:
        super().__init__(f"ended by {signal}")
        self.signal = signal
        self.diagnostics = diagnostics


class MachineFailed(Exception):
    """The machine could not do its part (a full disk, a file that cannot be read): nobody's verdict, and never kept."""
