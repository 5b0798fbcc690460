"""The interface between plans, workers and tools: requests and answers, ``${name}`` in passes and schedules, and failures."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

#: Folders in the folder of an action: for its inputs and for its outputs.
INPUT_FOLDER, OUTPUT_FOLDER = "in", "out"
#: A file beside the outputs, which no digest covers: times and other values that differ from run to run.
METRICS = "metrics.json"
#: The module of ``mlir_matrix.actions`` that workers also import if an action itself uses MLIR's bindings.
BACKEND = "mlir.backend"
#: Release by prefix, from the worker's command line. If several prefixes have a program, the first one counts.
prefixes: dict[str, str] = {}
#: The folders of this environment's wheels.
sites: list[str] = []
#: Programs of the machine that belong to this environment: name to release and path. Programs of prefixes take precedence.
programs: dict[str, tuple[str, str]] = {}


#: The parameters of a tool: one of the types of ``actions/params``.
Params_co = TypeVar("Params_co", bound=Mapping[str, object], covariant=True)
FileT = TypeVar("FileT")


class Role(StrEnum):
    """What a tensor is to the action that reads or writes it. Plans name its file by :meth:`of`, and tools find it so."""

    #: What a kernel or a reference is called with, and what a kernel returns.
    ARGUMENT = "arg"
    RESULT = "out"
    #: What a judge compares: a result of a kernel, and what is right, whole or as a sketch.
    ACTUAL = "actual"
    EXPECTED = "expected"
    SKETCH = "sketch"
    #: The bound of each element; and, in an audit, that of a derived layer of tolerances.
    BOUND = "bound"
    DERIVED = "own"
    #: Of a property: what other runs gave, and the parts of a batch.
    OTHER = "other"
    FIRST_PART = "part0"
    SECOND_PART = "part1"
    #: What the kernel gives without a mutation.
    SOUND = "sound"
    #: Goldens: to be measured, on disk, and made anew.
    GOLDEN = "golden"
    OLD = "old"
    NEW = "new"

    def of(self, tensor: str, draw: int | None = None) -> str:
        """Return the name of a tensor's file in the action: ``arg-x``; where the action has several draws, ``arg-3-x``."""
        return f"{self}-{tensor}" if draw is None else f"{self}-{draw}-{tensor}"

    def among(self, files: Mapping[str, FileT], draw: int | None = None) -> dict[str, FileT]:
        """Return the files of this role by tensor."""
        start = self.of("", draw)
        return {name.removeprefix(start): file for name, file in files.items() if name.startswith(start)}


#: The parts of a run, as many as there are: one, or two of a batch.
PARTS = (Role.FIRST_PART, Role.SECOND_PART)


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
    Going on at once took 6 % more CPU time in a cold run of smoke, in which half of all such jobs end early.

    It is a line of JSON, as the answers are, and as Bazel's persistent workers have them. A request of Bazel has one action, and
    its layout as its only argument (``runtime/bazel_layout``).
    """

    request_id: int = 0
    #: Where the actions run: the next one's request and inputs take the place of the last one's.
    folder: str = "."
    arguments: Sequence[str] = ()
    #: Go on with the next action of this request, whose process waits.
    proceed: bool = False
    #: End that process.
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


def write_json(path: str, value: object) -> None:
    """Write JSON so that equal values give equal bytes. Raise ValueError for NaN and infinities."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, sort_keys=True, allow_nan=False)
        file.write("\n")


def read_metrics() -> dict[str, Any]:
    """Return the metrics that the current action has written so far."""
    try:
        with open(METRICS, "rb") as file:
            return dict(json.loads(file.read()))
    except (OSError, ValueError, TypeError):
        return {}


def add_metrics(values: Mapping[str, object]) -> None:
    """Add metrics to those of the current action."""
    # In a file, because a process may run several actions, and each begins without it. Not by json.dump, which takes ten times
    # as long.
    data = json.dumps({**read_metrics(), **values}).encode()
    with open(METRICS, "wb") as file:
        file.write(data)


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


#: Exceptions that left ``under_test``. They are compared by identity, because they may pass through many of our frames.
_verdicts: list[BaseException] = []
#: Exceptions that Python raises for a call that does not fit the interface.
_MISUSE = (TypeError, AttributeError, NameError, ImportError)
#: Paths of Python files of catalogs' tools. An exception raised there counts as ours.
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
            os._exit(1)  # the code under test forked this process: only the original may write the outputs
        if error is not None and (self._any_frame or not (isinstance(error, _MISUSE) and _is_raised_here(trace))):
            _verdicts.append(error)


def under_test(*, any_frame: bool = False) -> UnderTest:
    """Mark a call into a framework, a compiler or a workload's source. An exception raised inside is a verdict.

    Any other exception of a tool is an internal error: no test is to blame, and it is never cached. The same holds for a
    TypeError, for example, that our own code raises inside: our call does not fit the interface of this release.
    ``any_frame``: the traceback cannot show who raised it, and any exception is a verdict. The callee uses objects of ours, or
    removes its own frames, as JAX does.
    """
    return UnderTest(any_frame=any_frame)


def is_verdict(error: BaseException) -> bool:
    """Return whether the code under test raised an exception."""
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
    """The code under test failed at this stage: an ordinary result, cached like a success.

    ``reason`` is one sentence for the table, ``diagnostics`` the whole text.
    """

    def __init__(self, reason: str, *, diagnostics: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.diagnostics = diagnostics


class ActionCrashed(Exception):
    """A signal or a sanitizer ended the process of the code under test: an ordinary result, too.

    ``signal`` is its name (``SIGSEGV``, ``AddressSanitizer``), ``diagnostics`` what the process had printed until then.
    """

    def __init__(self, signal: str, *, diagnostics: str = "") -> None:
        super().__init__(f"ended by {signal}")
        self.signal = signal
        self.diagnostics = diagnostics


#: What LLVM prints before it aborts, and what sanitizers report. The description of a node that it cannot select begins with an
#: address.
_LAST_WORDS = re.compile(
    r"\b(LLVM ERROR: .{1,120}|Assertion `.{1,120}?' failed|(?<=Sanitizer: )(?:detected memory leaks|data race|[\w-]+)"
    r"|(?<=: )runtime error: .{1,120})"
)
_NODE = re.compile(r"(?<=Cannot select: )0x[0-9a-f]+: ")


def last_words(diagnostics: str) -> str:
    """Return why a program aborted, in its own words; empty if it does not say."""
    found = _LAST_WORDS.search(diagnostics)
    return _NODE.sub("", found[1]) if found else ""


class ToolError(Exception):
    """The Python file of a catalog's tool is wrong. No test is to blame, and the failure is never cached."""


class MachineFailed(Exception):
    """The machine failed: a full disk, an unreadable file. The failure is no verdict and is never cached."""


_PLACE = re.compile(r"\$\{([A-Za-z0-9_.+-]+)\}")


def fill(text: str, parameters: Mapping[str, object]) -> str:
    """Replace ``${name}`` by the parameter's value: lists as ``1, 2, 3``, booleans as MLIR writes them.

    Raise KeyError for a name without a value. The loader refuses such files, so this is an internal error.
    """
    return _PLACE.sub(lambda match: _spell(parameters[match.group(1)]), text)


def _spell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_spell(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
