"""Composed pipelines are pipelines of a catalog, and failures that are alike have one key."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from mlir_matrix.base.paths import find_home
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from mlir_matrix.fuzz.commands import ROUTES as DEFAULT
from mlir_matrix.fuzz.commands import wanted_by
from mlir_matrix.fuzz.compose import Composer, Coverage
from mlir_matrix.fuzz.findings import key_of
from mlir_matrix.fuzz.profiles import PROFILES
from mlir_matrix.fuzz.programs import write_programs
from mlir_matrix.fuzz.routes import (
    FROM_LOOPS,
    LOWERS_VECTORS,
    PASSES,
    TO_LOOPS,
    ComposedRoute,
    draw_routes,
    write_route,
)
from mlir_matrix.fuzz.session import WantedRoutes
from mlir_matrix.plan.session import session_of
from support.recordings import result

ROOT = Path(__file__).parents[3]
AROUND_LOOPS = {*TO_LOOPS.values(), FROM_LOOPS}


def written(root: Path, routes: Mapping[str, ComposedRoute]) -> dict[str, list[str]]:
    """Write routes; return the passes and steps of each in their order."""
    for name, route in routes.items():
        write_route(root, name, route)
    own_steps = {path.parent.name: json.loads(path.read_text()) for path in root.glob("recipes/steps/*/step.yaml")}
    found = {}
    for path in root.glob("recipes/pipelines/*.yaml"):
        names = [use if isinstance(use, str) else use["step"] for use in json.loads(path.read_text())["steps"]]
        parts = [own_steps[name]["passes"].split(",") if name in own_steps else [name] for name in names]
        found[path.stem] = list(chain(*parts))
    return found


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), WantedRoutes(DEFAULT)),
        (("jax/*/*",), WantedRoutes(("jax/*/*",))),
        (("bufferize",), WantedRoutes(["*/*/*"], "bufferize")),
        (("jax/*/*", "bufferize"), WantedRoutes(["jax/*/*"], "bufferize")),
    ],
)
def test_words_choose_routes_and_a_step(current: Session, words: tuple[str, ...], wanted: WantedRoutes) -> None:
    assert wanted_by(words, current.catalog) == wanted


@pytest.mark.parametrize("wanted", ["linalg-tile-vectorize", "math-expand"])
def test_composed_routes_have_the_step_that_is_wanted(current: Session, tmp_path: Path, wanted: str) -> None:
    names = [
        name
        for seed in range(10)
        for name in written(tmp_path / f"{seed}", draw_routes(current.catalog, 3, random.Random(seed), wanted))
    ]
    assert len(names) == 30
    program = next(Composer("1", PROFILES[0], Coverage()).programs((1, 8)))
    write_programs(tmp_path / "0", {"composed-r0b0": program}, PROFILES[0].sources)
    session = session_of([ROOT, tmp_path / "0"], find_home())
    tests = list(
        choose(session.catalog, ["{mlir,tosa,stablehlo}/composed*/x86_64/composed-r0b0"], pins=session.pins).tests()
    )
    assert len(tests) == 9
    for test in tests:
        assert test.selected, test.reason
        assert test.route
        steps = [step.name for step in test.route.steps]
        assert LOWERS_VECTORS in steps
        assert wanted in steps
        assert any(step.startswith("composed") for step in steps)


def test_inexact_steps_are_used_only_if_they_are_named(current: Session, tmp_path: Path) -> None:
    for seed in range(10):
        written(tmp_path / f"{seed}", draw_routes(current.catalog, 3, random.Random(seed)))
    text = "".join(path.read_text() for path in tmp_path.glob("*/recipes/pipelines/*.yaml"))
    assert "linalg-tile-vectorize" in text
    assert "math-" not in text


def test_a_route_without_one_of_its_passes(current: Session, tmp_path: Path) -> None:
    drawn = draw_routes(current.catalog, 3, random.Random(5))
    whole = written(tmp_path / "whole", drawn)
    for name, parts in whole.items():
        assert drawn[name].parts == {*parts} - {"bufferize", "linalg-to-loops", "loops-to-llvm"} - AROUND_LOOPS
    left_out = min(drawn["composed1"].parts)
    less = written(tmp_path / "less", {name: route.without([left_out]) for name, route in drawn.items()})
    assert less == {name: [part for part in parts if part != left_out] for name, parts in whole.items()}


@pytest.mark.parametrize("kind", TO_LOOPS)
def test_a_route_with_other_loops(tmp_path: Path, kind: str) -> None:
    """It has them also without its passes on these, so that no pass is blamed for what gives the loops."""
    route = ComposedRoute({"linalg": [], "loops": [], kind: [["cse", "canonicalize"]]}, 2, kind)
    less = route.without(["cse"])
    found = written(tmp_path, {"whole": route, "less": less, "none": less.without(["canonicalize"])})
    passes = {"whole": ["cse", "canonicalize"], "less": ["canonicalize"], "none": []}
    assert found == {
        name: ["bufferize", TO_LOOPS[kind], *each, FROM_LOOPS, "loops-to-llvm"] for name, each in passes.items()
    }


def test_loops_of_scf_if_their_step_is_wanted(current: Session) -> None:
    for seed in range(10):
        drawn = draw_routes(current.catalog, 3, random.Random(seed), "linalg-to-loops")
        assert not any(route.loops for route in drawn.values())


def test_passes_are_named_once() -> None:
    for passes in PASSES.values():
        assert len(set(passes)) == len(passes)


def test_a_key_does_not_depend_on_the_program() -> None:
    first, second, other = (
        key_of(result("a", "lower-failed", reason), 0)
        for reason in (
            "s: 'memref.cast' of 'memref<2xf32>'",
            "s: 'memref.cast' of 'memref<7x2xi1>'",
            "s: 'scf.for' fails",
        )
    )
    assert first == second != other
    origins = ("linalg.generic", "linalg.select")
    first, second = (
        key_of(result("a", "lower-failed", f"s: operand #0 does not dominate this use, from '{origin}'"), 0)
        for origin in origins
    )
    assert first == second
    types = ("vector<[4]xf32>", "vector<[16]xf16>", "vector<2x[4]xi1>", "vector<[2]xcomplex<f32>>")
    assert len({key_of(result("a", "lower-failed", f"s: '{type}' fails"), 0) for type in types}) == 1
    operations = ("matmul_4x4x4_f32", "matmul_4x4x4_f16")
    assert len({key_of(result("a", "lower-failed", f"s: '{name}' fails"), 0) for name in operations}) == 2
    shapes = ("[13,16,2]", "[4]")
    first, second = (
        key_of(result("a", "lower-failed", f"s: 'torch.aten.atan' on !torch.vtensor<{shape},f64>"), 0)
        for shape in shapes
    )
    assert first == second


def test_wrong_results_are_one_finding_by_route() -> None:
    """A composed route is another one in each round."""
    named = {"framework": "mlir", "target": "x86_64"}
    keys = [
        key_of(replace(result(name, "mismatch", name), pipeline="linalg-loops", **named), round)
        for name, round in (("a", 0), ("b", 1))
    ]
    assert keys[0] == keys[1]
    for outcome in ("run-failed", "crashed"):
        steps = ({"name": f"run/{name}", "action": f"run/{name}-1"} for name in ("a", "b"))
        keys = [key_of(result(step["name"][-1], outcome, "it ended", step=step), 0) for step in steps]
        assert keys[0] == keys[1]
    imports = ({"name": f"import/{name}", "action": "import-1"} for name in ("jax/a", "jax/b", "pytorch/a"))
    keys = [key_of(result("a", "import-failed", "no such operator", step=step), 0) for step in imports]
    assert keys[0] == keys[1] != keys[2]
    keys = [key_of(replace(result("a", "mismatch"), pipeline="composed0", **named), round) for round in (0, 0, 1)]
    assert keys[0] == keys[1] != keys[2]
