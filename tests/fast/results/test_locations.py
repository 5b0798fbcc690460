"""Locations in the folder of an action become those of files that a person can open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.plan.graph import File, Graph, Produced
from mlir_matrix.results.locations import kept_names, locations_of

ROOTS = (Path("/ours"), Path("/acme"))
IR = "/kept/01-import-mlir-w-linalg.mlir"


@pytest.fixture
def graph() -> Graph:
    graph = Graph()
    common: Any = {"stage": "lower", "environment": "mlir", "params": {}}
    graph.add(
        "import/mlir/w",
        tool="take_in",
        inputs={"source": File(1, "w/linalg.mlir")},
        outputs={"out": "linalg.mlir"},
        **common,
    )
    (first,) = graph.actions
    inputs = {"ir": Produced(first, "out"), "schedule": File(0, "recipes/schedule.mlir")}
    graph.add("tile", tool="passes", inputs=inputs, outputs={"ir": "tiled.mlir"}, **common)
    return graph


@pytest.mark.parametrize(
    ("said", "shown", "position"),
    [
        ('error: e\n  at loc("in/ir.mlir":13:7)', f"error: e\n  at {IR}:13:7", f"{IR}:13:7"),
        ("in/ir.mlir:3:5: error: e", f"{IR}:3:5: error: e", f"{IR}:3:5"),
        ('loc(fused["in/ir.mlir":1:2])', f'loc(fused["{IR}":1:2])', ""),
        ('  at loc("schedule.mlir":4:5)', "  at recipes/schedule.mlir:4:5", "recipes/schedule.mlir:4:5"),
        ("main/in/ir.mlir:1:1 in/ir.mlir2", "main/in/ir.mlir:1:1 in/ir.mlir2", ""),
    ],
)  # fmt: skip
def test_ir_is_in_the_kept_folder_and_a_schedule_in_the_catalog(
    graph: Graph, said: str, shown: str, position: str
) -> None:
    _, last = graph.actions
    locate = locations_of(graph, last, last, ROOTS, "/kept")
    assert locate(said) == shown
    assert locate.first(shown) == position


def test_what_is_not_kept_has_no_place(graph: Graph) -> None:
    _, last = graph.actions
    locate = locations_of(graph, last, last, ROOTS, "")
    shown = locate('loc("in/ir.mlir":13:7)')
    assert (shown, locate.first(shown)) == ("in/ir.mlir:13:7", "")


def test_a_traceback_ends_in_the_innermost_frame_of_a_catalogs_file(graph: Graph) -> None:
    first, last = graph.actions
    locate = locations_of(graph, last, first, ROOTS, "")
    shown = locate(
        '  File "in/linalg.mlir", line 3, in f\n  File "in/linalg.mlir", line 7, in g\n  File "x.py", line 9, in h'
    )
    assert locate.first(shown) == "/acme/w/linalg.mlir:7"


def test_a_test_with_run_lines_is_read_through_a_copy() -> None:
    graph = Graph()
    inputs = {"artifact": File(1, "tests/sum.mlir"), "tool": File(0, "lit/run.py")}
    last = graph.add(
        "lit/w",
        tool="python_file",
        stage="run",
        environment="lit",
        params={},
        inputs=inputs,
        outputs={"verdict": "v.json"},
    )
    locate = locations_of(graph, last, last, ROOTS, "")
    assert locate.first(locate("test.mlir:4:3: error: e")) == "/acme/tests/sum.mlir:4:3"


def test_kept_files_are_numbered_in_the_order_of_the_steps(graph: Graph) -> None:
    first, last = graph.actions
    assert kept_names(graph, last) == {first: "01-import-mlir-w", last: "02-tile"}
