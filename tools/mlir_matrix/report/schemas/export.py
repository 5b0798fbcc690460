"""JSON Schemas of the catalog's files and of the documents that plans and runs give, for editors and other programs.

``python -m mlir_matrix.report.schemas.export --write DIR`` writes one ``NAME.json`` each; ``docs/schemas/`` holds them checked in.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, with_config
from typing_extensions import is_typeddict

from mlir_matrix.catalog.models import base as models
from mlir_matrix.catalog.models import suites, toolchains
from mlir_matrix.errors import UsageError
from mlir_matrix.files import write_text
from mlir_matrix.names import did_you_mean, printable
from mlir_matrix.report.schemas import audit, comparison, conflicts, golden, run, verdict

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FILES: Mapping[str, type[BaseModel]] = {
    "component": toolchains.Component,
    "containers": toolchains.Containers,
    "environment": toolchains.Environment,
    "framework": models.Framework,
    "kind": models.Kind,
    "known-good": toolchains.KnownGood,
    "pipeline": models.Pipeline,
    "step": models.Step,
    "suite": suites.Suite,
    "target": models.Target,
    "tolerances": models.Tolerances,
    "workload": models.Workload,
}
#: What verbs print with ``--format json``, by the name in the ``schema`` key.
DOCUMENTS: Mapping[str, type] = {
    "audit": audit.Audit,
    "calibration": golden.Calibration,
    "comparison": comparison.Comparisons,
    "conflicts": conflicts.Conflicts,
    "golden-explanation": golden.GoldenExplanation,
    "golden-update": golden.GoldenUpdate,
    "plan": run.Plan,
    "results": run.Results,
}
_MODELS: Mapping[str, type] = {**_FILES, **DOCUMENTS}
_OF_FILES = (models, suites, toolchains)
_OF_DOCUMENTS = (audit, comparison, run, golden, conflicts, verdict)
for _type in [each for module in _OF_DOCUMENTS for each in vars(module).values() if is_typeddict(each)]:
    with_config(ConfigDict(extra="forbid"))(_type)
#: Kinds of files that people write.
FILES = tuple(sorted(_FILES))
NAMES = tuple(sorted(_MODELS))


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind of file or document. Raises UsageError for an unknown name."""
    if name not in _MODELS:
        raise UsageError(f"there is no schema '{printable(name)}'{did_you_mean(name, NAMES)}")
    made = adapter(name).json_schema(by_alias=True)
    definitions = made.pop("$defs", {})
    modules = _OF_FILES if name in _FILES else _OF_DOCUMENTS
    for title, definition in ({_MODELS[name].__name__: made} | definitions).items():
        _describe(definition, next(vars(module)[title] for module in modules if title in vars(module)))
    result = {"$schema": DIALECT, **_without_titles(made)}
    if definitions:
        result["$defs"] = {title: _without_titles(definition) for title, definition in sorted(definitions.items())}
    return result


@cache
def adapter(name: str) -> TypeAdapter[Any]:
    """Return what validates a kind of file or document."""
    return TypeAdapter(_MODELS[name])


def text(name: str) -> str:
    """The schema as it is written to a file."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


def _describe(definition: dict[str, Any], kind: type) -> None:
    """Give each key the comment that stands above it in its class, and the class its docstring on one line."""
    definition["description"] = _one_line(inspect.getdoc(kind) or "")
    comments = {
        name: words for each in _lineage(kind) for name, words in _comments(each.__module__)[each.__name__].items()
    }
    aliases = {name: field.alias for name, field in kind.model_fields.items()} if issubclass(kind, BaseModel) else {}
    for name, words in comments.items():
        if words:
            definition["properties"][aliases.get(name) or name]["description"] = words


def _lineage(kind: type) -> Iterator[type]:
    """Yield the classes of ours that declare keys of a class, the general ones first."""
    for base in getattr(kind, "__orig_bases__", kind.__bases__):
        if getattr(base, "__module__", "").startswith("mlir_matrix."):
            yield from _lineage(base)
    if kind.__name__ in _comments(kind.__module__):
        yield kind


@cache
def _comments(module: str) -> dict[str, dict[str, str]]:
    """The ``#:`` comments of a module of models: class to field to text."""
    source = inspect.getsource(sys.modules[module])
    lines = source.splitlines()
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
            found[node.name] = {ast.unparse(item.target): _above(lines, item.lineno) for item in fields}
    return found


def _above(lines: Sequence[str], line: int) -> str:
    """The comment that ends on the line before ``line`` (from 1)."""
    comment: list[str] = []
    index = line - 2
    while index >= 0 and lines[index].lstrip().startswith("#:"):
        comment.insert(0, lines[index].lstrip()[2:].strip())
        index -= 1
    return _one_line(" ".join(comment))


def _one_line(words: str) -> str:
    return re.sub(r"\s+", " ", words.replace("``", "`")).strip()


def _without_titles(node: Any) -> Any:
    """A schema without the titles that pydantic makes of names, which editors would show instead of descriptions."""
    if isinstance(node, dict):
        keep = {
            key: {name: _without_titles(inner) for name, inner in value.items()} if key == "properties" else value
            for key, value in node.items()
            if key != "title"
        }
        return {key: value if key == "properties" else _without_titles(value) for key, value in keep.items()}
    return [_without_titles(item) for item in node] if isinstance(node, list) else node


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all schemas, or print one."""
    parser = argparse.ArgumentParser(prog="python -m mlir_matrix.report.schemas.export", description=main.__doc__)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", metavar="DIR", type=Path, help="write NAME.json for every schema into DIR")
    choice.add_argument("name", nargs="?", choices=NAMES, help="print this schema")
    options = parser.parse_args(arguments)
    if options.write is None:
        sys.stdout.write(text(options.name))
        return 0
    for name in NAMES:
        write_text(options.write / f"{name}.json", text(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
