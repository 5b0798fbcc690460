"""Describe the routes of tests through the catalog as it is now: steps, releases, bounds, expectations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from mlir_matrix.base.names import OF, PINS_MARK, SEGMENTS, split_pins
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.quarantine import ActiveQuarantine, today
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector
from mlir_matrix.expand.select import choose, suites_under, whole_catalog
from mlir_matrix.expand.tolerances import Resolved, ToleranceResolver
from mlir_matrix.site.documents import SiteBound, SiteRoute, SiteRoutes
from mlir_matrix.site.places import CatalogPlaces


def named_tests(session: Session, wanted: Collection[str]) -> list[Test]:
    """Return the tests with these identifiers: as a suite selects them, else as the whole catalog has them, if it does."""
    suites = suites_under(session.catalog, session.pins)
    listed = choose(session.catalog, suites, pins=session.pins).tests() if suites else ()
    found = {test.id: test for test in listed if test.id in wanted}
    # Suites change, and histories have tests of releases that are gone, which name nothing here.
    others = [test for test in wanted if test not in found and _may_exist(test)]
    whole = whole_catalog(session.catalog, (), pins=session.pins)
    return [*found.values(), *filter(None, map(whole.test, others))]


def routes_of(session: Session, tests: Iterable[Test], places: CatalogPlaces) -> dict[str, SiteRoutes]:
    """Return the routes of tests by cell (`FRAMEWORK/PIPELINE/TARGET`)."""
    describe = _Describer(session, places)
    found: dict[str, SiteRoutes] = {}
    for test in tests:
        cell = f"{test.framework}/{test.pipeline}/{test.target}"
        found.setdefault(cell, {"tests": {}})["tests"][test.id] = describe.route(test)
    return found


def _may_exist(test: str) -> bool:
    """Return whether the whole catalog may have a test: properties and pins are stated by suites alone."""
    return test.count("/") == SEGMENTS - 1 and OF not in test and PINS_MARK not in test


class _Describer:
    """Describes the routes of tests. What tests share is one object."""

    def __init__(self, session: Session, places: CatalogPlaces) -> None:
        self._session, self._catalog, self._places = session, session.catalog, places
        self._connector = Connector(session.catalog, session.pins)
        self._tolerances = ToleranceResolver(session.catalog)
        self._quarantine = ActiveQuarantine(session.catalog, today())
        self._bounds: dict[tuple[str, str, int], SiteBound] = {}
        self._releases: dict[str, dict[str, str]] = {}

    def route(self, test: Test) -> SiteRoute:
        """Return the route of a test, or why it has none."""
        environments = dict.fromkeys(_environments(test))
        found: SiteRoute = {
            "steps": self._steps(test),
            "environments": {split_pins(name)[0]: self._of_environment(name) for name in environments},
            "bounds": [self._bound(test, output) for output in self._tolerances.outputs(test)] if test.selected else [],
            "position": self._position(test),
        }
        if test.outcome is not None:
            found["unsupported"] = test.reason
            missing = self._missing(test)
            if missing:
                found["missing"] = missing
        rule = test.expectation
        if rule is not None and rule.outcome is not None:
            found["expectation"] = (rule.outcome, rule.reason, self._places.relative(rule.position))
        for entry, position in self._quarantine.entries(test.id):
            found["quarantine"] = (entry.owner, entry.reason, self._places.relative(position))
        return found

    def _steps(self, test: Test) -> list[tuple[str, str]]:
        """Return each step of a test and the kind that it gives; the first is the importer."""
        if test.resolved_step is not None:
            step = self._catalog.steps[test.pipeline].document
            return [(test.pipeline, " or ".join(dict.fromkeys(step.kinds().values())))]
        if test.route is None:
            return []
        return [(test.framework, test.route.kind), *((step.name, step.gives) for step in test.route.steps)]

    def _position(self, test: Test) -> str:
        entries = self._catalog.steps if test.is_ir else self._catalog.workloads
        name = test.pipeline if test.is_ir else test.workload
        return self._places.relative(entries[name].source.position())

    def _missing(self, test: Test) -> str:
        if test.is_ir:
            return ""
        routes = self._connector.routes(test.framework, test.pipeline, test.target, test.pins)
        return routes.missing if isinstance(routes, Unsupported) else ""

    def _of_environment(self, name: str) -> dict[str, str]:
        found = self._releases.get(name)
        if found is None:
            found = self._releases[name] = self._session.pins_of(name)
        return found

    def _bound(self, test: Test, output: str) -> SiteBound:
        resolved = self._tolerances.of(test, output)
        key = test.workload, output, resolved.matching
        found = self._bounds.get(key)
        if found is None:
            found = self._bounds[key] = self._described(test, output, resolved)
        return found

    def _described(self, test: Test, output: str, resolved: Resolved) -> SiteBound:
        document = self._catalog.workloads[test.workload].document
        limits = [f"atol {resolved.atol_text}", f"rtol {resolved.rtol_text}"]
        if resolved.max_ulp_text is not None:
            limits.append(f"max_ulp {resolved.max_ulp_text}")
        rows = self._tolerances.considered(test, output)
        return {
            "output": output,
            "dtype": output if document.source else document.outputs[output].dtype,
            "bound": ", ".join(limits),
            "layers": [
                (self._places.relative(str(row["layer"])), str(row.get("rationale", row["why"]))) for row in rows
            ],
        }


def _environments(test: Test) -> Iterator[str]:
    """Yield the environments of a test's steps as plans name them, in the order of its actions."""
    if test.resolved_step is not None:
        yield test.resolved_step.environment
    route = test.route
    if route is not None:
        tools = [*filter(None, [route.ingress]), *(step.resolved_step for step in route.steps), route.runner]
        yield from (tool.environment for tool in tools)
        if route.linker:
            yield route.linker
