"""Boxes hold what their globs match; walking gives each test once, in order."""

from __future__ import annotations

import pytest
from catalogs import catalog
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.areas import Area, Box, Rule, Universe, walk
from mlir_matrix.errors import CatalogError
from mlir_matrix.names import test_glob

UNIVERSE = Universe(catalog())
RULE = Rule("block", "f:1:1")
EVERYTHING = [
    (row.framework, row.pipeline, row.target, workload)
    for row in walk(UNIVERSE.everything(RULE))
    for workload in row.column
]
part = st.sampled_from(
    [
        "*",
        "**",
        "pytorch",
        "mlir",
        "onnx",
        "linalg-*",
        "tosa-loops",
        "tile",
        "ir",
        "x86_64",
        "{wasm,gpu}",
        "m?[mp]",
        "t*",
    ]
)
globs = st.lists(part, min_size=1, max_size=5).map("/".join)
names = st.lists(st.sampled_from("abc"), min_size=1, unique=True).map(tuple)
areas = st.builds(Area, names, names, names, names, st.just(RULE))
boxes = st.builds(Box, *[st.frozensets(st.sampled_from("abcd"))] * 4)


def members(area: Area) -> list[tuple[str, str, str, str]]:
    return [
        (f, p, t, w) for f in area.frameworks for p in area.pipelines for t in area.targets for w in area.column
    ]  # fmt: skip


def test_everything_is_all_cells_and_all_ir_tests_once() -> None:
    assert len(EVERYTHING) == len(set(EVERYTHING)) == 4 * 3 * 3 * 3 + 3
    assert ("mlir", "tile", "ir", "mm") in EVERYTHING


@given(globs)
def test_boxes_hold_exactly_what_the_glob_matches(glob: str) -> None:
    try:
        matches = test_glob(glob).matches
    except Exception as error:  # noqa: BLE001 (whatever the glob refuses, boxes refuse alike)
        with pytest.raises(type(error)):
            UNIVERSE.boxes(glob)
        return
    found = UNIVERSE.boxes(glob)
    for test in EVERYTHING:
        assert any(test in box for box in found) == matches("/".join(test))


@given(globs)
def test_areas_of_boxes_are_the_matching_tests(glob: str) -> None:
    try:
        matches = test_glob(glob).matches
    except Exception:  # noqa: BLE001 (tested above)
        return
    found = {test for box in UNIVERSE.boxes(glob) for area in UNIVERSE.areas(box, RULE) for test in members(area)}
    assert found == {test for test in EVERYTHING if matches("/".join(test))}


@given(st.lists(areas, max_size=4), st.none() | st.lists(boxes, max_size=3), st.lists(boxes, max_size=3))
def test_walking_gives_each_selected_test_once_in_order(
    parts: list[Area], select: list[Box] | None, marks: list[Box]
) -> None:
    expected = dict.fromkeys(
        test for area in parts for test in members(area) if select is None or any(test in box for box in select)
    )
    rows = list(walk(parts, select, marks))
    assert [(r.framework, r.pipeline, r.target, w) for r in rows for w in r.column] == list(expected)
    for row in rows:
        assert row.column
        for workload in row.column:
            test = (row.framework, row.pipeline, row.target, workload)
            assert next(area for area in parts if test in area) is row.area
            assert [b for b in row.marks if workload in b.workloads] == [b for b in marks if test in b]


@given(areas, boxes)
def test_an_area_touches_a_box_when_they_share_a_test(area: Area, box: Box) -> None:
    assert area.touches(box) == any(test in box for test in members(area))


def test_exact_takes_every_character_literally() -> None:
    (box,) = UNIVERSE.exact("*/[/{/?")
    assert ("*", "[", "{", "?") in box
    assert not UNIVERSE.exact("a/b/c")


@pytest.mark.parametrize(
    ("glob", "why"),
    [
        ("pytorhc/**", "there is no framework 'pytorhc'; did you mean 'pytorch'?"),
        ("*/*/*/q*", "no workload matches 'q*'"),
        ("jax/*/ir/*", "the catalog has no test with this combination"),
    ],
)
def test_why_a_glob_matches_nothing(glob: str, why: str) -> None:
    assert UNIVERSE.why_nothing(glob) == why


def test_no_target_may_take_the_name_of_ir_tests() -> None:
    with pytest.raises(CatalogError, match=r"^targets/ir\.yaml:1:1: no target can be called ir"):
        Universe(catalog(targets={"ir": "accepts: [object]"}))
