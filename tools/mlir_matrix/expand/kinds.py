"""Resolve the contract of a kind: with that of what it extends, for the releases of an environment."""

from __future__ import annotations

from collections.abc import Iterable

from mlir_matrix.actions.params import Contract
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Kind
from mlir_matrix.catalog.pins import release_of
from mlir_matrix.expand.recipes import ResolvedStep, matching_variant


def lineage(catalog: Catalog, kind: str) -> list[Entry[Kind]]:
    """Return a kind and what it extends, the kind itself last. Stop at an unknown kind and at a circle, which checks report."""
    found: dict[str, Entry[Kind]] = {}
    name = kind
    while name in catalog.kinds and name not in found:
        found[name] = catalog.kinds[name]
        name = found[name].document.extends or ""
    return [*found.values()][::-1]


def contract_of(catalog: Catalog, kind: str, made_by: ResolvedStep, *, alone: bool = False) -> Contract | None:
    """Return what IR of a kind is held to; None for a kind without a contract.

    ``made_by``: the step or importer that gives the IR. ``alone``: the step runs on IR that needs no ``@main``.
    """
    documents = [entry.document for entry in lineage(catalog, kind)]
    found: Contract = {"kind": kind}
    allow = _joined(document.ops.allow for document in documents if document.ops)
    forbid = _joined(document.ops.forbid for document in documents if document.ops)
    types = _joined(document.types.forbid for document in documents)
    if allow:
        found["allow"] = allow
    if forbid:
        found["forbid"] = forbid
    if types:
        found["types"] = types
    mains = [document.main for document in documents if document.main]
    if mains and not alone:
        found["main"] = mains[-1]
    if any(document.canonical for document in documents):
        canonical = _canonical(catalog, documents, made_by)
        if canonical:
            found["canonical"] = canonical
    has_contract = len(found) > 1 or any(document.ops for document in documents)
    return found if has_contract else None


def _joined(lists: Iterable[Iterable[str]]) -> list[str]:
    return [*dict.fromkeys(each for names in lists for each in names)]


def _canonical(catalog: Catalog, documents: Iterable[Kind], made_by: ResolvedStep) -> list[str]:
    """Return the passes that change nothing, of each kind the first that match the releases."""
    releases = {name: release_of(catalog.components[name], release) for name, release in made_by.pins}
    found = []
    for document in documents:
        index = matching_variant(document.canonical, releases)
        if index is not None:
            found.append(" ".join(document.canonical[index].passes.split()))
    return found
