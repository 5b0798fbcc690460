"""Add the actions of programs in foreign forms: one prepares a program, one lists the members of a corpus."""

from __future__ import annotations

from collections.abc import Mapping

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import PrepareParams, ToolParams
from mlir_matrix.actions.runtime.prepared import PREPARED
from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.corpora import LIST
from mlir_matrix.catalog.models.base import Corpus, ParameterValue, SourceForm, Workload
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.recipes import ResolvedStep, resolve_tool
from mlir_matrix.plan.graph import Graph, Input
from mlir_matrix.plan.parameters import file_of, label, tool_files, tool_params


def is_prepared(catalog: Catalog, workload: Entry[Workload]) -> bool:
    """Return whether the program's own code declares its inputs and outputs."""
    form = catalog.sources.get(workload.document.source or "")
    return form is not None and form.document.prepares(form.files)


def has_draws(catalog: Catalog, workload: Entry[Workload]) -> bool:
    """Return whether a program can have inputs other than those of its test."""
    return catalog.sources[str(workload.document.source)].document.draws


def add_prepared(graph: Graph, catalog: Catalog, pins: Pins, workload: Entry[Workload], draw: int = 0) -> str:
    """Add the action that prepares a program (:mod:`mlir_matrix.actions.runtime.prepared`)."""
    form = catalog.sources[str(workload.document.source)]
    tool, own, files = _tool(catalog, pins, form, workload.document.parameters)
    source = workload.files[form.document.gives]
    # A member that is not a file does not depend on the list that names it.
    if source != workload.folder / LIST:
        files["source"] = file_of(catalog, workload.root, source)
    params: PrepareParams = {**own, "member": workload.member, "draw": draw}
    return graph.add(
        f"prepare/{label(workload)}",
        tool=tool.tool,
        stage=Stage.IMPORT,
        environment=tool.environment,
        params=params,
        inputs=files,
        outputs={"program": form.document.gives, **PREPARED},
    )


def add_members(graph: Graph, catalog: Catalog, pins: Pins, corpus: Entry[Corpus]) -> str:
    """Add the action that lists the members of a corpus. Its output is ``members``, with a name on each line."""
    form = catalog.sources[corpus.document.source]
    if not form.document.prepares(form.files):
        raise UsageError(f"{form.source.file}: no prepare.py lists members of corpus {corpus.name}; give it a 'folder'")
    tool, params, files = _tool(catalog, pins, form, corpus.document.parameters)
    return graph.add(
        f"members/{corpus.name}",
        tool=tool.tool,
        stage=Stage.IMPORT,
        environment=tool.environment,
        params={**params, "function": "members"},
        inputs=files,
        outputs={"members": LIST},
    )


def _tool(
    catalog: Catalog, pins: Pins, form: Entry[SourceForm], given: Mapping[str, ParameterValue]
) -> tuple[ResolvedStep, ToolParams, dict[str, Input]]:
    """Return the tool of a form, its parameters and its files."""
    tool = resolve_tool(form, pins)
    if not isinstance(tool, ResolvedStep):
        raise UsageError(f"{form.name}: {tool.reason}")
    values = {name: given.get(name, default) for name, default in tool.parameters.items()}
    params = tool_params(tool, form.document, values, "")
    return tool, params, tool_files(catalog, form, params)
