"""The interface between plans, workers and tools: requests and answers, ``${name}`` in passes and schedules, and failures."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

#: Of an action's folder: what it is given, and what it is to write.
INPUT_FOLDER, OUTPUT_FOLDER = "in", "out"
#: Beside the outputs, in no digest: times and what else differs from run to run.
METRICS = "metrics.json"
#: What workers import beside tools where an action uses MLIR's bindings by itself, as a module of ``mlir_matrix.actions``.
BACKEND = "mlir.backend"
#: The folders of this environment's programs, as the worker's command line says, each with the release that it is of; the
#: first that has a program counts.
prefixes: dict[str, str] = {}
#: The folders of this environment's wheels.
sites: list[str] = []
#: Programs of the machine that are part of it: name to release and path. Those of prefixes go before.
programs: dict[str, tuple[str, str]] = {}


#: The parameters of a tool: one of the types of ``actions/params``.
Params_co = TypeVar("Params_co", bound=Mapping[str, object], covariant=True)


@dataclass(frozen=True, kw_only=True)
class Action(Generic[Params_co]):
    """One request: parameters, and the files to read and write, all relative to the current folder."""

    params: Params_co
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRequest:
    """What a worker is to execute: actions, in one process, one after the other, until one fails.

    Each but the last is answered when it is done, and the process then waits for ``proceed``: the next one may be in the cache.
    Going on at once took 10 % more CPU time in a cold run of smoke, in which half of all such jobs end early.

    It is a line of JSON, as the answers are, and as Bazel's persistent workers have them. A request of Bazel has one action, and
    its layout as its only argument (``runtime/bazel_layout``).
    """

    request_id: int = 0
    #: Where the actions run: the next one's request and inputs take the place of the last one's.
    folder: str = "."
    arguments: Sequence[str] = ()
    #: Whether the process of this request, which is known, goes on with the next action, or ends.
    proceed: bool = False
    cancel: bool = False

    def to_line(self) -> bytes:
        message = {
            "requestId": self.request_id,
            "sandboxDir": self.folder,
            "arguments": [*self.arguments],
            "inputs": [],
            "proceed": self.proceed,
            "cancel": self.cancel,
        }
        return json.dumps(message).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> WorkRequest:
        """Read a line. Raise ValueError or TypeError if it is not a JSON object."""
        message = dict(json.loads(line))
        return cls(
            request_id=message.get("requestId", 0),
            folder=str(message.get("sandboxDir") or "."),
            arguments=message.get("arguments", []),
            proceed=bool(message.get("proceed")),
            cancel=bool(message.get("cancel")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResponse:
    """The end of one action of a request. What became of it is in its folder."""

    request_id: int
    #: Why the machine could not execute it; empty if it could.
    trouble: str = ""
    #: Seconds (``wall_s``, ``user_s``, ``sys_s``) and ``max_rss_kb``.
    usage: Mapping[str, float] = field(default_factory=dict)
    #: Whether the process waits to go on with the next action of the request, or to be ended.
    more: bool = False
    #: What the worker cannot isolate, as a clause.
    not_isolated: str = ""

    def to_line(self) -> bytes:
        """Return a line. Bazel reads the first three keys and ignores the others."""
        message: dict[str, object] = {
            "exitCode": 1 if self.trouble else 0,
            "output": self.trouble,
            "requestId": self.request_id,
            "usage": self.usage,
        }
        if self.more:
            message["more"] = True
        if self.not_isolated:
            message["notIsolated"] = self.not_isolated
        return json.dumps(message).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> WorkResponse:
        """Read a line. Raise ValueError, LookupError or TypeError for anything else than an answer."""
        message = dict(json.loads(line))
        return cls(
            request_id=message["requestId"],
            trouble=str(message.get("output", "")) if message.get("exitCode") else "",
            usage=message.get("usage", {}),
            more=message.get("more") is True,
            not_isolated=str(message.get("notIsolated", "")),
        )


def write_json(path: str, value: Any) -> None:
    """Write JSON so that equal values give equal bytes. Raise ValueError for NaN and infinities."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, sort_keys=True, allow_nan=False)
        file.write("\n")


def write_verdict(
    path: str, outcome: str, *, stage: str = "judge", reason: str = "", diagnostics: str = "", signal: str = ""
) -> None:
    """Write the verdict of a target that judges by its own tool: an outcome, and the stage that decided it."""
    verdict = {"outcome": outcome, "stage": stage, "reason": reason, "diagnostics": diagnostics, "signal": signal}
    write_json(path, verdict)


def read_text(path: str, what: str) -> str:
    """Return the text of a file that a person or a compiler wrote. Raise ActionFailed if it is not UTF-8."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ActionFailed(f"{what} is not UTF-8 text", diagnostics=f"{error}\n") from error


#: What came out of ``under_test``. Kept by identity: such an exception may pass through any number of our frames.
_verdicts: list[BaseException] = []
#: What Python raises for a call that does not fit the interface.
_MISUSE = (TypeError, AttributeError, NameError, ImportError)
#: Paths of Python files of catalogs' tools, which count as ours.
own_files: set[str] = set()
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


class UnderTest:
    """See :func:`under_test`."""

    def __init__(self, *, any_frame: bool) -> None:
        self._any_frame = any_frame
        self._process = 0

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:
            os._exit(1)  # a copy that the code under test made; it must not write the outputs, too
        if error is not None and (self._any_frame or not (isinstance(error, _MISUSE) and _is_raised_here(trace))):
            _verdicts.append(error)


def under_test(*, any_frame: bool = False) -> UnderTest:
    """Mark a call into a framework, a compiler or a workload's source: an exception inside is a verdict.

    Any other exception of a tool is an internal error, for which no test is to blame, and never kept. So is a TypeError or the
    like that our own code raises inside: our call does not fit this release's interface. ``any_frame``: that cannot be told
    from the traceback, because what is called uses objects of ours, or, as JAX does, removes its own frames.
    """
    return UnderTest(any_frame=any_frame)


def is_verdict(error: BaseException) -> bool:
    """Return whether an exception came out of code under test."""
    return any(error is each for each in _verdicts)


def _is_raised_here(trace: TracebackType | None) -> bool:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    name = trace.tb_frame.f_code.co_filename
    return name in own_files or name.startswith(_OURS)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGSEGV`` for 11. Real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ActionFailed(Exception):
    """The code under test failed at this stage: an ordinary result, kept like a success.

    ``reason`` is one sentence for the table, ``diagnostics`` the whole text.
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


class ToolError(Exception):
    """The file of a tool is not what it must be. No test is to blame, and it is never cached."""


class MachineFailed(Exception):
    """The machine failed: a full disk, an unreadable file. It is no verdict and is never cached."""


_PLACE = re.compile(r"\$\{([A-Za-z0-9_.+-]+)\}")


def fill(text: str, parameters: Mapping[str, Any]) -> str:
    """Replace ``${name}`` by the parameter's value: lists as ``1, 2, 3``, booleans as MLIR writes them.

    KeyError for a name that has no value; the loader has refused such files before.
    """
    return _PLACE.sub(lambda match: _spell(parameters[match.group(1)]), text)


def _spell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_spell(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
