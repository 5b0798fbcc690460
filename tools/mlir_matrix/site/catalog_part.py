"""Describe the catalog for the site: its parts, and the routes of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mlir_matrix.browse.references import KINDS, entries_of
from mlir_matrix.catalog.catalog import Catalog, Entry, taken_by
from mlir_matrix.catalog.models.base import Pipeline
from mlir_matrix.environments.session import Session
from mlir_matrix.results.results import TestResult
from mlir_matrix.site.documents import SiteCatalog, SitePart, SiteRoute
from mlir_matrix.site.places import CatalogPlaces
from mlir_matrix.site.routes import named_tests, routes_of
from mlir_matrix.site.support_part import best_part, support_part, with_catalog
from mlir_matrix.support.imports import cached_operators

#: The parts that a site shows: those on the way of a test.
_SHOWN = ("frameworks", "kinds", "steps", "pipelines", "targets", "workloads")


def catalog_documents(session: Session | None, results: Sequence[TestResult]) -> dict[str, Any]:
    """Return what a site shows of the catalog and of what gets through, by the name of the document.

    `support/workload`; with costs `best`; with a catalog `catalog`, `support/operator` and `routes/FRAMEWORK/PIPELINE/TARGET`.

    Arguments:
        session: The catalog; None if there is none at hand.
        results: The last ones (``latest_results``). Tests that the catalog does not have any more have no route.
    """
    documents: dict[str, Any] = {}
    routes: dict[str, SiteRoute] = {}
    if session is not None:
        places = CatalogPlaces(session.catalog)
        tests = named_tests(session, {result.id for result in results})
        cells = routes_of(session, tests, places)
        documents["catalog"] = catalog_part(session.catalog, places)
        documents |= {f"routes/{cell}": document for cell, document in cells.items()}
        routes = {test: route for document in cells.values() for test, route in document["tests"].items()}
        results = list(with_catalog(results, session.catalog, routes))
        documents["support/operator"] = support_part(results, routes, cached_operators(session, tests))
    documents["support/workload"] = support_part(results, routes)
    best = best_part(results)
    return documents | {"best": best} if best else documents


def catalog_part(catalog: Catalog, places: CatalogPlaces) -> SiteCatalog:
    """Return the parts of the catalog by kind of part and name."""
    flows = _flows(catalog)
    return {
        "parts": {
            KINDS[plural]: {
                name: _part(entry, flows[plural, name], places) for name, entry in entries_of(catalog, plural).items()
            }
            for plural in _SHOWN
        }
    }


def _part(entry: Entry[Any], flow: _Flow, places: CatalogPlaces) -> SitePart:
    return {
        "description": " ".join(entry.document.description.split()),
        "position": places.relative(entry.source.position()),
        "url": places.url(entry),
        "takes": list(dict.fromkeys(flow.takes)),
        "gives": list(dict.fromkeys(flow.gives)),
    }


class _Flow(NamedTuple):
    """What a part takes and gives."""

    takes: list[str]
    gives: list[str]


def _flows(catalog: Catalog) -> dict[tuple[str, str], _Flow]:
    """Return what each part takes and gives: kinds; of a kind what gives and takes it, of a workload the frameworks with it."""
    found: dict[tuple[str, str], _Flow] = {}
    for name, framework in catalog.frameworks.items():
        found["frameworks", name] = _Flow([], list(framework.document.emits))
    for name, step in catalog.steps.items():
        kinds = step.document.kinds()
        found["steps", name] = _Flow(list(kinds), list(dict.fromkeys(kinds.values())))
    for name, pipeline in catalog.pipelines.items():
        entries = list(pipeline.document.entry)
        found["pipelines", name] = _Flow(entries, [_end(catalog, pipeline.document, kind) for kind in entries])
    for name, target in catalog.targets.items():
        found["targets", name] = _Flow(taken_by(target.document, catalog.steps), [])
    for name in catalog.kinds:
        makers = [
            each for (plural, each), flow in found.items() if plural in ("frameworks", "steps") and name in flow.gives
        ]
        users = [
            each for (plural, each), flow in found.items() if plural in ("steps", "targets") and name in flow.takes
        ]
        found["kinds", name] = _Flow(makers, users)
    for name, workload in catalog.workloads.items():
        having = [
            each
            for each, framework in catalog.frameworks.items()
            if each not in workload.document.absent
            and not workload.files.keys().isdisjoint(framework.document.emits.values())
        ]
        found["workloads", name] = _Flow([], having)
    return found


def _end(catalog: Catalog, pipeline: Pipeline, kind: str) -> str:
    """Return the kind at the end of a pipeline that begins with a kind."""
    for use in pipeline.route(kind):
        kind = catalog.steps[use.name].document.kind_from(kind)
    return kind
