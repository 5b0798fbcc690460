"""Write and read the log of a bisection, from which it can continue. Each observation is written before the next is made.

Each line ends with its digest. The next writer removes an incomplete line of a killed process.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import append_line
from mlir_matrix.base.paths import find_home, launcher
from mlir_matrix.bisect.observations import Observation
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.bisect.signature import By, signature
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import Signature

#: Criteria that need more than a result.
_OF_OUTPUTS = ("output", "ir", "time", "cost")
SCHEMA = "mlir-matrix/bisect-log/v2"
#: A version that distinguished behaviours by the number of wrong elements, and took an unreadable program for a behaviour.
_OLDER = "mlir-matrix/bisect-log/v1"
#: The text between an event and the first digits of its SHA-256.
_SEAL = b', "digest": "'
_DIGITS = 16
#: The name of a log in the folder of its bisection.
LAST = "log.ndjson"


class Log:
    """Appends events to a file."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        """``names``: those of the points."""
        self.path, self._names = path, names

    def begin(self, arguments: Sequence[str], component: str, tests: Iterable[str]) -> None:
        """Write the subject of the bisection, at each start. Raise InfrastructureError."""
        self._write(
            "begin",
            schema=SCHEMA,
            arguments=list(arguments),
            folder=os.getcwd(),
            component=component,
            releases=list(self._names),
            tests=list(tests),
        )

    def observed(self, seen: Observation, by: By) -> None:
        """Write an observation with the data of its behaviour. Raise InfrastructureError."""
        self._write(
            "observed",
            test=seen.test,
            release=self._names[seen.point],
            behaviour=None if seen.signature is None else asdict(seen.signature),
            by=asdict(by),
            limit_s=seen.limit_s,
            judged=seen.judged,
            result=seen.result.to_fields(),
        )

    def judged(self, seen: Observation, number: int) -> None:
        """Write that a person judged an observation, the ``number``-th of its test and point. Raise InfrastructureError."""
        behaviour = None if seen.signature is None else asdict(seen.signature)
        self._write("judged", test=seen.test, release=self._names[seen.point], number=number, behaviour=behaviour)

    def skipped(self, names: Iterable[str]) -> None:
        """Write which points are skipped. Raise InfrastructureError."""
        for name in names:
            self._write("skipped", release=name)

    def undone(self) -> None:
        """Write that the last observation does not count. Raise InfrastructureError."""
        self._write("undone")

    def _write(self, event: str, **values: Any) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        append_line(self.path, _sealed(json.dumps({"event": event, "time": stamp, **values}).encode()))


def _sealed(event: bytes) -> bytes:
    """Return the line of an event, with its digest as the last key."""
    return event[:-1] + _SEAL + digest_bytes(event)[:_DIGITS].encode() + b'"}\n'


def _opened(line: bytes) -> bytes | None:
    """Return the event of a line without its line feed; None if its digest is another one."""
    event = line.rpartition(_SEAL)[0] + b"}"
    return event if _sealed(event) == line + b"\n" else None


@dataclass(kw_only=True)
class Past:
    """The content of the log of a bisection."""

    path: Path
    arguments: Sequence[str]
    component: str = ""
    #: The names of the points, in order, and the tests.
    releases: Sequence[str] = ()
    tests: Sequence[str] = ()
    observed: list[dict[str, Any]] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)
    #: The working folder of its last start.
    folder: str = ""
    #: Whether the bisection continues in the same folder, and whether to forget its last observation.
    resumed: bool = False
    undo: bool = False

    def observations(self, axis: Axis, tests: Iterable[str], limit_s: float, by: By) -> list[Observation]:
        """Return the observations that still count.

        Leave out infrastructure errors, time-outs under a smaller limit, and points that are not on the axis. If the criterion has
        changed, compute the behaviour from the result, if that is enough.
        """
        places, known = {name: index for index, name in enumerate(axis.names)}, set(tests)
        found = []
        for each in self.observed[: -1 if self.undo else None]:
            if each["release"] not in places or each["test"] not in known:
                continue
            seen = _restored(each, places[each["release"]])
            late = seen.result.outcome == Outcome.TIMED_OUT and seen.limit_s < limit_s
            if not seen.judged and (late or seen.result.outcome == Outcome.INFRA_ERROR):
                continue
            if not seen.judged and each["by"] != asdict(by):
                if by.kind in _OF_OUTPUTS:
                    continue
                seen = replace(seen, signature=signature(seen.result, by))
                if seen.signature is None:
                    # The result does not say whether the release itself wrote the unreadable text.
                    continue
            found.append(seen)
        return found


def read_log(path: Path) -> Past:
    """Read a log. Raise UsageError if it is none, or where a line is not as it was written."""
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"the log {path} cannot be read: {error.strerror}") from None
    if _opened(torn[:-1]) is not None:
        # The line is complete, only its line feed is missing.
        lines.append(torn)
    past: Past | None = None
    for number, line in enumerate(lines, 1):
        event = _opened(line)
        if event is None:
            raise UsageError(
                f"{path}:{number}: the digest of this line of a bisection's log differs: the file is damaged, or an older "
                "release wrote it; remove this line and those after it to continue from there, or begin anew"
            )
        try:
            past = _take(past, path, json.loads(event))
        except (ValueError, LookupError, TypeError) as error:
            raise UsageError(f"{path}:{number}: not an event of a bisection: {error!r}") from None
    if past is None:
        raise UsageError(f"{path} is not the log of a bisection: it does not begin with the event begin of {SCHEMA}")
    return past


def _take(past: Past | None, path: Path, event: Mapping[str, Any]) -> Past:
    """Return the content of the log after an event."""
    kind = event["event"]
    if kind == "begin" and event["schema"] == _OLDER:
        raise UsageError(
            f"{path}: an older version of this program wrote this log, and distinguished behaviours differently; "
            f"begin anew: {shlex.join([launcher(), 'bisect', *event['arguments']])}"
        )
    if past is None or kind == "begin":
        if kind != "begin" or event["schema"] != SCHEMA:
            raise ValueError(f"expected the event begin of {SCHEMA}")
        past = past or Past(path=path, arguments=())
        past.arguments, past.folder = event["arguments"], event["folder"]
        past.component, past.releases, past.tests = event["component"], event["releases"], event["tests"]
        return past
    if kind == "observed":
        _restored(event, 0)
        past.observed.append(dict(event))
    elif kind == "undone" and past.observed:
        past.observed.pop()
    elif kind == "skipped":
        past.skipped.add(event["release"])
    elif kind == "judged":
        place = (event["test"], event["release"])
        seen = [each for each in past.observed if (each["test"], each["release"]) == place]
        seen[event["number"]] |= {"behaviour": event["behaviour"], "judged": True}
    return past


def _restored(event: Mapping[str, Any], point: int) -> Observation:
    """Return the observation of an event. Raise KeyError, TypeError or ValueError."""
    result = TestResult(**{**event["result"], "outcome": Outcome(event["result"]["outcome"])})
    return Observation(
        test=event["test"],
        point=point,
        signature=_signature(event["behaviour"]),
        result=result,
        limit_s=event["limit_s"],
        judged=event["judged"],
    )


def _signature(words: Mapping[str, Any] | None) -> Signature | None:
    if words is None:
        return None
    return Signature(**{**words, "outcome": Outcome(words["outcome"]), "details": tuple(words["details"])})


def bisections() -> Path:
    """Return the folder of all bisections."""
    return find_home().state / "bisect"
