"""Merge the results of the shards of one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import read_document
from mlir_matrix.base.names import printable
from mlir_matrix.base.text import shortened
from mlir_matrix.fleet.shards import identifiers_digest
from mlir_matrix.plan.documents import Selection, Shard
from mlir_matrix.results.cause_changes import named_by_changes
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.documents import FinishedRun, Results, TestEntry
from mlir_matrix.results.results import SCHEMA, Run, TestResult

_COMMAND = "matrix run --results FILE"


def read_results(file: Path) -> Results:
    """Read a results document. Raise UsageError."""
    try:
        found: Results = TypeAdapter(Results).validate_python(read_document(file, SCHEMA, _COMMAND))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = printable(".".join(map(str, first["loc"])))
        value = printable(shortened(str(first["input"]), 60))
        raise UsageError(
            f"{file}: {place}: {value}: {printable(first['msg'])}; make it again with: {_COMMAND}"
        ) from None
    return found


def merge(documents: Mapping[Path, Results]) -> tuple[Run, FinishedRun, Selection]:
    """Return the results of all shards, when they ran, and what selected them. Raise UsageError.

    Refused are files that are no shard, shards of different plans, durations, pins, environments, versions or commits, and
    missing or doubled ones.
    """
    shards = {file: _shard(file, document) for file, document in documents.items()}
    (first, shard), *others = shards.items()
    for file, other in others:
        for what, one, two in (
            ("counts", shard["count"], other["count"]),
            ("durations", shard["durations"], other["durations"]),
            ("plans", shard["tests"], other["tests"]),
            ("pins", documents[first]["selection"]["pins"], documents[file]["selection"]["pins"]),
            (
                "environments",
                *(each["selection"].get("environments", {}) for each in (documents[first], documents[file])),
            ),
            ("versions", documents[first]["run"]["version"], documents[file]["run"]["version"]),
            ("commits", _commits(documents[first]), _commits(documents[file])),
        ):
            if one != two:
                shown = f"{_short(one)} and {_short(two)}"
                raise UsageError(f"{first} and {file} are shards of different {what}: {shown}; run them again alike")
    _check_complete(shards, shard["count"])
    tests = [entry for document in documents.values() for entry in document["tests"]]
    if identifiers_digest([entry["id"] for entry in tests]) != shard["tests"]:
        raise UsageError(f"the shards have {len(tests)} tests, which are not those of the plan; run them again")
    results = sorted(map(result_of, tests), key=lambda result: result.id)
    # Shards know what changed since their tests passed.
    changes = {
        cause["key"]: cause["changed"]
        for document in documents.values()
        for cause in document.get("causes", ())
        if "changed" in cause
    }
    run = Run(
        results=results,
        causes=named_by_changes(results, causes_of(results), changes),
        executed_actions=[each for document in documents.values() for each in document["executed_actions"]],
        interruption=KeyboardInterrupt() if any(each["interrupted"] for each in documents.values()) else None,
    )
    runs = [document["run"] for document in documents.values()]
    about: FinishedRun = {
        **runs[0],
        "host": ", ".join(dict.fromkeys(each["host"] for each in runs)),
        "command": "; ".join(dict.fromkeys(each["command"] for each in runs)),
        "started": min(each["started"] for each in runs),
        "ended": max(each["ended"] for each in runs),
    }
    return run, about, {"pins": documents[first]["selection"]["pins"]}


def _shard(file: Path, document: Results) -> Shard:
    shard = document.get("selection", {}).get("shard")
    if shard is None:
        raise UsageError(f"{file}: not the results of a shard; make them with: matrix run --shard I/N --results FILE")
    return shard


def _check_complete(shards: Mapping[Path, Shard], count: int) -> None:
    by_index: dict[int, Path] = {}
    for file, shard in shards.items():
        if shard["index"] in by_index:
            raise UsageError(f"{by_index[shard['index']]} and {file} are both shard {shard['index']}/{count}")
        by_index[shard["index"]] = file
    missing = [f"{index}/{count}" for index in range(1, min(count, 10_000) + 1) if index not in by_index]
    if missing or len(by_index) != count:
        raise UsageError(f"of {count} shards, {len(by_index)} are given; missing: {', '.join(missing[:5])}")


def _commits(document: Results) -> Sequence[str]:
    return [each.get("commit", "") + "+" * each.get("dirty", False) for each in document["run"]["catalogs"]]


def _short(value: object) -> str:
    return value[:12] if isinstance(value, str) else printable(str(value))


def result_of(entry: TestEntry) -> TestResult:
    """Return the result that an entry of a document was made of."""
    values: dict[str, Any] = {**entry, "tested_property": entry.get("property", "")}
    return TestResult(**{each.name: values[each.name] for each in fields(TestResult) if each.name in values})
