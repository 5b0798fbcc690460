"""Make the JSON Schemas of the catalog's files and of documents, for editors and other programs.

``python -m mlir_matrix.schema.export --write DIR`` writes ``NAME.json`` for each; ``docs/schemas/`` has them.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import check_known
from mlir_matrix.bisect import documents as bisect
from mlir_matrix.bisect.steps import documents as bisect_steps
from mlir_matrix.browse import documents as browse
from mlir_matrix.catalog.models import base as models
from mlir_matrix.catalog.models import costs, machines, project, suites, toolchains
from mlir_matrix.compare import documents as compare
from mlir_matrix.containers import documents as containers
from mlir_matrix.cost import documents as cost
from mlir_matrix.expectations import documents as expectations
from mlir_matrix.explain import documents as explain
from mlir_matrix.fleet import documents as fleet
from mlir_matrix.fuzz import documents as fuzz
from mlir_matrix.golden import documents as golden
from mlir_matrix.history import documents as history
from mlir_matrix.integrate import documents as integrate
from mlir_matrix.plan import documents as plan
from mlir_matrix.reduce import documents as reduce
from mlir_matrix.results import documents as results
from mlir_matrix.support import documents as support
from mlir_matrix.toolchain import documents as toolchain

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FILES: Mapping[str, type[BaseModel]] = {
    "added-releases": toolchains.AddedReleases,
    "component": toolchains.Component,
    "containers": toolchains.Containers,
    "corpus": models.Corpus,
    "cost-goldens": costs.CostGoldens,
    "environment": toolchains.Environment,
    "expectations": suites.Expectations,
    "framework": models.Framework,
    "kind": models.Kind,
    "known-findings": suites.KnownFindings,
    "known-good": toolchains.KnownGood,
    "machine": machines.Machine,
    "pipeline": models.Pipeline,
    "project": project.Project,
    "quarantine": suites.Quarantine,
    "source-form": models.SourceForm,
    "step": models.Step,
    "suite": suites.Suite,
    "target": models.Target,
    "tolerances": models.Tolerances,
    "workload": models.Workload,
}
#: The documents of ``--format json`` and the lines of ``--events``, by the name in their key ``schema``.
DOCUMENTS: Mapping[str, Any] = {
    "audit": golden.Audit,
    "best": cost.BestDocument,
    "bisect": bisect.Bisections,
    "bisect-steps": bisect_steps.SteppedBisections,
    "builds": toolchain.TransferredBuilds,
    "cache-gc": results.CacheGc,
    "calibration": golden.Calibration,
    "comparison": compare.Comparisons,
    "conflicts": expectations.Conflicts,
    "container-images": containers.ContainerImages,
    "cost-audit": cost.CostAudit,
    "cost-comparison": cost.CostComparison,
    "cost-update": golden.CostUpdate,
    "costs": cost.CostsDocument,
    "doctor": toolchain.Doctor,
    "durations": fleet.Durations,
    "entry": browse.ShownEntries,
    "events": results.Event,
    "expect": expectations.Expect,
    "explanation": explain.TestExplanation,
    "fetched": toolchain.Fetched,
    "fleet": fleet.Fleet,
    "fuzz": fuzz.Fuzz,
    "gc": toolchain.ToolchainGc,
    "golden-explanation": golden.GoldenExplanation,
    "golden-update": golden.GoldenUpdate,
    "history": history.Shown,
    "history-diff": history.Diff,
    "history-error-growing": history.Growing,
    "history-first-bad": history.FirstBad,
    "history-flaky": history.Flaky,
    "history-runs": history.Runs,
    "history-slower": history.Slower,
    "history-today": history.Today,
    "inputs": golden.Inputs,
    "integration": integrate.IntegrationDocument,
    "listing": browse.Listing,
    "locked": toolchain.Locked,
    "machine-check": fleet.MachineCheck,
    "machines": fleet.Machines,
    "oracles": explain.Oracles,
    "plan": plan.Plan,
    "probe": fleet.Probe,
    "reduce": reduce.Reductions,
    "results": results.Results,
    "roll": toolchain.RolledToolchain,
    "support": support.Support,
    "toolchain": toolchain.Toolchain,
    "verified-containers": containers.VerifiedContainers,
    "verified-toolchain": toolchain.VerifiedToolchain,
}
_MODELS: Mapping[str, Any] = {**_FILES, **DOCUMENTS}
_OF_FILES = (models, costs, machines, project, suites, toolchains)
#: The lines of events are a union, which has no module.
_OF_DOCUMENTS = tuple(
    dict.fromkeys(sys.modules[each.__module__] for each in DOCUMENTS.values() if isinstance(each, type))
)
#: Kinds of files in a catalog.
FILES = tuple(sorted(_FILES))
NAMES = tuple(sorted(_MODELS))


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of file or document. Raise UsageError for an unknown name."""
    check_known("schema", [name], NAMES)
    made = adapter(name).json_schema(by_alias=True)
    definitions = made.pop("$defs", {})
    # Documents may hold parts of files.
    modules = _OF_FILES if name in _FILES else (*_OF_DOCUMENTS, *_OF_FILES)
    # The lines of events are a union, which has no name.
    top = {made["title"]: made} if "title" in made else {}
    for title, definition in (top | definitions).items():
        _describe(definition, next(vars(module)[title] for module in modules if title in vars(module)))
    result = {"$schema": DIALECT, **_without_titles(made)}
    if definitions:
        result["$defs"] = {title: _without_titles(definition) for title, definition in sorted(definitions.items())}
    return result


@cache
def adapter(name: str) -> TypeAdapter[Any]:
    """Return the validator of a kind of file or document."""
    return TypeAdapter(_MODELS[name])


def text(name: str) -> str:
    """Return the text of a schema file."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


def _describe(definition: dict[str, Any], kind: type) -> None:
    """Add the docstrings of a class and its attributes."""
    definition["description"] = _one_line(inspect.getdoc(kind) or "")
    aliases = {name: field.alias for name, field in kind.model_fields.items()} if issubclass(kind, BaseModel) else {}
    for name, text in _docstrings(kind).items():
        definition["properties"][aliases.get(name) or name]["description"] = _one_line(text)


def _docstrings(kind: type) -> dict[str, str]:
    """Return the attribute docstrings of a class and of its bases, which pydantic leaves out for a TypedDict."""
    found: dict[str, str] = {}
    # Base classes of a TypedDict are not in its MRO.
    for base in getattr(kind, "__orig_bases__", kind.__bases__):
        if getattr(base, "__module__", "").startswith("mlir_matrix.") and base.__doc__:
            found |= _docstrings(base)
    for field, text in pairwise(_definitions(kind.__module__)[kind.__name__].body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                found[name] = words
    return found


@cache
def _definitions(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module as its source defines them, read once: to find one class takes as long as all."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _one_line(words: str) -> str:
    return re.sub(r"\s+", " ", words.replace("``", "`")).strip()


def _without_titles(node: Any) -> Any:
    """Remove the titles that pydantic makes of names: editors would show them instead of descriptions."""
    if isinstance(node, dict):
        keep = {
            key: {name: _without_titles(inner) for name, inner in value.items()} if key == "properties" else value
            for key, value in node.items()
            if key != "title"
        }
        return {key: value if key == "properties" else _without_titles(value) for key, value in keep.items()}
    return [_without_titles(item) for item in node] if isinstance(node, list) else node


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all schemas."""
    parser = argparse.ArgumentParser(prog="python -m mlir_matrix.schema.export", description=main.__doc__)
    parser.add_argument(
        "--write", metavar="DIR", type=Path, required=True, help="write NAME.json for every schema into DIR"
    )
    folder = parser.parse_args(arguments).write
    for name in NAMES:
        write_text(folder / f"{name}.json", text(name))


if __name__ == "__main__":
    main()
