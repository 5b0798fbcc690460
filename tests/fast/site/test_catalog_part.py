"""What a site says of the catalog: parts, routes, and where files are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Expansion, Test
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.explain.explanation import explain, route_json
from mlir_matrix.plan.session import plan_tests
from mlir_matrix.site.catalog_part import catalog_part
from mlir_matrix.site.documents import SiteRoute
from mlir_matrix.site.places import CatalogPlaces, Clone, page_of_remote
from mlir_matrix.site.routes import named_tests, routes_of

_UNKNOWN = Clone("", "", frozenset())
_WITHOUT_ROUTE = "c/linalg-loops/x86_64/mlp"
#: Tests that the catalog does not have.
_GONE = ("a/b/c/d", "no test", "pytorch/linalg-loops/x86_64/mlp@llvm=1", "pytorch/linalg-loops/x86_64/mlp~gone")


def _places(session: Session, clone: Clone = _UNKNOWN) -> CatalogPlaces:
    return CatalogPlaces(session.catalog, dict.fromkeys(session.catalog.roots, clone))


@dataclass(frozen=True)
class _Named:
    """The routes of some tests, which were asked for at once: each search goes through all suites."""

    expansion: Expansion
    #: Tests that run.
    chosen: Sequence[Test]
    expected: Test
    ir_test: Test
    routes: Mapping[str, SiteRoute]


@pytest.fixture(scope="module")
def named(current: Session) -> _Named:
    (expansion,) = choose(current.catalog, ["everything"]).expansions
    tests = list(expansion.tests())
    chosen = [test for test in tests if test.executes and test.selected][::800]
    expected = next(test for test in tests if test.expectation)
    ir_test = next(test for test in tests if test.is_ir)
    wanted = [*(test.id for test in (*chosen, expected, ir_test)), _WITHOUT_ROUTE, *_GONE]
    cells = routes_of(current, named_tests(current, wanted), _places(current))
    routes = {name: route for cell in cells.values() for name, route in cell["tests"].items()}
    return _Named(expansion, chosen, expected, ir_test, routes)


def test_routes_are_those_of_explain_and_plan(current: Session, named: _Named) -> None:
    assert len(named.chosen) > 10
    tolerances = ToleranceResolver(current.catalog)
    for test in named.chosen:
        route, shown = explain(current.catalog, named.expansion, test.id).test.route, named.routes[test.id]
        assert route is not None
        steps = [(step["step"], step["gives"]) for step in route_json(route)["steps"]]
        assert shown["steps"] == [(test.framework, route.kind), *steps]
        planned = {
            action.environment.partition("@")[0] for action in plan_tests(current, [test]).graph.actions.values()
        }
        # Actions beside the route make inputs, programs of a foreign form, and verdicts.
        assert shown["environments"].keys() <= planned | {"python"}
        for bound in shown["bounds"]:
            assert bound["layers"][-1][0] == tolerances.of(test, bound["output"]).location


def test_a_test_without_a_route_names_the_contract_that_is_missing(named: _Named) -> None:
    shown = named.routes[_WITHOUT_ROUTE]
    assert shown["steps"] == []
    assert shown["unsupported"] == "c emits llvm-ir; linalg-loops takes linalg, torch, torch-onnx or stablehlo"
    assert shown["missing"] == "linalg, torch, torch-onnx or stablehlo"


def test_tests_that_the_catalog_does_not_have_are_left_out(named: _Named) -> None:
    there = {test.id for test in (*named.chosen, named.expected, named.ir_test)}
    assert named.routes.keys() == {*there, _WITHOUT_ROUTE}


def test_a_test_has_its_expectation_and_an_ir_test_its_step(named: _Named) -> None:
    expected, ir_test = named.expected, named.ir_test
    assert expected.expectation is not None
    assert named.routes[expected.id]["expectation"][2] == expected.expectation.position
    assert named.routes[ir_test.id]["steps"][0][0] == ir_test.pipeline


def test_parts_have_what_gives_and_takes_them(current: Session) -> None:
    parts = catalog_part(current.catalog, _places(current))["parts"]
    linalg = parts["kind"]["linalg"]
    assert {"mlir", "torch-to-linalg"} <= {*linalg["takes"]}
    assert "bufferize" in linalg["gives"]
    assert parts["framework"]["jax"]["gives"] == ["stablehlo"]
    assert parts["pipeline"]["linalg-loops"]["gives"] == ["llvm"]
    assert {"object", "llvm"} <= {*parts["target"]["x86_64"]["takes"]}
    assert "pytorch" in parts["workload"]["mlp"]["gives"]
    for kind, named in (("framework", "frameworks"), ("step", "steps"), ("workload", "workloads")):
        assert parts[kind].keys() == getattr(current.catalog, named).keys()


def test_positions_are_relative_to_their_catalog(current: Session) -> None:
    catalog = replace(current.catalog, roots=(*current.catalog.roots, Path("/home/me/acme")))
    assert CatalogPlaces(catalog).relative("/home/me/acme/recipes/a.yaml:3:1") == "recipes/a.yaml:3:1"
    assert CatalogPlaces(catalog).relative("/home/me/acmes/a.yaml:3:1") == "/home/me/acmes/a.yaml:3:1"


def test_an_entry_is_shown_by_its_code_host(current: Session) -> None:
    entry = current.catalog.kinds["linalg"]
    clone = Clone("https://github.com/a/b/blob/0123", "sub dir", frozenset({"recipes/kinds/loops.yaml"}))
    places = _places(current, clone)
    assert places.url(entry) == "https://github.com/a/b/blob/0123/sub%20dir/recipes/kinds/linalg.yaml#L1"
    assert places.url(current.catalog.kinds["loops"]) == ""
    assert _places(current).url(entry) == ""


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://github.com/acme/models.git", "https://github.com/acme/models"),
        ("https://user:secret@git.acme.org/group/sub/models", "https://git.acme.org/group/sub/models"),
        ("git@github.com:acme/models.git", "https://github.com/acme/models"),
        ("ssh://git@git.acme.org:2222/acme/models.git/", "https://git.acme.org/acme/models"),
        ("/srv/git/models.git", ""),
        ("file:///srv/git/models.git", ""),
        ("me@server:models.git", ""),
        ("../models", ""),
        ("https://github.com/<script>/x", ""),
        ("javascript:alert(1)//github.com/a/b", ""),
        ("", ""),
    ],
)
def test_only_a_code_host_has_a_page(remote: str, page: str) -> None:
    assert page_of_remote(remote) == page
