"""Read Bazel's build event stream.

Source: the Build Event Protocol (``build_event_stream.proto``), one JSON object per line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlparse


@dataclass(frozen=True, kw_only=True)
class Made:
    """A file that Bazel reports: its path below the output root, and its absolute path."""

    name: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A target that is built or has failed, with the reason if Bazel reports one."""

    label: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """An action that failed: its target, and its error output."""

    label: str
    reason: str
    output: str


@dataclass(frozen=True, kw_only=True)
class Acted:
    """An action that succeeded."""


@dataclass(frozen=True, kw_only=True)
class BuildFinished:
    """The end of the build; ``code`` is the name of Bazel's exit code, for example ``SUCCESS`` or ``BUILD_FAILURE``."""

    code: str


Event = Made | Completed | Acted | Failed | BuildFinished


@dataclass
class Events:
    """Parses the bytes of the stream, and drops other events."""

    _buffer: bytes = b""
    _reasons: dict[str, str] = field(default_factory=dict)

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events of complete lines."""
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                # Bazel was killed while it wrote the line.
                continue
            if isinstance(event, dict):
                yield from self._read(event)

    def _read(self, event: dict[str, Any]) -> Iterator[Event]:
        identity = event.get("id", {})
        if "namedSetOfFiles" in event:
            for file in event["namedSetOfFiles"].get("files", ()):
                if path := _local_path(file):
                    yield Made(name=str(file["name"]), path=path)
        elif "aborted" in event:
            yield from self._aborted(identity, event["aborted"])
        elif "completed" in event:
            label = identity["targetCompleted"]["label"]
            success = event["completed"].get("success")
            yield Completed(label=label, reason="" if success else self._reasons.get(label, ""))
        elif "action" in event:
            yield Acted() if event["action"].get("success") else _failed(identity, event["action"])
        elif "finished" in event:
            yield BuildFinished(code=event["finished"].get("exitCode", {}).get("name", ""))

    def _aborted(self, identity: dict[str, Any], aborted: dict[str, Any]) -> Iterator[Event]:
        """Yield the end of a target that could not be analysed. The event of its configuration has the better reason."""
        description = str(aborted.get("description", ""))
        for kind in ("unconfiguredLabel", "configuredLabel"):
            if kind in identity:
                self._reasons[identity[kind]["label"]] = description
        if "targetCompleted" in identity:
            label = identity["targetCompleted"]["label"]
            yield Completed(label=label, reason=description or self._reasons.get(label, ""))


def _local_path(file: dict[str, Any]) -> str:
    uri = urlparse(str(file.get("uri", "")))
    return unquote(uri.path) if uri.scheme == "file" else ""


def _failed(identity: dict[str, Any], action: dict[str, Any]) -> Failed:
    try:
        with open(_local_path(action.get("stderr", {})), encoding="utf-8", errors="replace") as file:
            output = file.read()
    except OSError:
        output = ""
    return Failed(
        label=identity.get("actionCompleted", {}).get("label") or action.get("label", ""),
        reason=str(action.get("failureDetail", {}).get("message", "")),
        output=output,
    )
