"""Messages between a worker and who uses it: a line of JSON each, as Bazel's persistent workers have them.

A request names actions that one process executes, one after the other, until one fails. Each gets an answer of its own. A
request of Bazel has one action, and its layout as its only argument (``bazel_layout``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRequest:
    """What to execute."""

    request_id: int = 0
    #: The folder of the first action. Those of the others are beside it.
    folder: str = "."
    arguments: Sequence[str] = ()
    #: Whether to end the process of this request instead.
    cancel: bool = False

    def to_line(self) -> bytes:
        message = {
            "requestId": self.request_id,
            "sandboxDir": self.folder,
            "arguments": [*self.arguments],
            "inputs": [],
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
            cancel=bool(message.get("cancel")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResponse:
    """The end of one action; the rest is in its folder."""

    request_id: int
    #: Why the machine could not execute it; empty if it could.
    trouble: str = ""
    #: Seconds (``wall_s``, ``user_s``, ``sys_s``) and ``max_rss_kb``.
    usage: Mapping[str, float] = field(default_factory=dict)
    #: Whether the next action of the request has begun, and will be answered too.
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
