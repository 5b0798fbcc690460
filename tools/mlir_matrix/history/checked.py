"""Check the file of a run, and convert it to rows that any database accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_bytes, digest_value
from mlir_matrix.base.text import harmless, milliseconds
from mlir_matrix.history.record import LONGEST
from mlir_matrix.history.spool import SpoolError
from mlir_matrix.results.results import NOT_RUN

BAD, GOOD, UNKNOWN = 0, 1, 2
_ID = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
#: The most characters of a command, which is useless if it is cut.
_LONGEST_COMMAND = 4000
_MOST_MS = (1 << 31) - 1
_OUTCOMES = {str(each) for each in Outcome}


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A run as rows."""

    id: str
    same_as: str | None
    host: str
    version: str
    command: str
    #: Lists in JSON.
    arguments: str
    catalogs: str
    started: str
    ended: str
    interrupted: int
    #: (digest, outcome, stage, text)
    behaviours: Sequence[tuple[str, str, str, str]]
    #: (digest, pins, environments)
    sets: Sequence[tuple[str, str, str]]
    #: (digest, key of the cause, kind, name, file, title, example, next)
    causes: Sequence[tuple[str, ...]]
    #: (digest, numbers by cost in JSON)
    costs: Sequence[tuple[str, str]]
    #: (digest, names and digests of levels in JSON)
    ir: Sequence[tuple[str, str]]
    #: Columns of results: test, index of its behaviour, state, executed, ms, error_used, max_ulp, index of its set, inputs,
    #: index of its cause or None, of its costs or None, and of its IR or None.
    columns: Sequence[Sequence[Any]]


def check(recording: Mapping[str, Any]) -> Checked:
    """Return a recording as rows. Raise SpoolError."""
    try:
        return _check(recording)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise SpoolError(f"damaged: {type(error).__name__}: {harmless(str(error))[:80]}") from None


def _check(recording: Mapping[str, Any]) -> Checked:
    run, same_as = recording["run"], recording.get("same_as")
    times = [run["started"], run["ended"]]
    for pattern, texts in ((_ID, [recording["id"], *([same_as] if same_as else [])]), (_TIME, times)):
        for text in texts:
            if not pattern.fullmatch(text):
                raise ValueError(f"{text!r} is not an identifier or a time")
    for text in times:
        milliseconds(text)  # raises ValueError if no calendar has the date
    catalogs = [
        {
            "folder": _text(each["folder"]),
            "commit": _text(each.get("commit", "")),
            "branch": _text(each.get("branch", "")),
            "dirty": bool(each.get("dirty")),
        }
        for each in run.get("catalogs", ())
    ]
    named = {name: _text(run.get(name, "")) for name in ("host", "version", "command")}
    behaviours = [_behaviour(*each) for each in recording.get("behaviours", ())]
    sets = [_set(*each) for each in recording.get("sets", ())]
    rows = recording.get("tests", ())
    # Older programs grouped no failures.
    causes, cause = _causes(recording.get("causes", ()), len(rows))
    costs, cost = _costs(recording.get("costs", ()), len(rows))
    ir, levels = _ir(recording.get("ir", ()), len(rows))
    columns = [*_columns(rows, behaviours, _Inputs(run, catalogs, sets)), cause, cost, levels]
    return Checked(
        id=recording["id"], same_as=same_as, **named, catalogs=json.dumps(catalogs), started=times[0], ended=times[1],
        arguments=json.dumps([_text(each) for each in recording.get("arguments", ())]),
        interrupted=int(bool(recording.get("interrupted"))), behaviours=behaviours, sets=sets, causes=causes, costs=costs,
        ir=ir, columns=columns,
    )  # fmt: skip


def _text(text: str, longest: int = LONGEST) -> str:
    # Without line breaks, which would break the rows of tables.
    return text if text.isprintable() and len(text) <= longest else " ".join(harmless(text[:longest]).split())[:longest]


def _behaviour(outcome: str, stage: str, digest: str, text: str) -> tuple[str, str, str, str]:
    if outcome not in _OUTCOMES:
        raise ValueError(f"{outcome!r} is not an outcome")
    found = (outcome, _text(stage, 20), _text(text))
    return digest_value([*found, _text(digest, 64)]), *found


def _set(pins: Mapping[str, str], environments: Mapping[str, str]) -> tuple[str, str, str]:
    both = [
        json.dumps({_text(name): _text(value) for name, value in sorted(each.items())}) for each in (pins, environments)
    ]
    return digest_value(both), both[0], both[1]


def _causes(found: Sequence[Any], tests: int) -> tuple[list[tuple[str, ...]], list[int | None]]:
    """Return the causes, and the index of the cause of each test."""
    causes = []
    for key, kind, name, file, title, example, command, _ in found:
        texts = map(_text, (key, kind, name, file, title, example))
        named = (*texts, _text(command, _LONGEST_COMMAND))
        causes.append((digest_value(named), *named))
    return causes, _of_tests((failing for *_, failing in found), tests)


def _costs(found: Sequence[Any], tests: int) -> tuple[list[tuple[str, str]], list[int | None]]:
    """Return the sets of exact costs, and the index of that of each test."""
    texts = [
        json.dumps({_text(name): value for name, value in sorted(exact.items()) if _finite(value) is not None})
        for exact, _ in found
    ]
    return [(digest_value(text), text) for text in texts], _of_tests((counted for _, counted in found), tests)


def _ir(found: Sequence[Any], tests: int) -> tuple[list[tuple[str, str]], list[int | None]]:
    """Return the IR after steps, and the index of that of each test."""
    texts = []
    for levels, _ in found:
        if not all(_SHA256.fullmatch(digest) for _, digest in levels):
            raise ValueError("IR without a digest")
        texts.append(json.dumps([(_text(name), digest) for name, digest in levels]))
    return [(digest_value(text), text) for text in texts], _of_tests((given for _, given in found), tests)


def _of_tests(groups: Iterable[Sequence[int]], tests: int) -> list[int | None]:
    """Return the index of the group of each test. Raise IndexError for a test that is none."""
    found: list[int | None] = [None] * tests
    for index, members in enumerate(groups):
        for test in members:
            if test < 0:
                raise IndexError("negative")
            found[test] = index
    return found


class _Inputs:
    """Numbers for the inputs of executions, equal if all static inputs and the host are equal.

    Without a digest of the inputs, use environments and commits of catalogs, if no catalog had uncommitted changes.
    """

    def __init__(
        self, run: Mapping[str, Any], catalogs: Sequence[Mapping[str, Any]], sets: Sequence[tuple[str, str, str]]
    ) -> None:
        known = bool(catalogs) and all(each["commit"] and not each["dirty"] for each in catalogs)
        about = [run.get("version"), run.get("host"), [each["commit"] for each in catalogs]]
        self._of_sets = [_number([*about, digest]) if known else None for digest, _, _ in sets]
        self._host = _number(run.get("host"))

    def numbers(self, digests: Sequence[str | None], pins: Sequence[int]) -> list[int | None]:
        of_sets, host = self._of_sets, self._host
        return [
            of_sets[at] if digest is None else int(digest[:15], 16) ^ host
            for digest, at in zip(digests, pins, strict=True)
        ]


def _number(value: Any) -> int:
    return int(digest_bytes(json.dumps(value).encode())[:15], 16)


def _columns(rows: Sequence[Any], behaviours: Sequence[tuple[str, ...]], inputs: _Inputs) -> Sequence[Sequence[Any]]:
    if not rows:
        return [()] * 9
    names, behaviour, expected, cached, seconds, used, ulp, pins, digests = zip(*rows, strict=True)
    if min(behaviour) < 0 or min(pins) < 0:
        raise IndexError("negative")
    ran = [int(each[1] not in NOT_RUN) for each in behaviours]
    told = [here and each[1] != Outcome.INFRA_ERROR for here, each in zip(ran, behaviours, strict=True)]
    return [
        list(map(_text, names)),
        behaviour,
        [(GOOD if right else BAD) if told[at] else UNKNOWN for at, right in zip(behaviour, expected, strict=True)],
        [ran[at] and int(not known) for at, known in zip(behaviour, cached, strict=True)],
        [min(max(int(each * 1000 + 0.5), 0), _MOST_MS) for each in seconds],
        list(map(_finite, used)),
        list(map(_finite, ulp)),
        pins,
        inputs.numbers(digests, pins),
    ]


def _finite(value: object) -> float | None:
    """Return a number that every database and JSON can represent, else None."""
    if value is None:
        return None
    number = float(value)  # type: ignore[arg-type] # a text may be one
    return number if isfinite(number) else None
